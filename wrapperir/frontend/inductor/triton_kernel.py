"""Triton kernels: plain ``@triton.jit`` source, with grid and configs as data."""

import ast
import copy
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any
from unittest import mock

import sympy
from attrs import evolve
from torch._inductor.codegen.wrapper import KernelCallLine
from torch._inductor.runtime import hints, triton_heuristics

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.frontend.inductor.triton_grid import (
    Grid,
    grid_of_configs,
    lower_grid,
    number_over,
    simplified,
)

_DTYPES = {
    **{x.triton_name: x for x in wir.DType if x.triton_name is not None},
    "i1": wir.DType.BOOL,
    # A size of one, which Inductor has the compiler fold.
    "constexpr": wir.DType.I32,
}

IMPORTS = {
    "triton_helpers": "from torch._inductor.runtime import triton_helpers",
    "libdevice": "from torch._inductor.runtime.triton_helpers import libdevice",
    "tl_math": "from torch._inductor.runtime.triton_helpers import math as tl_math",
    "math": "from torch._inductor.runtime.triton_helpers import math",
}
"""The imports of what Inductor's kernels call; tl and triton are there for every kernel."""


def lower_triton_kernel(
    name: str, source: str, call: KernelCallLine, written: frozenset[str] | None
) -> wir.KernelDefinitionLine:
    """Return the definition of a Triton kernel.

    The source is without Inductor's decorator that picks configs, and its imports.
    ``written`` are the parameters that a user's kernel writes; for Inductor's kernels, the
    names of parameters tell.

    Raises:
        DiagnosticError: WIR654, the kernel is not as Inductor writes them.
    """
    module = ast.parse(source)
    function, decorator = _entry(name, module)
    triton_meta: Mapping[str, Any] = call.triton_meta
    inductor_meta: Mapping[str, Any] = call.inductor_meta or {}
    constants = dict(triton_meta.get("constants", {}))
    parameters = _lower_parameters(
        function, triton_meta["signature"], constants, written, inductor_meta
    )
    constexprs = frozenset(
        p.name for p in parameters if isinstance(p, wir.ConstexprParameter)
    )
    bound: dict[str, wir.Constant] = {
        key: value for key, value in constants.items() if key in constexprs
    }
    fixed = _assigned_names(function)
    options = _launch_options(triton_meta, inductor_meta, source)
    # A split scan is tuned with its fixed block too.
    configs = [
        wir.KernelConfig((*(pair for pair in c.values if pair[0] not in fixed), *options))
        for c in heuristic_configs(decorator, triton_meta, inductor_meta)
    ]
    definition = wir.KernelDefinitionLine(
        name=name,
        language=wir.Language.TRITON,
        parameters=parameters,
        constants=tuple(bound.items()),
        configs=tuple(dict.fromkeys(configs)),
        entry=function.name,
        metadata=(("inductor.heuristic", _attribute(decorator)),),
        source=_plain_source(source, module, function, decorator),
    )
    return with_launch_grid(definition, call)


def _assigned_names(function: ast.FunctionDef) -> frozenset[str]:
    """Return the constants that a kernel defines in its own body."""
    return frozenset(
        statement.target.id
        for statement in function.body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    )


def _launch_options(
    triton_meta: Mapping[str, Any], inductor_meta: Mapping[str, Any], source: str
) -> tuple[tuple[str, wir.ConfigValue], ...]:
    """Return the launch options of all configs that differ from Triton's defaults."""
    options: dict[str, wir.ConfigValue] = {
        name: True
        for name in ("launch_cooperative_grid", "launch_pdl")
        if triton_meta.get(name)
    }
    if not triton_meta.get("enable_fp_fusion", True):
        options["enable_fp_fusion"] = False
    if triton_meta.get("disable_ftz"):
        options["enable_reflect_ftz"] = False
    # Triton leaves asserts out unless it is told to debug, which checks integers too.
    if "tl.device_assert(" in source and inductor_meta.get(
        "assert_indirect_indexing", True
    ):
        options |= {"debug": True, "sanitize_overflow": False}
    return tuple(options.items())


_LOCK = threading.Lock()


def heuristic_configs(
    decorator: ast.Call, triton_meta: Mapping[str, Any], inductor_meta: Mapping[str, Any]
) -> tuple[wir.KernelConfig, ...]:
    """Return the configs of a kernel, the preferred one first.

    ``decorator`` is the call of the heuristic above the kernel, as Inductor writes it;
    the two tables in it are given apart, as data.

    Raises:
        DiagnosticError: WIR654, an argument of the heuristic is of an unknown form.
    """
    assert isinstance(decorator.func, ast.Attribute)
    heuristic = getattr(triton_heuristics, decorator.func.attr)
    arguments: dict[str, Any] = {
        keyword.arg: _value(keyword.value)
        for keyword in decorator.keywords
        if keyword.arg not in (None, "filename", "triton_meta", "inductor_meta")
    }
    chosen: list[Any] = []

    def record(size_hints: Any, configs: list[Any], **_: Any) -> None:
        chosen.extend(configs)

    # The heuristics end in one call that takes the configs; it builds a tuner, which
    # needs a device.
    with _LOCK, mock.patch.object(triton_heuristics, "cached_autotune", record):
        heuristic(
            **arguments,
            filename=None,
            triton_meta=copy.deepcopy(dict(triton_meta)),
            inductor_meta=copy.deepcopy(dict(inductor_meta)),
        )
    return tuple(dict.fromkeys(map(config_values, chosen)))


def config_values(config: Any) -> wir.KernelConfig:
    """Return a config of Triton's as data."""
    values = {
        **config.kwargs,
        "num_warps": config.num_warps,
        "num_stages": config.num_stages,
    }
    if config.num_ctas != 1:
        values["num_ctas"] = config.num_ctas
    if config.maxnreg is not None:
        values["maxnreg"] = config.maxnreg
    return wir.KernelConfig(tuple(values.items()))


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Attribute(value=ast.Name(id="ReductionHint" | "TileHint" as kind)):
            return getattr(getattr(hints, kind), node.attr)
        case _:
            pass
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise Code.INDUCTOR_KERNEL.error(
            f"a heuristic is given {ast.unparse(node)}"
        ) from None


def with_launch_grid(
    definition: wir.KernelDefinitionLine, call: KernelCallLine
) -> wir.KernelDefinitionLine:
    """Return a kernel's definition with the launch grid of a call.

    The grid is an expression over the kernel's scalar parameters and its configs.  A
    number of the grid that the kernel is not given becomes a parameter, which the body
    does not use.

    Raises:
        DiagnosticError: WIR654, the grid is of an unknown form.
    """
    meta: Mapping[str, Any] = call.inductor_meta or {}
    parameters, kind = definition.parameters, meta.get("grid_type")
    if kind not in ("FixedGrid", "PrecomputedGrid"):
        constexprs = [p.name for p in parameters if isinstance(p, wir.ConstexprParameter)]
        return evolve(definition, grid=lower_grid(meta, frozenset(constexprs)))
    given = [parameter.name for parameter in parameters]
    sizes: dict[str, wir.Expr] = {}
    values, numbers = _split_arguments(call, definition)
    # The last parameters are numbers of the grid, if they were added for another call.
    for parameter, value in zip(wir.runtime_parameters(parameters), values, strict=False):
        symbol = simplified(value)
        if isinstance(parameter, wir.ScalarParameter) and isinstance(symbol, sympy.Symbol):
            sizes.setdefault(symbol.name, wir.Symbol(parameter.name))
    known: dict[str, wir.Expr] = {}
    added: list[wir.Parameter] = []
    for name, value in numbers.items():
        extent = None if name in given else number_over(simplified(value), sizes)
        if extent is None and name not in given:
            added.append(wir.ScalarParameter(name, wir.DType.I64))
        known[name] = wir.Symbol(name) if extent is None else extent
    grid: Grid
    if kind == "FixedGrid":
        x, y, z = (known[name] for name in meta["fixed_grid"])
        grid = x, y, z
    else:
        grid = grid_of_configs(meta["precomputed_grids"], known)
    return evolve(
        definition,
        grid=grid,
        parameters=(*parameters, *added),
        source=_with_parameters(definition, [parameter.name for parameter in added]),
    )


def _with_parameters(definition: wir.KernelDefinitionLine, names: Sequence[str]) -> str:
    """Return a kernel's source with more parameters, which it does not use."""
    if not names:
        return definition.source
    lines = definition.source.split("\n")
    (function,) = (
        node
        for node in ast.parse(definition.source).body
        if isinstance(node, ast.FunctionDef) and node.name == definition.entry
    )
    last, defaults = function.args.args[-1], function.args.defaults
    ends: ast.expr | ast.arg = defaults[-1] if defaults else last.annotation or last
    assert ends.end_lineno is not None
    assert ends.end_col_offset is not None
    added = "".join(f", {name}=0" if defaults else f", {name}" for name in names)
    # Columns count bytes.
    text, column = lines[ends.end_lineno - 1].encode(), ends.end_col_offset
    lines[ends.end_lineno - 1] = (text[:column] + added.encode() + text[column:]).decode()
    return "\n".join(lines)


def runtime_values(call: KernelCallLine, definition: wir.KernelDefinitionLine) -> list[Any]:
    """Return a call's arguments for the runtime parameters of a kernel."""
    values, numbers = _split_arguments(call, definition)
    taken = {parameter.name for parameter in definition.parameters}
    return values + [value for name, value in numbers.items() if name in taken]


def _split_arguments(
    call: KernelCallLine, definition: wir.KernelDefinitionLine
) -> tuple[list[Any], dict[str, Any]]:
    """Return a call's arguments for the kernel, and the numbers of its launch grid.

    Inductor leaves out constexpr parameters, but passes a number for a None.
    """
    values = list(call.call_args)
    names: Sequence[str] = (call.inductor_meta or {}).get("extra_launcher_args", ())
    begin = len(values) - len(names)
    numbers = dict(zip(names, values[begin:], strict=True))
    del values[begin:]
    nones = {name for name, value in definition.constants if value is None}
    if nones:
        keys = call.raw_keys[: len(values)]
        values = [v for v, key in zip(values, keys, strict=True) if key not in nones]
    return values, numbers


def _entry(name: str, module: ast.Module) -> tuple[ast.FunctionDef, ast.Call]:
    for node in reversed(module.body):
        if not isinstance(node, ast.FunctionDef):
            continue
        for decorator in node.decorator_list:
            match decorator:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="triton_heuristics"))):
                    return node, decorator
                case _:
                    pass
    raise Code.INDUCTOR_KERNEL.error(f"Triton kernel {name} has no heuristic of Inductor's")


def _attribute(decorator: ast.Call) -> str:
    assert isinstance(decorator.func, ast.Attribute)
    return decorator.func.attr


def _plain_source(
    source: str, module: ast.Module, function: ast.FunctionDef, decorator: ast.Call
) -> str:
    dropped: set[int] = set()

    def drop(node: ast.stmt | ast.expr) -> None:
        dropped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))

    for statement in module.body:
        if isinstance(statement, ast.Import | ast.ImportFrom | ast.Expr):
            drop(statement)
    drop(decorator)
    kept = [
        line
        for number, line in enumerate(source.splitlines(), start=1)
        if number not in dropped
    ]
    names = {
        node.id
        for statement in module.body
        if isinstance(statement, ast.FunctionDef)
        for part in (statement.args, *statement.body)
        for node in ast.walk(part)
        if isinstance(node, ast.Name)
    }
    imports = [text for name, text in IMPORTS.items() if name in names]
    text = "\n".join(kept).strip("\n") + "\n"
    return "\n".join([*imports, "", text]) if imports else text


def _lower_parameters(
    function: ast.FunctionDef,
    signature: Mapping[str, str],
    constants: Mapping[str, object],
    written: frozenset[str] | None,
    meta: Mapping[str, Any],
) -> tuple[wir.Parameter, ...]:
    mutated = frozenset(meta.get("mutated_arg_names", ()))
    parameters: list[wir.Parameter] = []
    for argument in function.args.args:
        name = argument.arg
        kind = signature.get(name, "constexpr")
        annotated = argument.annotation is not None
        descriptor = descriptor_signature(kind)
        if annotated or (kind == "constexpr" and constants.get(name, 0) is None):
            parameters.append(wir.ConstexprParameter(name))
        elif kind.startswith("*"):
            access = _access(name, mutated) if written is None else _user(name, written)
            parameters.append(wir.BufferParameter(name, _dtype(function, kind[1:]), access))
        elif descriptor is not None:
            dtype, block = descriptor
            access = _user(name, written or frozenset())
            parameters.append(
                wir.DescriptorParameter(name, _dtype(function, dtype), block, access)
            )
        else:
            parameters.append(wir.ScalarParameter(name, _dtype(function, kind)))
    return tuple(parameters)


def _access(name: str, mutated: frozenset[str]) -> wir.Access:
    if name in mutated or name.startswith("in_out_ptr"):
        return wir.Access.READ_WRITE
    # A zeroed workspace becomes read and written where it is passed.
    return (
        wir.Access.WRITE
        if name.startswith(("out_ptr", "ws_ptr", "sem_ptr"))
        else wir.Access.READ
    )


def _user(name: str, written: frozenset[str]) -> wir.Access:
    return wir.Access.READ_WRITE if name in written else wir.Access.READ


def _dtype(function: ast.FunctionDef, kind: str) -> wir.DType:
    try:
        return _DTYPES[kind]
    except KeyError:
        message = f"Triton kernel {function.name} has a parameter of type {kind}"
        raise Code.INDUCTOR_KERNEL.error(message) from None


# ``tensordesc<fp32[16, 32]>``; a block of symbols has no form in a program.
_SIGNATURE = re.compile(r"tensordesc<(\w+)\[(\d+(?:, ?\d+)*)\]>")


def descriptor_signature(kind: str) -> tuple[str, tuple[int, ...]] | None:
    """Return the dtype, by Triton's name, and the block of a descriptor type.

    ``None`` for another type.
    """
    found = _SIGNATURE.fullmatch(kind)
    if found is None:
        return None
    return found[1], tuple(map(int, found[2].split(",")))
