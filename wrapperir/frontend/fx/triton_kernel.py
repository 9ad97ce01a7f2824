"""Triton kernels in PyTorch's side table: parameters, constants and access modes."""

# Triton and PyTorch's wrapper of it carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
# pyright: reportMissingTypeStubs=false

from collections.abc import Mapping
from typing import Any

import torch
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend.aten.values import lower_dtype
from wrapperir.frontend.fx.state import example_of
from wrapperir.frontend.fx.triton_source import stand_alone_source
from wrapperir.frontend.inductor.cpu_triton import written_tensors
from wrapperir.ir import (
    Access,
    BufferParameter,
    ConfigValue,
    Constant,
    ConstexprParameter,
    DescriptorParameter,
    DType,
    KernelConfig,
    KernelDefinitionLine,
    Language,
    Parameter,
    ScalarParameter,
)

_I32 = range(-(2**31), 2**31)
_I64 = range(-(2**63), 2**63)


def lower_triton_definition(
    node: torch.fx.Node, kernel: Any, given: Mapping[str, Any]
) -> KernelDefinitionLine:
    """Return the definition of a kernel as a call uses it, without a grid.

    The kinds of parameters follow from the arguments of the call.  The kernel's own configs
    are kept, the preferred one first.

    Raises:
        DiagnosticError: WIR607, the kernel has no form in a program.
    """
    function, configs = _function(kernel)
    values = {**_defaults(function), **given}
    tuned = {name for config in configs for name, _ in config.values}
    blocks = _blocks(node)
    access = _accesses(node, kernel, given)
    parameters: list[Parameter] = []
    constants: dict[str, Constant] = {}
    for parameter in function.params:
        name = parameter.name
        if name in tuned:
            parameters.append(ConstexprParameter(name))
            continue
        if name not in values:
            raise _unreadable(f"a call of {function.__name__} gives no {name}")
        value = values[name]
        if parameter.is_constexpr or value is None or isinstance(value, str):
            constants[name] = _constant(name, value)
            parameters.append(ConstexprParameter(name))
        elif isinstance(value, torch.fx.Node) and _is_tensor(value):
            dtype = lower_dtype(example_of(value).dtype)
            mode = access.get(name, Access.READ)
            if name in blocks:
                parameters.append(DescriptorParameter(name, dtype, blocks[name], mode))
            else:
                parameters.append(BufferParameter(name, dtype, mode))
        else:
            parameters.append(ScalarParameter(name, _scalar_dtype(value)))
    own = {parameter.name for parameter in function.params}
    options = {name: _option(name, v) for name, v in given.items() if name not in own}
    return KernelDefinitionLine(
        name=function.__name__,
        language=Language.TRITON,
        parameters=tuple(parameters),
        constants=tuple(constants.items()),
        configs=_with_options(configs, options),
        entry=function.__name__,
        source=stand_alone_source(function),
    )


def _unreadable(message: str) -> DiagnosticError:
    return DiagnosticError.of(
        Code.UNKNOWN_KERNEL,
        message,
        hint="make the graph again, or call the kernel by an operator of your own",
    )


def _function(kernel: Any) -> tuple[Any, tuple[KernelConfig, ...]]:
    if isinstance(kernel, JITFunction):
        return kernel, ()
    if isinstance(kernel, Autotuner) and isinstance(kernel.fn, JITFunction):
        if kernel.reset_to_zero or kernel.restore_value:
            raise _unreadable(f"tuning {kernel.fn.__name__} changes its arguments")
        if any(config.pre_hook is not None for config in kernel.configs):
            raise _unreadable(f"a config of {kernel.fn.__name__} has a hook")
        return kernel.fn, tuple(KernelConfig(_values(c)) for c in kernel.configs)
    raise _unreadable(f"a {type(kernel).__name__} is not a Triton kernel of a known form")


def _values(config: Any) -> tuple[tuple[str, ConfigValue], ...]:
    values = {
        **config.kwargs,
        "num_warps": config.num_warps,
        "num_stages": config.num_stages,
    }
    return tuple(values.items())


def _with_options(
    configs: tuple[KernelConfig, ...], options: Mapping[str, ConfigValue]
) -> tuple[KernelConfig, ...]:
    if not configs:
        return (KernelConfig(tuple(options.items())),) if options else ()
    return tuple(
        KernelConfig(tuple({**dict(config.values), **options}.items()))
        for config in configs
    )


def _defaults(function: Any) -> dict[str, Any]:
    return {p.name: p.default for p in function.params if p.has_default}


def _is_tensor(node: torch.fx.Node) -> bool:
    return isinstance(example_of(node), torch.Tensor)


def _constant(name: str, value: Any) -> Constant:
    if isinstance(value, torch.fx.Node):
        value = example_of(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise _unreadable(f"{name} is a {type(value).__name__}, which is not a constant")


def _option(name: str, value: Any) -> ConfigValue:
    constant = _constant(name, value)
    if constant is None:
        raise _unreadable(f"the option {name} is None")
    return constant


def _scalar_dtype(value: Any) -> DType:
    example = example_of(value) if isinstance(value, torch.fx.Node) else value
    if isinstance(example, bool | torch.SymBool):
        return DType.BOOL
    if isinstance(example, float | torch.SymFloat):
        return DType.F32
    if isinstance(value, int):
        return DType.I32 if value in _I32 else DType.I64 if value in _I64 else DType.U64
    return DType.I64


def _blocks(node: torch.fx.Node) -> dict[str, tuple[int, ...]]:
    """Return the block of each tensor descriptor."""
    metadata: Any = node.kwargs["tma_descriptor_metadata"]
    blocks: dict[str, tuple[int, ...]] = {}
    for name, (kind, facts) in metadata.items():
        if kind != "stable" or not all(isinstance(n, int) for n in facts[0]):
            raise _unreadable(f"the tensor descriptor {name} is of no known form")
        blocks[name] = tuple(facts[0])
    return blocks


def _accesses(
    node: torch.fx.Node, kernel: Any, given: Mapping[str, Any]
) -> dict[str, Access]:
    examples = {
        name: example_of(value) if isinstance(value, torch.fx.Node) else value
        for name, value in given.items()
    }
    return written_tensors(kernel, examples, node.kwargs["tma_descriptor_metadata"])
