"""Elements where a mask is true: updates in their order, and their positions."""

from collections.abc import Sequence
from typing import Any

import torch

from wrapperir.frontend.lowering.elementwise import broadcast_point, number_operand
from wrapperir.frontend.lowering.nest_builder import NestBuilder
from wrapperir.frontend.lowering.rules import NotLoweredError, rule
from wrapperir.frontend.lowering.scope import LoopScope
from wrapperir.frontend.lowering.values import IndexedTensor, NodeValue, dimensions
from wrapperir.frontend.lowering.views import reshaped
from wrapperir.ir import DType, Expr, Symbol, product, sub
from wrapperir.lowering.dtypes import accumulated
from wrapperir.lowering.scalar_op import ReduceOp
from wrapperir.lowering.scalar_op import ScalarOp as Op

aten: Any = torch.ops.aten

_MISMATCH = "shape mismatch: value tensor cannot be broadcast to indexing result"
_TOO_FEW = "masked_scatter: number of elements of source < number of ones in mask"


def _ranks(scope: LoopScope, node: torch.fx.Node, mask: IndexedTensor) -> IndexedTensor:
    """Append a nest that numbers the true elements, from 1; return the numbers.

    Raises:
        NotLoweredError: the elements are on a GPU, where one row is slow to scan.
    """
    if scope.buffers[mask.buffer].device.kind != "cpu":
        raise NotLoweredError("a scan of one long row")
    count = product(mask.size)
    ranks = scope.workspace((count,), DType.I64, mask)
    flat = reshaped(scope, mask, (count,))
    builder = NestBuilder(())
    with builder.inner((count,)) as point:
        value = builder.cast(builder.load(flat, point), DType.BOOL)
        value = builder.cast(value, DType.I64)
        (rank,) = builder.scan(ReduceOp.SUM, value)
        builder.store(ranks, point, rank)
    scope.add_nest(builder, node.name)
    return reshaped(scope, ranks, mask.size)


def _place(
    builder: NestBuilder, rank: str, extent: Expr, is_chosen: str, message: str
) -> Expr:
    """Return the place of an update, checked where it is chosen."""
    place = builder.apply(Op.SUB, rank, builder.literal(1, DType.I64))
    end = number_operand(builder, extent, DType.I64)
    builder.check(builder.apply(Op.LT, place, end), message, mask=is_chosen)
    return Symbol(place)


@rule(aten.masked_scatter.default)
def _masked_scatter(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    old, mask, updates = (scope.tensor(each) for each in node.args[:3])
    result = scope.allocate(node.name, node.meta["val"])
    if 0 in result.size:
        scope.copy(old, result, node.name)
        return result
    at = broadcast_point(mask, result.size, dimensions(len(result.size)))
    ranks = _ranks(scope, node, mask.viewed(result.size, at))
    count = product(updates.size)
    flat = reshaped(scope, updates, (count,))
    builder = NestBuilder(result.size)
    is_chosen = builder.load(mask, broadcast_point(mask, result.size, builder.point))
    rank = builder.load(ranks, builder.point)
    place = _place(builder, rank, count, is_chosen, _TOO_FEW)
    new = builder.load(flat, (place,), mask=is_chosen)
    kept = builder.load(old, broadcast_point(old, result.size, builder.point))
    return scope.add_elements(
        node, result, builder, builder.apply(Op.WHERE, is_chosen, new, kept)
    )


@rule(aten.nonzero_static.default)
def _nonzero_static(scope: LoopScope, node: torch.fx.Node) -> NodeValue:
    """Lower the positions of the first ``size`` elements that are not zero."""
    source, fill = scope.tensor(node.args[0]), node.kwargs.get("fill_value", -1)
    result = scope.allocate(node.name, node.meta["val"])
    builder = NestBuilder(result.size)
    builder.store(result, builder.point, builder.index_value(scope.expr(fill), DType.I64))
    scope.add_nest(builder, node.name)
    if 0 in source.size or 0 in result.size:
        return result
    ranks = _ranks(scope, node, source)
    builder = NestBuilder(source.size)
    is_chosen = builder.cast(builder.load(source, builder.point), DType.BOOL)
    one = builder.literal(1, DType.I64)
    place = builder.apply(Op.SUB, builder.load(ranks, builder.point), one)
    end = builder.index_value(result.size[0], DType.I64)
    mask = builder.apply(Op.AND, is_chosen, builder.apply(Op.LT, place, end))
    for number, part in enumerate(builder.point):
        value = builder.index_value(part, DType.I64)
        builder.store(result, (Symbol(place), number), value, mask=mask)
    scope.add_nest(builder, node.name)
    return result


def put_where(
    scope: LoopScope,
    node: torch.fx.Node,
    source: IndexedTensor,
    values: IndexedTensor,
    *,
    adds: bool,
) -> IndexedTensor | None:
    """Lower ``source[:, mask] = values``, if that is what a node does."""
    given: Any = node.args[1]
    places = [place for place, each in enumerate(given) if each is not None]
    if len(places) != 1:
        return None
    (place,) = places
    mask = scope.tensor(given[place])
    if mask.dtype is not DType.BOOL:
        return None
    end = place + len(mask.size)
    # The dimensions of the mask are one of the values, counted from the last.
    along = len(values.size) - (len(source.size) - end) - 1
    is_same = along < 0 or values.size[along] == 1
    if len(values.size) > len(source.size) - len(mask.size) + 1:
        return None
    if is_same or 0 in source.size:
        ranks = None
    else:
        ranks = _ranks(scope, node, mask)
        _check_count(scope, node, ranks, values.size[along])
    result, builder = scope.elements_of(node)
    own = builder.point[place:end]
    is_chosen = builder.load(mask, own)
    at: Expr = 0
    if ranks is not None:
        rank = builder.load(ranks, own)
        at = _place(builder, rank, values.size[along], is_chosen, _MISMATCH)
    point: Sequence[Expr] = (*builder.point[:place], at, *builder.point[end:])
    old = builder.load(source, builder.point)
    where = broadcast_point(values, point, point)
    new = builder.load(values, where, mask=None if ranks is None else is_chosen)
    if adds:
        new = _add_rounded(builder, old, new)
    return scope.add_elements(
        node, result, builder, builder.apply(Op.WHERE, is_chosen, new, old)
    )


def _check_count(
    scope: LoopScope, node: torch.fx.Node, ranks: IndexedTensor, count: Expr
) -> None:
    """Append a nest that checks that a mask is true as often as there are values."""
    builder = NestBuilder(())
    last = builder.load(ranks, [sub(extent, 1) for extent in ranks.size])
    expected = number_operand(builder, count, DType.I64)
    builder.check(builder.apply(Op.EQ, last, expected), _MISMATCH)
    scope.add_nest(builder, node.name)


def _add_rounded(builder: NestBuilder, left: str, right: str) -> str:
    """Return a sum; half types are added as ``f32`` and rounded."""
    dtype = builder.dtype(left)
    wide = accumulated(dtype)
    total = builder.apply(Op.ADD, builder.cast(left, wide), builder.cast(right, wide))
    return builder.cast(total, dtype)
