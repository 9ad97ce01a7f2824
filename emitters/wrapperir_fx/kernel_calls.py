"""Kernel calls as nodes: which operator each is, and what it is given."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false, reportPrivateUsage=false

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from attrs import define, field
from torch._higher_order_ops.triton_kernel_wrap import triton_kernel_wrapper_mutation
from torch.fx.node import Argument, has_side_effect

from wrapperir.emit.number_kinds import NumberKinds, kind_of
from wrapperir.emit.walking import chosen_kernel
from wrapperir.ir.expr import (
    EvaluationError,
    Expr,
    ExprOp,
    Operation,
    evaluate_int,
    substitute,
)
from wrapperir.ir.kernel import (
    DescriptorParameter,
    Language,
    RuntimeParameter,
    ScalarParameter,
    runtime_parameters,
)
from wrapperir.ir.line import (
    BufferRef,
    KernelArgument,
    KernelCallLine,
    KernelDefinitionLine,
    SymbolKind,
)
from wrapperir_fx.kernel_keys import call_key, definition_key, split_arguments
from wrapperir_fx.kernel_operator import call_kernel
from wrapperir_fx.nodes import Number
from wrapperir_python.triton_kernels import bound_values

if TYPE_CHECKING:
    from wrapperir_fx.lines import FxLines

# A launch has no result, so without this it would be removed as dead code.
has_side_effect(triton_kernel_wrapper_mutation)


@define(eq=False)
class Callee:
    """The kernel that calls of a name run.

    ``positions`` are the arguments of a call that it takes, ``None`` if all in order;
    ``index`` is its place among the program's definitions, ``key`` its key for
    ``call_kernel``; ``devices`` are the kinds of device that it was called on;
    ``writes_all`` says that no tensor is only read.
    """

    definition: KernelDefinitionLine
    positions: tuple[int, ...] | None
    index: int
    key: str
    parameters: tuple[RuntimeParameter, ...]
    writes_all: bool
    devices: set[str] = field(factory=set[str])


def emit_kernel_call(lines: "FxLines", line: KernelCallLine) -> None:
    """Append ``triton_kernel_wrapper_mutation`` or ``wrapperir.call_kernel``."""
    callee = _find_callee(lines, line)
    arguments = line.arguments
    if callee.positions is not None:
        arguments = tuple([arguments[position] for position in callee.positions])
    if callee.definition.language is Language.TRITON:
        _emit_triton(lines, callee, arguments)
    else:
        _emit_operator(lines, callee, arguments)


def _find_callee(lines: "FxLines", line: KernelCallLine) -> Callee:
    callees = lines.context.callees
    callee = callees.get(line.kernel)
    if callee is None:
        definition, positions = chosen_kernel(lines.context.definitions, line.kernel)
        index = list(lines.context.definitions).index(definition.name)
        parameters = runtime_parameters(definition.parameters)
        key = "" if definition.language is Language.TRITON else definition_key(definition)
        writes_all = all(
            isinstance(item, ScalarParameter) or item.access.writes for item in parameters
        )
        callee = Callee(definition, positions, index, key, parameters, writes_all)
        callees[line.kernel] = callee
        if any("\ud800" <= character <= "\udfff" for character in definition.source):
            lines.report("the source of a kernel is no Unicode text", definition.name)
    if line.device.kind not in callee.devices:
        callee.devices.add(line.device.kind)
        _check_device(lines, callee, line)
    return callee


def _check_device(lines: "FxLines", callee: Callee, line: KernelCallLine) -> None:
    language = callee.definition.language
    if language is Language.CPP and line.device.kind != "cpu":
        device = str(line.device)
        lines.report(f"a C++ kernel does not run on {device}", device)
    if language is Language.TRITON:
        kinds = triton_devices(lines.context.callees)
        if "cpu" in kinds and len(kinds) > 1:
            lines.report("Triton kernels run on the CPU and elsewhere in one program")


def triton_devices(callees: Mapping[str, Callee]) -> frozenset[str]:
    """Return the kinds of device that Triton kernels are called on."""
    return frozenset(
        kind
        for callee in callees.values()
        if callee.definition.language is Language.TRITON
        for kind in callee.devices
    )


def _emit_operator(
    lines: "FxLines", callee: Callee, arguments: Sequence[KernelArgument]
) -> None:
    shared = _shared_parameters(lines, callee, arguments)
    given = [
        _given(lines, parameter, argument)
        for parameter, argument in zip(callee.parameters, arguments, strict=True)
    ]
    lists = split_arguments(callee.parameters, given, shared)
    lines.nodes.call(call_kernel, (call_key(callee.key, shared), *lists))


def _shared_parameters(
    lines: "FxLines", callee: Callee, arguments: Sequence[KernelArgument]
) -> list[str]:
    """Return the read parameters whose memory may be that of a written one."""
    if callee.writes_all:
        return []
    written: set[str] = set()
    read: list[tuple[str, frozenset[str]]] = []
    for parameter, argument in zip(callee.parameters, arguments, strict=True):
        if isinstance(parameter, ScalarParameter):
            continue
        assert isinstance(argument, BufferRef)
        roots = lines.values[argument.name].roots
        if parameter.access.writes:
            written |= roots
        else:
            read.append((parameter.name, roots))
    return [name for name, roots in read if not written.isdisjoint(roots)]


def _emit_triton(
    lines: "FxLines", callee: Callee, arguments: Sequence[KernelArgument]
) -> None:
    definition = callee.definition
    kwargs: dict[str, Argument] = {
        parameter.name: _given(lines, parameter, argument)
        for parameter, argument in zip(callee.parameters, arguments, strict=True)
    }
    bound = bound_values(definition)
    kwargs.update(bound)
    values: dict[str, Expr] = {
        key: value for key, value in bound.items() if isinstance(value, int | float)
    }
    for parameter, argument in zip(callee.parameters, arguments, strict=True):
        if isinstance(parameter, ScalarParameter):
            assert not isinstance(argument, BufferRef)
            values[parameter.name] = _converted(argument, parameter, lines.kinds)
    grid = (*definition.grid, 1, 1, 1)[:3]
    blocks = {
        parameter.name: ("stable", (list(parameter.block),))
        for parameter in callee.parameters
        if isinstance(parameter, DescriptorParameter)
    }
    extents = tuple([_extent(lines, extent, values) for extent in grid])
    keywords: dict[str, Argument] = {
        "kernel_idx": callee.index,
        "constant_args_idx": 0,
        "grid": [extents],
        "tma_descriptor_metadata": cast(Argument, blocks),
        "kwargs": kwargs,
    }
    lines.nodes.call(triton_kernel_wrapper_mutation, (), keywords)


def _given(
    lines: "FxLines", parameter: RuntimeParameter, argument: KernelArgument
) -> Number:
    if isinstance(argument, BufferRef):
        return lines.values[argument.name].node
    assert isinstance(parameter, ScalarParameter)
    return lines.number(argument, parameter.dtype)


def _converted(argument: Expr, parameter: ScalarParameter, kinds: NumberKinds) -> Expr:
    """Return the number that a parameter becomes; where it is no int, its node faults."""
    match kind_of(parameter.dtype):
        case SymbolKind.FLOAT:
            return Operation(ExprOp.TO_FLOAT, (argument,))
        case SymbolKind.BOOL:
            is_bool = kinds.is_bool(argument)
            return argument if is_bool else Operation(ExprOp.NE, (argument, 0))
        case SymbolKind.INT:
            is_int = not kinds.may_be_float(argument)
            return argument if is_int else Operation(ExprOp.TRUNC, (argument,))


def _extent(lines: "FxLines", extent: Expr, values: Mapping[str, Expr]) -> Number:
    extent = substitute(extent, values)
    try:
        return evaluate_int(extent, {})
    except EvaluationError:
        return lines.numbers.index(extent)
