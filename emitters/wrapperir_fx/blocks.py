"""Lines with nested blocks: higher-order operators over nested graphs.

Each block is a graph of its own.  It is given the line's operands, then the constants and
the symbols of its surroundings that any block of the line uses.
"""

# torch says little of its types.
# pyright: reportUnknownMemberType=false

import operator
from collections.abc import Sequence

from attrs import evolve
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph
from torch._higher_order_ops.while_loop import while_loop_op
from torch.fx import Node
from torch.fx.node import Argument as FxArgument

from wrapperir.emit.blocks import is_too_deep
from wrapperir.fx import block_functions
from wrapperir.ir import (
    Argument,
    Block,
    BufferRef,
    ConditionalLine,
    Result,
    ScalarType,
    SubgraphCallLine,
    WhileLoopLine,
)
from wrapperir.ir.effects import uses
from wrapperir_fx.block_facts import carried_roots
from wrapperir_fx.block_values import Operand, gather, pass_operand
from wrapperir_fx.context import GraphContext
from wrapperir_fx.nested_graphs import Nested, give, nest, result_roots
from wrapperir_fx.values import Value


def emit_conditional(graph: GraphContext, line: ConditionalLine) -> None:
    """Append ``cond`` and a graph for each branch."""
    if _too_deep(graph, line.results):
        return
    predicate: FxArgument
    if isinstance(line.predicate, BufferRef):
        graph.streams.wait_for_all()
        predicate = graph.values[line.predicate.name].node
    else:
        predicate = graph.numbers.condition(line.predicate)
    graph.streams.use_on_stream_0(uses(line))
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


def emit_while_loop(graph: GraphContext, line: WhileLoopLine) -> None:
    """Append ``while_loop`` and its two graphs."""
    if _too_deep(graph, line.results):
        return
    graph.streams.wait_for_all()  # the host reads the condition
    graph.streams.use_on_stream_0(uses(line))
    blocks = (line.condition, line.body)
    count = len(line.carried)
    carried = [
        pass_operand(graph, argument, [result.type])
        for argument, result in zip(line.carried, line.results, strict=True)
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
    body = nest(
        graph, f"while_loop_body_graph_{number}", line.body, "body", given, line.results
    )
    rest = given.leaves(count) + given.lifted
    args = (condition.node, body.node, given.leaves(0, count), rest)
    node = graph.nodes.call(while_loop_op, args)
    _take_results(graph, node, line.results, [body], lay_out=True)


def emit_subgraph_call(graph: GraphContext, line: SubgraphCallLine) -> None:
    """Append ``invoke_subgraph`` and its graph."""
    if _too_deep(graph, line.results):
        return
    graph.streams.use_on_stream_0(uses(line))
    blocks = (line.body,)
    given = give(graph, _operands(graph, line.operands, 0, blocks), blocks)
    # PyTorch takes graphs of one identifier for the same graph.
    identifier = graph.context.identifiers.claim(line.name)
    nested = nest(graph, f"{line.name}_graph", line.body, "body", given, line.results)
    args = (nested.node, str(identifier), *given.leaves(), *given.lifted)
    node = graph.nodes.call(invoke_subgraph, args)
    _take_results(graph, node, line.results, [nested])


def _operands(
    graph: GraphContext, arguments: Sequence[Argument], begin: int, blocks: Sequence[Block]
) -> list[Operand]:
    return [
        pass_operand(graph, argument, [block.parameters[index].type for block in blocks])
        for index, argument in enumerate(arguments, start=begin)
    ]


def _take_results(
    graph: GraphContext,
    node: Node,
    results: Sequence[Result],
    nested: Sequence[Nested],
    *,
    lay_out: bool = False,
) -> None:
    """Append what makes a line's results of what its operator returns."""
    vals: list[object] = []

    def take(name: str | None, val: object) -> Node:
        vals.append(val)
        args = (node, len(vals) - 1)
        return graph.nodes.call(operator.getitem, args, name=name, val=val)

    roots = result_roots(results, nested)
    for result, shared in zip(results, roots, strict=True):
        value = gather(graph, result.name, result.type, take, lay_out=lay_out)
        graph.values[result.name] = Value(value, result.type, shared)
    node.meta["val"] = tuple(vals)
    # What holds memory is freed or returned, and so keeps the operator in the graph.
    if all(isinstance(result.type, ScalarType) for result in results):
        graph.nodes.call(block_functions.ran, (node,))


def _too_deep(graph: GraphContext, results: Sequence[Result]) -> bool:
    deep = is_too_deep(graph)
    if deep:
        for result in results:  # as the lines that follow use them
            val = graph.fakes.of(result.type, result.name)
            node = graph.nodes.call(block_functions.ran, (None,), name=result.name, val=val)
            graph.give(result.name, result.type, node)
    return deep
