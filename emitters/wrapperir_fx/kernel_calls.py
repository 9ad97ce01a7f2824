"""Kernel calls as nodes."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false, reportPrivateUsage=false

from collections.abc import Mapping, Sequence, Set
from typing import cast

from torch._higher_order_ops.triton_kernel_wrap import triton_kernel_wrapper_mutation
from torch.fx.node import Argument, has_side_effect

from wrapperir.emit.number_kinds import NumberKinds, kind_of
from wrapperir.emit.python.kernels import bound_values
from wrapperir.emit.runnable_kernels import (
    Runnable,
    taken_arguments,
)
from wrapperir.fx import (
    call_kernel,
    call_key,
    call_multi_kernel,
    deciding_parameters,
    split_arguments,
)
from wrapperir.ir import (
    BufferRef,
    DescriptorParameter,
    EvaluationError,
    Expr,
    ExprOp,
    KernelArgument,
    KernelCallLine,
    Language,
    MultiKernelLine,
    Operation,
    RuntimeParameter,
    ScalarParameter,
    SymbolKind,
    evaluate_int,
    settled_where,
    substitute,
)
from wrapperir_fx.callees import Callee, Signature
from wrapperir_fx.context import GraphContext
from wrapperir_fx.nodes import Number

# A launch has no result, so without this it would be removed as dead code.
has_side_effect(triton_kernel_wrapper_mutation)


def emit_kernel_call(graph: GraphContext, line: KernelCallLine) -> None:
    """Append a call of ``triton_kernel_wrapper_mutation`` or of an operator of ours."""
    found = graph.facts.runnable(line)
    if not isinstance(found.dispatch, int):
        _emit_multi_kernel(graph, line, found)
        return
    candidate, arguments = found.kernels[found.dispatch], line.arguments
    if candidate.positions is not None:
        arguments = tuple([arguments[position] for position in candidate.positions])
    callee = graph.context.callees.kernel(candidate.kernel, line.device, graph.report)
    if callee.definition.language is Language.TRITON:
        _emit_triton(graph, callee, arguments)
    else:
        args = _operator_arguments(graph, callee.signature, arguments)
        graph.nodes.call(call_kernel, args)


def _emit_multi_kernel(graph: GraphContext, line: KernelCallLine, found: Runnable) -> None:
    callees = graph.context.callees
    definition = graph.facts.definitions[line.kernel]
    assert isinstance(definition, MultiKernelLine)
    for candidate in found.kernels.values():
        callees.kernel(candidate.kernel, line.device, graph.report)
    signature = callees.multi_kernel(definition)
    deciding: list[Number] = []
    for place in deciding_parameters(definition):
        argument = line.arguments[place]
        assert not isinstance(argument, BufferRef)
        deciding.append(graph.numbers.value(argument))
    taken = taken_arguments(found, len(line.arguments))
    args = _operator_arguments(graph, signature, line.arguments, taken)
    graph.nodes.call(call_multi_kernel, (*args, deciding))


def _operator_arguments(
    graph: GraphContext,
    signature: Signature,
    arguments: Sequence[KernelArgument],
    taken: Set[int] | None = None,
) -> tuple[Argument, ...]:
    """Return the key of a call, and its three lists of arguments.

    Numbers are converted to their parameters' types at the positions ``taken``, by default
    at all.  The others are not checked: a number that is not whole is not a fault there.
    """
    shared = _shared_parameters(graph, signature, arguments)
    given = [
        _given(graph, parameter, argument)
        if taken is None or place in taken or isinstance(argument, BufferRef)
        else graph.numbers.value(argument)
        for place, (parameter, argument) in enumerate(
            zip(signature.parameters, arguments, strict=True)
        )
    ]
    lists = split_arguments(signature.parameters, given, shared)
    return call_key(signature.key, shared), *lists


def _shared_parameters(
    graph: GraphContext, signature: Signature, arguments: Sequence[KernelArgument]
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
        roots = graph.values[argument.name].roots
        if parameter.access.writes:
            written |= roots
        else:
            read.append((parameter.name, roots))
    return [name for name, roots in read if not written.isdisjoint(roots)]


def _emit_triton(
    graph: GraphContext, callee: Callee, arguments: Sequence[KernelArgument]
) -> None:
    definition, parameters = callee.definition, callee.signature.parameters
    kwargs: dict[str, Argument] = {
        parameter.name: _given(graph, parameter, argument)
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
            values[parameter.name] = _converted(argument, parameter, graph.facts.kinds)
    grid = (*definition.grid, 1, 1, 1)[:3]
    blocks = {
        parameter.name: ("stable", (list(parameter.block),))
        for parameter in parameters
        if isinstance(parameter, DescriptorParameter)
    }
    extents = tuple([_extent(graph, extent, values) for extent in grid])
    keywords: dict[str, Argument] = {
        "kernel_idx": callee.index,
        "constant_args_idx": 0,
        "grid": [extents],
        "tma_descriptor_metadata": cast(Argument, blocks),
        "kwargs": kwargs,
    }
    graph.nodes.call(triton_kernel_wrapper_mutation, (), keywords)


def _given(
    graph: GraphContext, parameter: RuntimeParameter, argument: KernelArgument
) -> Number:
    if isinstance(argument, BufferRef):
        return graph.values[argument.name].node
    assert isinstance(parameter, ScalarParameter)
    return graph.numbers.of_kind(argument, kind_of(parameter.dtype))


def _converted(argument: Expr, parameter: ScalarParameter, kinds: NumberKinds) -> Expr:
    """Return an argument as its parameter's type; an int's node checks that it is whole."""
    match kind_of(parameter.dtype):
        case SymbolKind.FLOAT:
            return Operation(ExprOp.TO_FLOAT, (argument,))
        case SymbolKind.BOOL:
            is_bool = kinds.is_bool(argument)
            return argument if is_bool else Operation(ExprOp.NE, (argument, 0))
        case SymbolKind.INT:
            is_int = not kinds.may_be_float(argument)
            return argument if is_int else Operation(ExprOp.TRUNC, (argument,))


def _extent(graph: GraphContext, extent: Expr, values: Mapping[str, Expr]) -> Number:
    extent = substitute(extent, values)
    try:
        return evaluate_int(extent, {})
    except EvaluationError:
        return graph.numbers.index(settled_where(extent))
