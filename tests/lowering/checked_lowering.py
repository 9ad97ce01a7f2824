"""Checks of every graph that is scheduled, what each pass makes of it, and its kernels."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest

from wrapperir.diagnostics import Diagnostic, DiagnosticError
from wrapperir.ir import TensorType
from wrapperir.lowering import schedule
from wrapperir.lowering.assembly import assemble
from wrapperir.lowering.item_graph import ItemGraph, Node
from wrapperir.lowering.kernel import KernelLaunch, SizeSymbol, SizeSymbols
from wrapperir.lowering.loops import LoopGraph, Nest
from wrapperir.lowering.nest_checks import check_nest
from wrapperir.lowering.schedule import SchedulingOptions
from wrapperir.lowering.schedule_checks import check_graph, check_launch, graph_sizes


def _raise(found: Iterable[Diagnostic]) -> None:
    wrong = tuple(found)
    if wrong:
        raise DiagnosticError(*wrong)


@pytest.fixture(autouse=True)
def checked_lowering(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check what scheduling is given, and what each of its passes returns."""
    nodes, kernel = schedule._nodes, schedule._kernel
    replace, merge = ItemGraph.replace, ItemGraph.merge
    given: list[tuple[LoopGraph, SizeSymbols]] = []

    def checked_nodes(graph: LoopGraph, options: SchedulingOptions) -> Iterator[Node]:
        _raise(check_graph(graph, options.symbols))
        # Nests that are not split into loops yet store again what they may store: sizes
        # have names, and no ranges that would say so.
        names = dict.fromkeys(options.symbols, SizeSymbol())
        given[:] = [(graph, graph_sizes(graph, names))]
        for node in nodes(graph, options):
            check_node(node)
            yield node

    def check_node(node: Node) -> None:
        if node.flat is not None:
            ((graph, sizes),) = given
            nest = assemble(node.flat, node.item.name)
            _raise(check_nest(nest, graph.buffers, sizes))

    def checked_replace(items: ItemGraph, node: Node, *rest: Any) -> Any:
        result = replace(items, node, *rest)
        check_node(node)
        return result

    def checked_merge(items: ItemGraph, *rest: Any) -> Node:
        node = merge(items, *rest)
        check_node(node)
        return node

    def checked_kernel(
        nest: Nest,
        types: Mapping[str, TensorType],
        options: SchedulingOptions,
        *rest: Any,
    ) -> tuple[KernelLaunch, Nest]:
        launch, linear = kernel(nest, types, options, *rest)
        _raise(check_launch(launch, types, options.symbols))
        return launch, linear

    monkeypatch.setattr(schedule, "_nodes", checked_nodes)
    monkeypatch.setattr(schedule, "_kernel", checked_kernel)
    monkeypatch.setattr(ItemGraph, "replace", checked_replace)
    monkeypatch.setattr(ItemGraph, "merge", checked_merge)
