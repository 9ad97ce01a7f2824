"""Lines with nested blocks: higher-order operators over nested graphs.

Each block is a graph of its own.  It is given the line's operands, then the constants and
the symbols of its surroundings that any block of the line uses.
"""

import operator
from collections.abc import Callable, Mapping, Sequence

import torch
from attrs import evolve, frozen
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph
from torch._higher_order_ops.while_loop import while_loop_op, while_loop_stack_output_op
from torch.fx import Node
from torch.fx.node import Argument as FxArgument

from wrapperir import ir as wir
from wrapperir.emit.blocks import is_too_deep
from wrapperir.emit.stream_actions import StreamPlanner
from wrapperir.emit.torch_dtypes import torch_device
from wrapperir.fx import GraphParts, block_functions
from wrapperir.ir.line_effects import uses
from wrapperir_fx.block_facts import carried_roots
from wrapperir_fx.block_values import (
    PassedOperand,
    gather,
    leaves_of,
    pass_operand,
    pass_symbol,
    take_symbol,
)
from wrapperir_fx.context import GraphContext, GraphValue
from wrapperir_fx.nodes import GraphNumber
from wrapperir_fx.streams import (
    enter_region,
    leave_region,
    use_on_stream_0,
    wait_for_all,
)

_clone = torch.ops.aten.clone.default
_contiguous = torch.ops.aten.contiguous.default
_select = torch.ops.aten.select.int
_view = torch.ops.aten.view.default


@frozen(eq=False)
class BlockInputs:
    """The inputs of a line's blocks: operands, constants and symbols.

    ``lifted`` are the leaves of the constants and symbols; ``numbers`` are the symbols
    whose values are known.  With ``boxed``, floats are given as tensors.
    """

    operands: tuple[PassedOperand, ...]
    constants: tuple[str, ...]
    symbols: tuple[str, ...]
    lifted: tuple[FxArgument, ...]
    numbers: Mapping[str, GraphNumber]
    boxed: bool

    def leaves(self, begin: int = 0, end: int | None = None) -> tuple[FxArgument, ...]:
        """Return the leaves of some operands."""
        return tuple([leaf for item in self.operands[begin:end] for leaf in item.leaves])


@frozen(eq=False)
class NestedGraph:
    """The node of a nested graph, and the roots of its results."""

    node: Node
    roots: tuple[frozenset[str], ...]


def give(
    graph: GraphContext,
    operands: Sequence[PassedOperand],
    blocks: Sequence[wir.Block],
    *,
    boxed: bool = True,
) -> BlockInputs:
    """Append nodes that make the inputs of all blocks of one line."""
    needs, known = graph.context.needs, graph.numbers.symbols
    constants = needs.constants(blocks)
    used = [name for name in needs.symbols(blocks) if name in known]
    symbols = [name for name in used if isinstance(known[name], Node)]
    lifted = (
        *(graph.values[name].node for name in constants),
        *(pass_symbol(graph, name, boxed=boxed) for name in symbols),
    )
    # Known numbers are constants of the nested graph.
    numbers = {name: known[name] for name in used if not isinstance(known[name], Node)}
    return BlockInputs(
        tuple(operands), tuple(constants), tuple(symbols), lifted, numbers, boxed
    )


def nest(
    graph: GraphContext,
    attribute: str,
    block: wir.Block,
    field: str,
    given: BlockInputs,
    results: Sequence[wir.Result] | None,
    streams: StreamPlanner | None = None,
) -> NestedGraph:
    """Append a read of the graph of a block, the attribute ``field`` of the current line.

    ``results`` are the line's; ``None`` has the block return one truth, for a loop to end.
    ``streams`` plans for side streams that the block uses.
    """
    inner = type(graph)(graph.context)
    if streams is not None:
        inner.streams = streams
    take = _Placeholders(inner)
    for parameter, operand in zip(block.parameters, given.operands, strict=True):
        node = gather(
            *(inner, parameter.name, parameter.type, take, operand.type),
            boxed=given.boxed,
        )
        roots = operand.roots or frozenset((parameter.name,))
        inner.values[parameter.name] = GraphValue(node, parameter.type, roots)
    for name in given.constants:
        outer = graph.values[name]
        node = take(name, graph.fakes.of(outer.type))
        inner.values[name] = GraphValue(node, outer.type, outer.roots)
    inner.numbers.symbols.update(given.numbers)
    for name in given.symbols:
        inner.numbers.symbols[name] = take_symbol(inner, name, take, boxed=given.boxed)
    inner.emit_lines(block.lines, (*graph.path, field, "lines"))
    if results is None:
        inner.nodes.output(_truth(inner, block.results[0]))
    else:
        pairs = zip(block.results, results, strict=True)
        leaves = [leaves_of(inner, value, result.type) for value, result in pairs]
        inner.nodes.output(tuple([leaf for several in leaves for leaf in several]))
    parts = GraphParts(inner.nodes.graph, inner.attributes)
    node = graph.nodes.get_attr(graph.attributes.nest(attribute, parts))
    return NestedGraph(node, tuple([_roots(inner, value) for value in block.results]))


def result_roots(
    results: Sequence[wir.Result], nested: Sequence[NestedGraph]
) -> list[frozenset[str]]:
    """Return the roots of a line's results: some may be views of one memory."""
    return [
        frozenset((result.name,)).union(
            other.name
            for place, other in enumerate(results)
            if any(block.roots[index] & block.roots[place] for block in nested)
        )
        for index, result in enumerate(results)
    ]


class _Placeholders:
    """Adds inputs to a graph, before all its other nodes."""

    def __init__(self, graph: GraphContext) -> None:
        self._nodes = graph.nodes
        self._last: Node | None = None

    def __call__(self, name: str | None, val: object) -> Node:
        assert name is not None
        if self._last is None:
            self._last = self._nodes.placeholder(name, val)
        else:
            with self._nodes.graph.inserting_after(self._last):
                self._last = self._nodes.placeholder(name, val)
        return self._last


def _roots(graph: GraphContext, result: wir.Argument) -> frozenset[str]:
    return (
        graph.values[result.name].roots
        if isinstance(result, wir.BufferRef)
        else frozenset()
    )


def _truth(graph: GraphContext, result: wir.Argument) -> FxArgument:
    """Return a loop's condition as ``while_loop`` takes it: a tensor without dimensions."""
    if not isinstance(result, wir.BufferRef):
        assert isinstance(result, int | float | wir.Symbol | wir.Operation)  # verified
        return graph.numbers.condition(result)
    value = graph.values[result.name]
    if not value.tensor_type.size:
        return value.node
    return graph.nodes.call(_view, (value.node, []))


def emit_conditional(graph: GraphContext, line: wir.ConditionalLine) -> None:
    """Append ``cond`` and a graph for each branch."""
    if _too_deep(graph, line.results):
        return
    predicate: FxArgument
    if isinstance(line.predicate, wir.BufferRef):
        wait_for_all(graph)
        predicate = graph.values[line.predicate.name].node
    else:
        predicate = graph.numbers.condition(line.predicate)
    use_on_stream_0(graph, uses(line))
    blocks = (line.on_true, line.on_false)
    given = give(graph, _operands(graph, line.operands, 0, blocks), blocks)
    number = len(graph.attributes.graphs)
    nested = [
        nest(graph, f"{name}_graph_{number}", block, f"on_{name}", given, line.results)
        for name, block in zip(("true", "false"), blocks, strict=True)
    ]
    graphs = [graph.node for graph in nested]
    node = graph.nodes.call(cond_op, (predicate, *graphs, given.leaves() + given.lifted))
    _take_results(graph, node, line.results, nested)


def emit_while_loop(graph: GraphContext, line: wir.WhileLoopLine) -> None:
    """Append ``while_loop`` and its two graphs."""
    if _too_deep(graph, line.results):
        return
    wait_for_all(graph)  # the host reads the condition
    use_on_stream_0(graph, uses(line))
    blocks = (line.condition, line.body)
    count = len(line.carried)
    last = line.results[:count]
    carried = [
        pass_operand(graph, argument, [result.type])
        for argument, result in zip(line.carried, last, strict=True)
    ]
    invariant = _operands(graph, line.invariant, count, blocks)
    operands = [*carried, *invariant]
    roots = carried_roots(line.body, [operand.roots for operand in operands])
    operands = [
        evolve(operand, roots=shared)
        for operand, shared in zip(operands, roots, strict=True)
    ]
    given = give(graph, operands, blocks)
    number = len(graph.attributes.graphs)
    condition = nest(
        graph, f"while_loop_cond_graph_{number}", line.condition, "condition", given, None
    )
    body = nest(graph, f"while_loop_body_graph_{number}", line.body, "body", given, last)
    rest = given.leaves(count) + given.lifted
    args = (condition.node, body.node, given.leaves(0, count), rest)
    if line.stacked:
        node = graph.nodes.call(while_loop_stack_output_op, args)
        _take_stacks(graph, node, line)
    else:
        node = graph.nodes.call(while_loop_op, args)
        _take_results(graph, node, line.results, [body], lay_out=True)


def emit_subgraph_call(graph: GraphContext, line: wir.SubgraphCallLine) -> None:
    """Append ``invoke_subgraph`` and its graph."""
    if _too_deep(graph, line.results):
        return
    use_on_stream_0(graph, uses(line))
    # PyTorch takes graphs of one identifier for the same graph.
    identifier = graph.context.identifiers.claim(line.name)
    _emit_call(graph, line, invoke_subgraph, str(identifier))


def emit_graph_region(graph: GraphContext, line: wir.GraphRegionLine) -> None:
    """Append ``graph_region`` and its graph."""
    if _too_deep(graph, line.results):
        return
    enter_region(graph, line)
    facts = (line.name, torch_device(line.device), line.stream, line.recordings)
    _emit_call(graph, line, block_functions.graph_region, *facts, streams=graph.streams)
    leave_region(graph, line)


def _emit_call(
    graph: GraphContext,
    line: wir.SubgraphCallLine | wir.GraphRegionLine,
    function: Callable[..., object],
    *facts: FxArgument,
    streams: StreamPlanner | None = None,
) -> None:
    """Append the call of a block: its graph, facts of the line, operands."""
    blocks = (line.body,)
    boxed = isinstance(line, wir.SubgraphCallLine)
    operands = _operands(graph, line.operands, 0, blocks, boxed=boxed)
    given = give(graph, operands, blocks, boxed=boxed)
    attribute, body = f"{line.name}_graph", line.body
    nested = nest(graph, attribute, body, "body", given, line.results, streams)
    args = (nested.node, *facts, *given.leaves(), *given.lifted)
    node = graph.nodes.call(function, args)
    _take_results(graph, node, line.results, [nested])


def _operands(
    graph: GraphContext,
    arguments: Sequence[wir.Argument],
    begin: int,
    blocks: Sequence[wir.Block],
    *,
    boxed: bool = True,
) -> list[PassedOperand]:
    return [
        pass_operand(
            graph,
            argument,
            [block.parameters[index].type for block in blocks],
            boxed=boxed,
        )
        for index, argument in enumerate(arguments, start=begin)
    ]


def _take_results(
    graph: GraphContext,
    node: Node,
    results: Sequence[wir.Result],
    nested: Sequence[NestedGraph],
    *,
    lay_out: bool = False,
) -> None:
    """Append nodes that make a line's results from the value of its operator."""
    vals: list[object] = []

    def take(name: str | None, val: object) -> Node:
        vals.append(val)
        args = (node, len(vals) - 1)
        return graph.nodes.call(operator.getitem, args, name=name, val=val)

    roots = result_roots(results, nested)
    for result, shared in zip(results, roots, strict=True):
        value = gather(graph, result.name, result.type, take, lay_out=lay_out)
        graph.values[result.name] = GraphValue(value, result.type, shared)
    node.meta["val"] = tuple(vals)
    # A result with memory is freed or returned, which keeps the operator in the graph.
    if all(isinstance(result.type, wir.ScalarType) for result in results):
        graph.nodes.call(block_functions.ran, (node,))


def _take_stacks(graph: GraphContext, node: Node, line: wir.WhileLoopLine) -> None:
    """Append nodes of the stacks of a loop's values, and of the last value of each."""
    count = len(line.carried)
    vals: list[object] = []
    for index, stack in enumerate(line.results[count:]):
        vals.append(graph.fakes.of(stack.type, stack.name))
        found = graph.nodes.call(operator.getitem, (node, index), val=vals[-1])
        made = graph.nodes.call(_contiguous, (found,), name=stack.name, val=vals[-1])
        graph.give(stack.name, stack.type, made)

        def take(
            name: str | None,
            val: object,
            made: Node = made,
            type: wir.ValueType = stack.type,
        ) -> Node:
            last = graph.nodes.call(_select, (made, 0, -1), val=_last_of(graph, type))
            return graph.nodes.call(_clone, (last,), name=name, val=val)

        result = line.results[index]
        value = gather(graph, result.name, result.type, take, lay_out=True)
        graph.give(result.name, result.type, value)
    node.meta["val"] = tuple(vals)
    if not vals:
        graph.nodes.call(block_functions.ran, (node,))


def _last_of(graph: GraphContext, stack: wir.ValueType) -> object:
    """Return the fake value of the last element of a stack, which begins before its end."""
    assert isinstance(stack, wir.TensorType)
    length, *size = stack.size
    step, *stride = stack.stride
    offset = wir.mul(step, wir.add(length, -1))
    type = evolve(stack, size=tuple(size), stride=tuple(stride), offset=offset)
    return graph.fakes.of(type)


def _too_deep(graph: GraphContext, results: Sequence[wir.Result]) -> bool:
    deep = is_too_deep(graph)
    if deep:
        for result in results:  # as the lines that follow use them
            val = graph.fakes.of(result.type, result.name)
            node = graph.nodes.call(block_functions.ran, (None,), name=result.name, val=val)
            graph.give(result.name, result.type, node)
    return deep
