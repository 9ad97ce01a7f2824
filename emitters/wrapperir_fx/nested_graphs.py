"""The graph of a block: inputs, lines and outputs."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false

from collections.abc import Mapping, Sequence

import torch
from attrs import frozen
from torch.fx import Node
from torch.fx.node import Argument as FxArgument

from wrapperir.fx import GraphParts
from wrapperir.ir import Argument, Block, BufferRef, Operation, Result, Symbol
from wrapperir_fx.block_values import Operand, gather, leaves_of, pass_symbol, take_symbol
from wrapperir_fx.context import GraphContext
from wrapperir_fx.nodes import Number
from wrapperir_fx.values import Value

_view = torch.ops.aten.view.default


@frozen(eq=False)
class Given:
    """The inputs of a line's blocks: operands, constants and symbols.

    ``lifted`` are the leaves of the constants and symbols; ``numbers`` are the symbols
    whose values are known.
    """

    operands: tuple[Operand, ...]
    constants: tuple[str, ...]
    symbols: tuple[str, ...]
    lifted: tuple[FxArgument, ...]
    numbers: Mapping[str, Number]

    def leaves(self, begin: int = 0, end: int | None = None) -> tuple[FxArgument, ...]:
        """Return the leaves of some operands."""
        return tuple([leaf for item in self.operands[begin:end] for leaf in item.leaves])


@frozen(eq=False)
class Nested:
    """The node of a nested graph, and the roots of its results."""

    node: Node
    roots: tuple[frozenset[str], ...]


def give(
    graph: GraphContext, operands: Sequence[Operand], blocks: Sequence[Block]
) -> Given:
    """Append nodes that make the inputs of all blocks of one line."""
    needs, known = graph.context.needs, graph.numbers.symbols
    constants = needs.constants(blocks)
    used = [name for name in needs.symbols(blocks) if name in known]
    symbols = [name for name in used if isinstance(known[name], Node)]
    lifted = (
        *(graph.values[name].node for name in constants),
        *(pass_symbol(graph, name) for name in symbols),
    )
    # Known numbers are constants of the nested graph.
    numbers = {name: known[name] for name in used if not isinstance(known[name], Node)}
    return Given(tuple(operands), tuple(constants), tuple(symbols), lifted, numbers)


def nest(
    graph: GraphContext,
    attribute: str,
    block: Block,
    field: str,
    given: Given,
    results: Sequence[Result] | None,
) -> Nested:
    """Append a read of the graph of a block, the attribute ``field`` of the current line.

    ``results`` are the line's; ``None`` has the block return one truth, for a loop to end.
    """
    inner = GraphContext(graph.context)
    take = _Placeholders(inner)
    for parameter, operand in zip(block.parameters, given.operands, strict=True):
        node = gather(inner, parameter.name, parameter.type, take, operand.type)
        roots = operand.roots or frozenset((parameter.name,))
        inner.values[parameter.name] = Value(node, parameter.type, roots)
    for name in given.constants:
        outer = graph.values[name]
        node = take(name, graph.fakes.of(outer.type))
        inner.values[name] = Value(node, outer.type, outer.roots)
    inner.numbers.symbols.update(given.numbers)
    for name in given.symbols:
        inner.numbers.symbols[name] = take_symbol(inner, name, take)
    graph.context.emit_lines(inner, block.lines, (*graph.path, field, "lines"))
    if results is None:
        inner.nodes.output(_truth(inner, block.results[0]))
    else:
        pairs = zip(block.results, results, strict=True)
        leaves = [leaves_of(inner, value, result.type) for value, result in pairs]
        inner.nodes.output(tuple([leaf for several in leaves for leaf in several]))
    parts = GraphParts(inner.nodes.graph, inner.attributes)
    node = graph.nodes.get_attr(graph.attributes.nest(attribute, parts))
    return Nested(node, tuple([_roots(inner, value) for value in block.results]))


def result_roots(
    results: Sequence[Result], nested: Sequence[Nested]
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


def _roots(graph: GraphContext, result: Argument) -> frozenset[str]:
    return graph.values[result.name].roots if isinstance(result, BufferRef) else frozenset()


def _truth(graph: GraphContext, result: Argument) -> FxArgument:
    """Return a loop's condition as ``while_loop`` takes it: a tensor without dimensions."""
    if not isinstance(result, BufferRef):
        assert isinstance(result, int | float | Symbol | Operation)  # verified
        return graph.numbers.condition(result)
    value = graph.values[result.name]
    if not value.tensor_type.size:
        return value.node
    return graph.nodes.call(_view, (value.node, []))
