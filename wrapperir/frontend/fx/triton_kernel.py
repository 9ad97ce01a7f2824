"""Triton kernels in PyTorch's side table: parameters, constants, stand-alone source."""

# Triton and PyTorch's wrapper of it carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
# pyright: reportMissingTypeStubs=false

import ast
import builtins
import inspect
import textwrap
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import torch
import triton.language as tl
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend.aten.values import lower_dtype
from wrapperir.frontend.fx.state import example_of
from wrapperir.frontend.inductor.cpu_triton import written_tensors
from wrapperir.frontend.inductor.triton_kernel import IMPORTS, config_values

_I32 = range(-(2**31), 2**31)
_I64 = range(-(2**63), 2**63)


def lower_triton_definition(
    node: torch.fx.Node, kernel: Any, given: Mapping[str, Any]
) -> wir.KernelDefinitionLine:
    """Return the definition of a kernel as a call uses it, without a grid.

    The kinds of parameters follow from the arguments of the call.  The kernel's own configs
    are kept, the preferred one first.

    Raises:
        DiagnosticError: WIR607, the kernel has no form in a program.
    """
    function, configs = _function(kernel)
    defaults = {p.name: p.default for p in function.params if p.has_default}
    values = {**defaults, **given}
    tuned = {name for config in configs for name, _ in config.values}
    examples = {name: _example(value) for name, value in given.items()}
    descriptors: Any = node.kwargs["tma_descriptor_metadata"]
    access = written_tensors(kernel, examples, descriptors)
    blocks = _blocks(descriptors)
    parameters: list[wir.Parameter] = []
    constants: dict[str, wir.Constant] = {}
    for parameter in function.params:
        name = parameter.name
        if name in tuned:
            parameters.append(wir.ConstexprParameter(name))
            continue
        if name not in values:
            raise _unreadable(f"a call of {function.__name__} gives no {name}")
        value = values[name]
        if parameter.is_constexpr or value is None or isinstance(value, str):
            constants[name] = _constant(name, value)
            parameters.append(wir.ConstexprParameter(name))
        elif isinstance(example := _example(value), torch.Tensor):
            dtype = lower_dtype(example.dtype)
            mode = access.get(name, wir.Access.READ)
            if name in blocks:
                parameters.append(wir.DescriptorParameter(name, dtype, blocks[name], mode))
            else:
                parameters.append(wir.BufferParameter(name, dtype, mode))
        else:
            parameters.append(wir.ScalarParameter(name, _scalar_dtype(value)))
    own = {parameter.name for parameter in function.params}
    options = {name: _option(name, v) for name, v in given.items() if name not in own}
    return wir.KernelDefinitionLine(
        name=function.__name__,
        language=wir.Language.TRITON,
        parameters=tuple(parameters),
        constants=tuple(constants.items()),
        configs=_with_options(configs, options),
        entry=function.__name__,
        source=_stand_alone_source(function),
    )


_ADVICE = "make the graph again, or call the kernel by an operator of your own"


def _unreadable(message: str, hint: str = _ADVICE) -> DiagnosticError:
    return Code.UNKNOWN_KERNEL.error(message, hint=hint)


def _function(kernel: Any) -> tuple[Any, tuple[wir.KernelConfig, ...]]:
    if isinstance(kernel, JITFunction):
        return kernel, ()
    if isinstance(kernel, Autotuner) and isinstance(kernel.fn, JITFunction):
        if kernel.reset_to_zero or kernel.restore_value:
            raise _unreadable(f"tuning {kernel.fn.__name__} changes its arguments")
        if any(config.pre_hook is not None for config in kernel.configs):
            raise _unreadable(f"a config of {kernel.fn.__name__} has a hook")
        return kernel.fn, tuple(map(config_values, kernel.configs))
    raise _unreadable(f"a {type(kernel).__name__} is not a Triton kernel of a known form")


def _with_options(
    configs: tuple[wir.KernelConfig, ...], options: Mapping[str, wir.ConfigValue]
) -> tuple[wir.KernelConfig, ...]:
    if not configs:
        return (wir.KernelConfig(tuple(options.items())),) if options else ()
    return tuple(
        wir.KernelConfig(tuple({**dict(config.values), **options}.items()))
        for config in configs
    )


def _constant(name: str, value: Any) -> wir.Constant:
    value = _example(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise _unreadable(f"{name} is a {type(value).__name__}, which is not a constant")


def _option(name: str, value: Any) -> wir.ConfigValue:
    constant = _constant(name, value)
    if constant is None:
        raise _unreadable(f"the option {name} is None")
    return constant


def _scalar_dtype(value: Any) -> wir.DType:
    example = _example(value)
    if isinstance(example, bool | torch.SymBool):
        return wir.DType.BOOL
    if isinstance(example, float | torch.SymFloat):
        return wir.DType.F32
    if isinstance(value, int):
        return (
            wir.DType.I32
            if value in _I32
            else wir.DType.I64
            if value in _I64
            else wir.DType.U64
        )
    return wir.DType.I64


def _blocks(metadata: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the block of each tensor descriptor."""
    blocks: dict[str, tuple[int, ...]] = {}
    for name, (kind, facts) in metadata.items():
        if kind != "stable" or not all(isinstance(n, int) for n in facts[0]):
            raise _unreadable(f"the tensor descriptor {name} is of no known form")
        blocks[name] = tuple(facts[0])
    return blocks


def _example(value: Any) -> Any:
    return example_of(value) if isinstance(value, torch.fx.Node) else value


_GIVEN = frozenset({"tl", "triton"})
_LIBRARIES = ("triton", "torch")


def _stand_alone_source(function: Any) -> str:
    """Return the source of a kernel with the imports, constants and functions it uses.

    Raises:
        DiagnosticError: WIR607, it uses something that has no source text.
    """
    imports: dict[str, None] = {}
    parts: list[str] = []
    _add(function, imports, parts, {})
    text = "\n\n".join(parts)
    return "\n".join([*imports, "", text]) if imports else text


def _add(
    function: Any, imports: dict[str, None], parts: list[str], seen: dict[str, object]
) -> None:
    source = f"@triton.jit\n{textwrap.dedent(function.src).rstrip()}\n"
    seen[function.__name__] = function
    outside = _outside(function)
    for name in _names(source):
        if name not in outside or name in _GIVEN:
            continue
        value = outside[name]
        if name in seen:
            if seen[name] is not value:
                raise _uses(function, name, "two values in the functions it calls")
            continue
        seen[name] = value
        if (text := _import(name, value)) is not None:
            imports[text] = None
        elif isinstance(value, JITFunction):
            if value.__name__ != name:
                raise _uses(function, name, "another name where it is defined")
            _add(value, imports, parts, seen)
        elif (text := _constant_text(value)) is not None:
            parts.append(f"{name} = {text}\n")
        else:
            raise _uses(function, name, f"a {type(value).__name__}")
    parts.append(source)


def _outside(function: Any) -> dict[str, object]:
    closed = inspect.getclosurevars(function.fn).nonlocals
    return {**function.fn.__globals__, **closed}


def _names(source: str) -> list[str]:
    """Return the names that a function uses and does not define, in their order."""
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.FunctionDef)
    nodes = [node for node in ast.walk(definition) if isinstance(node, ast.Name)]
    local = {arg.arg for arg in ast.walk(definition) if isinstance(arg, ast.arg)}
    local |= {node.id for node in nodes if isinstance(node.ctx, ast.Store)}
    own = {definition.name, *dir(builtins)}
    return [name for name in dict.fromkeys(n.id for n in nodes) if name not in local | own]


def _import(name: str, value: object) -> str | None:
    """Return the import statement for a value of Triton or PyTorch."""
    if name in IMPORTS and isinstance(value, ModuleType):
        return IMPORTS[name]
    if isinstance(value, ModuleType):
        if value.__name__.split(".")[0] in _LIBRARIES:
            return f"import {value.__name__} as {name}"
        return None
    module = getattr(value, "__module__", None)
    own = getattr(value, "__name__", None)
    if not isinstance(module, str) or not isinstance(own, str):
        return None
    if module.split(".")[0] not in _LIBRARIES or module.startswith(
        "torch._inductor.runtime.compile_tasks"
    ):
        return None
    return f"from {module} import {own}" + ("" if own == name else f" as {name}")


def _constant_text(value: object) -> str | None:
    if isinstance(value, tl.constexpr):
        inner = _constant_text(value.value)
        return None if inner is None else f"tl.constexpr({inner})"
    if isinstance(value, tl.dtype):
        name = str(value)
        names = {str(dtype): key for key, dtype in vars(tl).items() if dtype == value}
        return f"tl.{names[name]}" if name in names else None
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    return None


def _uses(function: Any, name: str, what: str) -> DiagnosticError:
    return _unreadable(
        f"kernel {function.__name__} uses {name}, which is {what}",
        "give it to the kernel as a constexpr argument",
    )
