"""Orders of items that need less memory."""

from hypothesis import given

from tests.lowering.loop_graphs import loop_graphs
from wrapperir.ir import DType, TensorType, tensor
from wrapperir.lowering.costs import TypicalSizes
from wrapperir.lowering.item_graph import ItemGraph, Node
from wrapperir.lowering.item_order import lowest_peak_order
from wrapperir.lowering.kernel import KernelLaunch
from wrapperir.lowering.loops import ExternCall, LoopGraph, Nest
from wrapperir.lowering.schedule import plan_kernels


def _node(number: int, reads: str, writes: str, *, is_nest: bool = False) -> Node:
    name = f"n{number}"
    return Node(
        number=number,
        position=number,
        first_position=number,
        item=Nest(name=name, axes=(), body=()) if is_nest else ExternCall(name=name),
        flat=None,
        reads={*reads},
        writes={*writes},
    )


def _order(nodes: list[Node], kept: str, donated: str = "") -> list[int]:
    large, small = tensor(DType.F32, (1024,)), tensor(DType.F32, (8,))
    buffers: dict[str, TensorType] = {
        name: large if name.isupper() else small
        for node in nodes
        for name in (*node.reads, *node.writes)
    }
    sizes = TypicalSizes({})
    found = lowest_peak_order(ItemGraph(nodes), buffers, {*kept}, sizes, {*donated})
    return [node.number for node in found]


def test_large_values_are_used_before_the_next_is_made() -> None:
    nodes = [
        _node(0, "x", "A"),
        _node(1, "x", "B"),
        _node(2, "x", "C"),
        _node(3, "A", "a"),
        _node(4, "B", "b"),
        _node(5, "C", "c"),
    ]
    order = _order(nodes, "abc")
    assert [number // 3 for number in order] == [0, 1, 0, 1, 0, 1]


def test_donated_inputs_are_used_early() -> None:
    nodes = [_node(0, "x", "B"), _node(1, "B", "b"), _node(2, "D", "d")]
    assert _order(nodes, "bd", "D") == [2, 0, 1]
    assert _order(nodes, "bd") == [0, 1, 2]


def test_the_given_order_is_kept_where_none_is_better() -> None:
    nodes = [_node(0, "x", "A"), _node(1, "A", "B"), _node(2, "x", "c")]
    assert _order(nodes, "Bc") == [0, 1, 2]


def test_nests_wait_for_the_call_that_needs_one() -> None:
    nodes = [
        _node(0, "x", "a"),
        _node(1, "a", "b", is_nest=True),
        _node(2, "x", "c"),
        _node(3, "c", "d", is_nest=True),
        _node(4, "bd", "E"),
        _node(5, "E", "F"),
    ]
    assert _order(nodes, "F") == [0, 2, 1, 3, 4, 5]
    # Here waiting would keep two large values.
    nodes = [
        _node(0, "x", "A"),
        _node(1, "A", "b", is_nest=True),
        _node(2, "x", "C"),
        _node(3, "C", "d", is_nest=True),
        _node(4, "bd", "e"),
    ]
    assert _order(nodes, "e") == [0, 1, 2, 3, 4]


@given(loop_graphs())
def test_items_run_after_what_they_need(graph: LoopGraph) -> None:
    written = {*graph.inputs}
    for item in plan_kernels(graph).items:
        if isinstance(item, ExternCall):
            assert {view.buffer for _, view in item.arguments} <= written
            written |= {*item.writes}
            continue
        assert isinstance(item, KernelLaunch)
        for buffer, name in zip(item.kernel.buffers, item.buffers, strict=True):
            assert buffer.access.writes or name in written
        written |= {*item.buffers}
