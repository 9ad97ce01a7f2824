"""Kernel calls as nodes: which operator each is, and what it is given."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false, reportPrivateUsage=false

from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, cast

from attrs import define, field, frozen
from torch._higher_order_ops.triton_kernel_wrap import triton_kernel_wrapper_mutation
from torch.fx.node import Argument, has_side_effect

from wrapperir.emit.number_kinds import NumberKinds, kind_of
from wrapperir.emit.runnable_kernels import (
    Runnable,
    runnable_kernels,
    taken_arguments,
)
from wrapperir.ir.expr import (
    EvaluationError,
    Expr,
    ExprOp,
    Operation,
    evaluate_int,
    settled_where,
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
    MultiKernelLine,
    SymbolKind,
)
from wrapperir.ir.types import Device
from wrapperir_fx.kernel_keys import (
    MultiKernelDefinition,
    call_key,
    deciding_parameters,
    definition_key,
    multi_kernel_key,
    split_arguments,
)
from wrapperir_fx.kernel_operator import call_kernel, call_multi_kernel
from wrapperir_fx.nodes import Number
from wrapperir_python.triton_kernels import bound_values

if TYPE_CHECKING:
    from wrapperir_fx.lines import FxLines

# A launch has no result, so without this it would be removed as dead code.
has_side_effect(triton_kernel_wrapper_mutation)


@frozen
class Signature:
    """What a call of an operator of ours says of the kernel that it runs.

    ``key`` is its key; ``writes_all`` says that no tensor is only read.
    """

    key: str
    parameters: tuple[RuntimeParameter, ...]
    writes_all: bool


@define(eq=False)
class Callee:
    """A kernel that is called.

    ``index`` is its place among the program's definitions; ``devices`` are the kinds of
    device that it was called on.
    """

    definition: KernelDefinitionLine
    index: int
    signature: Signature
    devices: set[str] = field(factory=set[str])


def emit_kernel_call(lines: "FxLines", line: KernelCallLine) -> None:
    """Append a call of ``triton_kernel_wrapper_mutation`` or of an operator of ours."""
    found = _runnable(lines, line)
    if not isinstance(found.dispatch, int):
        _emit_multi_kernel(lines, line, found)
        return
    candidate, arguments = found.kernels[found.dispatch], line.arguments
    if candidate.positions is not None:
        arguments = tuple([arguments[position] for position in candidate.positions])
    callee = _find_callee(lines, candidate.kernel, line.device)
    if callee.definition.language is Language.TRITON:
        _emit_triton(lines, callee, arguments)
    else:
        args = _operator_arguments(lines, callee.signature, arguments)
        lines.nodes.call(call_kernel, args)


def _runnable(lines: "FxLines", line: KernelCallLine) -> Runnable:
    """Return what a call may run, and what decides."""
    types = {
        argument.name: lines.values[argument.name].type
        for argument in line.arguments
        if isinstance(argument, BufferRef)
    }
    return runnable_kernels(lines.context.definitions, line, types)


def _find_callee(
    lines: "FxLines", definition: KernelDefinitionLine, device: Device
) -> Callee:
    callees = lines.context.callees
    callee = callees.get(definition.name)
    if callee is None:
        index = list(lines.context.definitions).index(definition.name)
        key = "" if definition.language is Language.TRITON else definition_key(definition)
        signature = _signature(key, runtime_parameters(definition.parameters))
        callee = callees[definition.name] = Callee(definition, index, signature)
        if any("\ud800" <= character <= "\udfff" for character in definition.source):
            lines.report("the source of a kernel is no Unicode text", definition.name)
    if device.kind not in callee.devices:
        callee.devices.add(device.kind)
        _check_device(lines, callee, device)
    return callee


def _signature(key: str, parameters: tuple[RuntimeParameter, ...]) -> Signature:
    tensors = [item for item in parameters if not isinstance(item, ScalarParameter)]
    return Signature(key, parameters, all(item.access.writes for item in tensors))


def _check_device(lines: "FxLines", callee: Callee, device: Device) -> None:
    language = callee.definition.language
    if language is Language.CPP and device.kind != "cpu":
        lines.report(f"a C++ kernel does not run on {device}", str(device))
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


def _emit_multi_kernel(lines: "FxLines", line: KernelCallLine, found: Runnable) -> None:
    definitions = lines.context.definitions
    definition = definitions[line.kernel]
    assert isinstance(definition, MultiKernelLine)
    for candidate in found.kernels.values():
        _find_callee(lines, candidate.kernel, line.device)
    signature = lines.context.multi_kernels.get(line.kernel)
    if signature is None:
        key = multi_kernel_key(MultiKernelDefinition.of(definition, definitions))
        signature = _signature(key, runtime_parameters(definition.parameters))
        lines.context.multi_kernels[line.kernel] = signature
    deciding: list[Number] = []
    for place in deciding_parameters(definition):
        argument = line.arguments[place]
        assert not isinstance(argument, BufferRef)
        deciding.append(lines.numbers.value(argument))
    taken = taken_arguments(found, len(line.arguments))
    args = _operator_arguments(lines, signature, line.arguments, taken)
    lines.nodes.call(call_multi_kernel, (*args, deciding))


def _operator_arguments(
    lines: "FxLines",
    signature: Signature,
    arguments: Sequence[KernelArgument],
    taken: Set[int] | None = None,
) -> tuple[Argument, ...]:
    """Return the key of a call, and its three lists of arguments.

    Numbers that are not at the positions ``taken`` (``None`` is all) become no numbers of
    their parameters' types: where one is not whole, that is no fault.
    """
    shared = _shared_parameters(lines, signature, arguments)
    given = [
        _given(lines, parameter, argument)
        if taken is None or place in taken or isinstance(argument, BufferRef)
        else lines.numbers.value(argument)
        for place, (parameter, argument) in enumerate(
            zip(signature.parameters, arguments, strict=True)
        )
    ]
    lists = split_arguments(signature.parameters, given, shared)
    return call_key(signature.key, shared), *lists


def _shared_parameters(
    lines: "FxLines", signature: Signature, arguments: Sequence[KernelArgument]
) -> list[str]:
    """Return the read parameters whose memory may be that of a written one."""
    if signature.writes_all:
        return []
    written: set[str] = set()
    read: list[tuple[str, frozenset[str]]] = []
    for parameter, argument in zip(signature.parameters, arguments, strict=True):
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
    definition, parameters = callee.definition, callee.signature.parameters
    kwargs: dict[str, Argument] = {
        parameter.name: _given(lines, parameter, argument)
        for parameter, argument in zip(parameters, arguments, strict=True)
    }
    bound = bound_values(definition)
    kwargs.update(bound)
    values: dict[str, Expr] = {
        key: value for key, value in bound.items() if isinstance(value, int | float)
    }
    for parameter, argument in zip(parameters, arguments, strict=True):
        if isinstance(parameter, ScalarParameter):
            assert not isinstance(argument, BufferRef)
            values[parameter.name] = _converted(argument, parameter, lines.kinds)
    grid = (*definition.grid, 1, 1, 1)[:3]
    blocks = {
        parameter.name: ("stable", (list(parameter.block),))
        for parameter in parameters
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
        return lines.numbers.index(settled_where(extent))
