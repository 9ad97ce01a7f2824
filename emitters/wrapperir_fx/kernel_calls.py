"""Kernel calls as nodes."""

from collections.abc import Sequence, Set
from typing import cast

from torch._higher_order_ops.triton_kernel_wrap import triton_kernel_wrapper_mutation
from torch.fx.node import Argument, has_side_effect

from wrapperir import ir as wir
from wrapperir.emit.number_kinds import as_parameter, kind_of
from wrapperir.emit.python.kernels import folded
from wrapperir.emit.runnable_kernels import Runnable, taken_arguments
from wrapperir.emit.triton_signature import bound_values
from wrapperir.fx import (
    MultiKernelDefinition,
    call_kernel,
    call_key,
    call_multi_kernel,
    deciding_parameters,
    definition_key,
    multi_kernel_key,
    split_arguments,
)
from wrapperir_fx.context import CallTarget, GraphContext
from wrapperir_fx.nodes import GraphNumber
from wrapperir_fx.streams import launching

# A launch has no result, so without this it would be removed as dead code.
has_side_effect(triton_kernel_wrapper_mutation)


def emit_kernel_call(graph: GraphContext, line: wir.KernelCallLine) -> None:
    """Append a call of ``triton_kernel_wrapper_mutation`` or of an operator of ours."""
    found = graph.facts.runnable(line)
    graph.check_call(line)
    with launching(graph, line):
        if not isinstance(found.dispatch, int):
            _emit_multi_kernel(graph, line, found)
            return
        candidate = found.kernels[found.dispatch]
        arguments = candidate.take(line.arguments)
        target = _call_target(graph, candidate.kernel)
        if candidate.kernel.language is wir.Language.TRITON:
            _emit_triton(graph, candidate.kernel, target, arguments)
        else:
            graph.nodes.call(call_kernel, _operator_arguments(graph, target, arguments))


def _call_target(graph: GraphContext, definition: wir.DefinitionLine) -> CallTarget:
    known = graph.context.targets.get(definition.name)
    if known is not None:
        return known
    definitions = graph.facts.definitions
    key = ""
    if isinstance(definition, wir.MultiKernelLine):
        key = multi_kernel_key(MultiKernelDefinition.of(definition, definitions))
    elif definition.language is not wir.Language.TRITON:
        key = definition_key(definition)
    parameters = wir.runtime_parameters(definition.parameters)
    tensors = [item for item in parameters if not isinstance(item, wir.ScalarParameter)]
    target = CallTarget(
        list(definitions).index(definition.name),
        key,
        parameters,
        all(item.access.writes for item in tensors),
    )
    graph.context.targets[definition.name] = target
    return target


def _emit_multi_kernel(
    graph: GraphContext, line: wir.KernelCallLine, found: Runnable
) -> None:
    definition = graph.facts.definitions[line.kernel]
    assert isinstance(definition, wir.MultiKernelLine)
    deciding: list[GraphNumber] = []
    for place in deciding_parameters(definition):
        argument = line.arguments[place]
        assert not isinstance(argument, wir.BufferRef)
        deciding.append(graph.numbers.value(argument))
    taken = taken_arguments(found, len(line.arguments))
    target = _call_target(graph, definition)
    args = _operator_arguments(graph, target, line.arguments, taken)
    graph.nodes.call(call_multi_kernel, (*args, deciding))


def _operator_arguments(
    graph: GraphContext,
    target: CallTarget,
    arguments: Sequence[wir.KernelArgument],
    taken: Set[int] | None = None,
) -> tuple[Argument, ...]:
    """Return the key of a call, and its three lists of arguments.

    Numbers are converted to their parameters' types at the positions ``taken``, by default
    at all.  The others are not checked: a number that is not whole is not a fault there.
    """
    shared = _shared_parameters(graph, target, arguments)
    given = [
        _given(graph, parameter, argument)
        if taken is None or place in taken or isinstance(argument, wir.BufferRef)
        else graph.numbers.value(argument)
        for place, (parameter, argument) in enumerate(
            zip(target.parameters, arguments, strict=True)
        )
    ]
    lists = split_arguments(target.parameters, given, shared)
    return call_key(target.key, shared), *lists


def _shared_parameters(
    graph: GraphContext, target: CallTarget, arguments: Sequence[wir.KernelArgument]
) -> list[str]:
    """Return the read parameters whose memory may be that of a written one."""
    if target.writes_all:
        return []
    written: set[str] = set()
    read: list[tuple[str, frozenset[str]]] = []
    for parameter, argument in zip(target.parameters, arguments, strict=True):
        if isinstance(parameter, wir.ScalarParameter):
            continue
        assert isinstance(argument, wir.BufferRef)
        roots = graph.values[argument.name].roots
        if parameter.access.writes:
            written |= roots
        else:
            read.append((parameter.name, roots))
    return [name for name, roots in read if not written.isdisjoint(roots)]


def _emit_triton(
    graph: GraphContext,
    kernel: wir.KernelDefinitionLine,
    target: CallTarget,
    arguments: Sequence[wir.KernelArgument],
) -> None:
    bound = bound_values(kernel)
    kwargs: dict[str, Argument] = {}
    values: dict[str, wir.Expr] = {
        key: value for key, value in bound.items() if isinstance(value, int | float)
    }
    blocks: dict[str, object] = {}
    for parameter, argument in zip(target.parameters, arguments, strict=True):
        kwargs[parameter.name] = _given(graph, parameter, argument)
        if isinstance(parameter, wir.ScalarParameter):
            assert not isinstance(argument, wir.BufferRef)
            values[parameter.name] = as_parameter(argument, parameter, graph.facts.kinds)
        elif isinstance(parameter, wir.DescriptorParameter):
            blocks[parameter.name] = ("stable", (list(parameter.block),))
    grid = [
        graph.numbers.index(folded(wir.substitute(extent, values)))
        for extent in (*kernel.grid, 1, 1, 1)[:3]
    ]
    keywords: dict[str, Argument] = {
        "kernel_idx": target.index,
        "constant_args_idx": 0,
        "grid": [tuple(grid)],
        "tma_descriptor_metadata": cast(Argument, blocks),
        "kwargs": {**kwargs, **bound},
    }
    graph.nodes.call(triton_kernel_wrapper_mutation, (), keywords)


def _given(
    graph: GraphContext, parameter: wir.RuntimeParameter, argument: wir.KernelArgument
) -> GraphNumber:
    if isinstance(argument, wir.BufferRef):
        return graph.values[argument.name].node
    assert isinstance(parameter, wir.ScalarParameter)
    return graph.numbers.of_kind(argument, kind_of(parameter.dtype))
