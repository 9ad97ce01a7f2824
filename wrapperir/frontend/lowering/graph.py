"""Lowering of the nodes of a graph, in order, to nests and calls."""

import operator
from collections.abc import Mapping
from typing import Any

import torch
from attrs import frozen
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from wrapperir.frontend.aten.storage_offsets import NOWHERE, Place
from wrapperir.frontend.aten.values import SCALARS, is_sparse, lower_extent, symbols_of
from wrapperir.frontend.lowering.decompositions import decomposed, is_called
from wrapperir.frontend.lowering.operators import LATE_RULES, RULES
from wrapperir.frontend.lowering.rules import NotLoweredError
from wrapperir.frontend.lowering.scope import LoopScope
from wrapperir.frontend.lowering.values import IndexedTensor
from wrapperir.frontend.provenance import TracedOrigins
from wrapperir.lowering.kernel import SizeSymbols
from wrapperir.lowering.loops import LoopGraph, Nest
from wrapperir.plugin import plugin_manager


@frozen(kw_only=True)
class LoweredGraph:
    """A graph as loops.

    ``called`` has the node of each :class:`~wrapperir.lowering.loops.ExternCall`, by its
    name.  ``outputs`` are the graph's output arguments, with the name of the entry of
    ``loops.outputs`` in place of each tensor.  ``views`` has the origins of each node that
    is only an index of others, ``read_views`` those that each other origin reads through.
    """

    loops: LoopGraph
    called: Mapping[str, torch.fx.Node]
    views: Mapping[torch.fx.Node, tuple[str, ...]]
    read_views: Mapping[str, tuple[str, ...]]


def lower_graph(
    graph: torch.fx.Graph,
    symbols: SizeSymbols,
    places: Mapping[str, Place] | None = None,
    kernel_device: str | None = None,
    origins: TracedOrigins | None = None,
) -> LoweredGraph:
    """Return the loop nests and calls of a functional ATen graph.

    Buffers of inputs and held tensors have the names of their nodes.  Each node has its
    example value as ``meta["val"]``.  Storage offsets of inputs are those of ``places``, by
    default of the examples.  An output of ``loops`` has the name of its node.  Tensors of
    the CPU are on a device of ``kernel_device``, if it is given.  Nodes are listed in
    ``origins``.
    """
    scope = LoopScope(symbols, kernel_device, origins or TracedOrigins())
    kept: dict[str, Any] = {}
    for node in graph.nodes:
        if node.op == "output":
            kept = _outputs(scope, node)
            continue
        with scope.lowering(node):
            if node.op == "placeholder" and places is not None:
                _add_input(scope, node, places.get(str(node.target), NOWHERE))
            elif node.op == "placeholder" or node.op == "get_attr":
                _add_input(scope, node)
            else:
                lower_node(scope, node)
    loops = LoopGraph(
        buffers=scope.buffers,
        inputs=tuple(scope.inputs),
        items=tuple(scope.items),
        outputs=tuple(kept.items()),
    )
    return LoweredGraph(
        loops=loops, called=scope.called, views=scope.views, read_views=scope.read_views
    )


def _add_input(scope: LoopScope, node: torch.fx.Node, place: Place | None = None) -> None:
    example = node.meta.get("val")
    scope.known_symbols.update(symbols_of(example))
    if isinstance(example, torch.Tensor):
        offset = lower_extent(example.storage_offset()) if place is None else place.traced
        scope.values[node] = scope.add_input(node.name, example, offset)
    elif isinstance(example, SCALARS):
        scope.values[node] = scope.expr(example)
    else:
        scope.values[node] = None


def _outputs(scope: LoopScope, node: torch.fx.Node) -> dict[str, Any]:
    """Return the views that are kept: results, and inputs that are written."""
    kept: dict[str, Any] = {}
    for given in node.all_input_nodes:
        value = scope.values[given]
        if isinstance(value, IndexedTensor):
            with scope.copying(given):
                kept[given.name] = scope.laid_out(value, given.meta["val"], given.name)
    return kept


def lower_node(scope: LoopScope, node: torch.fx.Node, *, is_part: bool = False) -> None:
    """Append the items of a node and note its value.

    An operator without a rule is decomposed, if PyTorch can; the others are called.

    Raises:
        NotLoweredError: the node ``is_part`` of a decomposition, and has to be called:
            then the operator that was decomposed is called.
    """
    target: Any = node.target
    if target is operator.getitem:
        several, position = scope.values[node.args[0]], node.args[1]  # type: ignore[index]
        assert isinstance(several, tuple)
        assert isinstance(position, int)
        scope.values[node] = several[position]
        return
    example = node.meta.get("val")
    if not scope.known_symbols.issuperset(symbols_of(example)) or _uses_sparse(node):
        scope.values[node] = scope.call(node)
        return
    if isinstance(example, SCALARS):
        scope.values[node] = scope.expr(example)
        return
    found = RULES.get(target) or LATE_RULES.get(str(target))
    items, buffers = len(scope.items), set(scope.buffers)
    try:
        if found is None:
            raise NotLoweredError("no rule")
        scope.values[node] = found(scope, node)
        check_renderers(scope, items)
        return
    except NotLoweredError:
        _undo(scope, items, buffers)
    try:
        lower_decomposed(scope, node)
        return
    except NotLoweredError:
        _undo(scope, items, buffers)
    if is_part and not is_called(target):
        raise NotLoweredError(f"{target} has to be called")
    scope.values[node] = scope.call(node)


def _uses_sparse(node: torch.fx.Node) -> bool:
    """Say whether a node makes or is given a sparse tensor, which loops cannot read."""
    values = [each.meta.get("val") for each in (node, *node.all_input_nodes)]
    return any(is_sparse(leaf) for leaf in pytree.tree_leaves(values))


def check_renderers(scope: LoopScope, first: int) -> None:
    """Raise unless each nest from the ``first`` item on has a renderer for its device.

    Raises:
        NotLoweredError: every renderer refuses a nest, or there is none.
    """
    for item in scope.items[first:]:
        if isinstance(item, Nest):
            kind = scope.device_of(item).kind
            if plugin_manager().renderer(item, kind) is None:
                raise NotLoweredError(f"no renderer writes it for {kind}")


def _undo(scope: LoopScope, items: int, buffers: set[str]) -> None:
    """Drop what a rule appended before it gave up."""
    del scope.items[items:]
    for name in scope.buffers.keys() - buffers:
        del scope.buffers[name]


def lower_decomposed(scope: LoopScope, node: torch.fx.Node) -> None:
    """Lower a node as the smaller operators that PyTorch decomposes it to.

    Raises:
        NotLoweredError: PyTorch has no decomposition of it.
    """
    if not isinstance(node.target, OpOverload):
        raise NotLoweredError("not an operator")
    graph = decomposed(node)
    (result,) = graph.output_node().args
    if isinstance(result, torch.fx.Node) and result.op == "call_function":
        result.meta["val"] = node.meta["val"]  # its rows may be padded
    inputs = iter(node.all_input_nodes)
    for part in graph.nodes:
        if part.op == "placeholder":
            scope.values[part] = scope.values[next(inputs)]
        elif part.op == "output":
            scope.values[node] = scope.value(part.args[0])
        else:
            if part.target is node.target:
                raise NotLoweredError("it is its own decomposition")
            with scope.lowering(part):
                lower_node(scope, part, is_part=True)
