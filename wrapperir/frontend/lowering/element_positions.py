"""Positions that tensors of indices give: wrapped, checked, and as index expressions."""

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from wrapperir.frontend.lowering.elementwise import broadcast_point, number_operand
from wrapperir.frontend.lowering.nest_builder import NestBuilder
from wrapperir.frontend.lowering.rules import NotLoweredError
from wrapperir.frontend.lowering.scope import LoopScope
from wrapperir.frontend.lowering.values import IndexedTensor
from wrapperir.ir import DType, Expr, Symbol
from wrapperir.lowering.scalar_op import ScalarOp as Op

OUT_OF_RANGE = "index out of range in self"
"""The message of ``embedding`` and ``index_select`` in eager."""


def out_of_bounds(dim: int, extent: Expr) -> str:
    """Return the message for an index that a dimension does not have."""
    size = f" with size {extent}" if isinstance(extent, int) else ""
    return f"index is out of bounds for dimension {dim}{size}"


def position(
    builder: NestBuilder,
    index: str,
    extent: Expr,
    message: str | None,
    *,
    wraps: bool = False,
) -> Expr:
    """Return a value of a tensor of indices as an index expression.

    With ``wraps``, negative positions count from the end.  Those that are not below
    ``extent`` then raise an error with the message, if there is one.
    """
    at = builder.cast(index, DType.I64)
    zero = builder.literal(0, DType.I64)
    if wraps:
        from_end = builder.apply(Op.ADD, at, number_operand(builder, extent, DType.I64))
        at = builder.apply(Op.WHERE, builder.apply(Op.LT, at, zero), from_end, at)
    if message is not None:
        end = number_operand(builder, extent, DType.I64)
        inside = builder.apply(
            Op.AND, builder.apply(Op.GE, at, zero), builder.apply(Op.LT, at, end)
        )
        builder.check(inside, message)
    return Symbol(at)


def broadcast_size(tensors: Sequence[IndexedTensor]) -> tuple[Expr, ...]:
    """Return the size that tensors are broadcast to."""
    count = max((len(each.size) for each in tensors), default=0)
    size: list[Expr] = [1] * count
    for tensor in tensors:
        for place, extent in enumerate(tensor.size, count - len(tensor.size)):
            if extent != 1:
                size[place] = extent
    return tuple(size)


def less(builder: NestBuilder, left: Expr, right: Expr) -> str:
    """Return whether an expression is less than another."""
    return builder.apply(
        Op.LT, builder.index_value(left, DType.I64), builder.index_value(right, DType.I64)
    )


def within(builder: NestBuilder, at: Expr, start: Expr, end: Expr | None) -> str | None:
    """Return whether ``start <= at < end``; ``None`` where no bound is given or needed."""
    parts: list[str] = []
    if start != 0:
        first = builder.index_value(start, DType.I64)
        value = builder.index_value(at, DType.I64)
        parts.append(builder.apply(Op.GE, value, first))
    if end is not None:
        parts.append(less(builder, at, end))
    return both(builder, *parts)


def both(builder: NestBuilder, *conditions: str | None) -> str | None:
    """Return whether all conditions hold; ``None`` is a condition that always holds."""
    result: str | None = None
    for each in conditions:
        if each is not None:
            result = each if result is None else builder.apply(Op.AND, result, each)
    return result


@frozen(kw_only=True)
class Indexed:
    """The elements of a tensor that several tensors of indices choose, as ``x[a, :, b]``.

    ``indices`` has an entry for each dimension of the tensor; ``shape`` is what those that
    are given broadcast to, and ``first`` its first dimension in the ``size`` of the result.
    """

    source: IndexedTensor
    indices: tuple[IndexedTensor | None, ...]
    shape: tuple[Expr, ...]
    first: int
    size: tuple[Expr, ...]

    def point(self, builder: NestBuilder, *, checks: bool = True) -> list[Expr]:
        """Return where the tensor has the element at the builder's point of the result."""
        at = builder.point
        count = len(self.shape)
        shared = at[self.first : self.first + count]
        rest = iter((*at[: self.first], *at[self.first + count :]))
        point: list[Expr] = []
        for dim, (extent, index) in enumerate(
            zip(self.source.size, self.indices, strict=True)
        ):
            if index is None:
                point.append(next(rest))
                continue
            value = builder.load(index, broadcast_point(index, self.shape, shared))
            message = out_of_bounds(dim, extent) if checks else None
            point.append(position(builder, value, extent, message, wraps=True))
        return point


def indexed(scope: LoopScope, source: IndexedTensor, given: Sequence[Any]) -> Indexed:
    """Return the elements that ``source[given]`` is.

    Raises:
        NotLoweredError: an index is a mask, which gives as many elements as are true.
    """
    indices = [None if each is None else scope.tensor(each) for each in given]
    indices += [None] * (len(source.size) - len(indices))
    places = [dim for dim, index in enumerate(indices) if index is not None]
    for index in indices:
        if index is not None and index.dtype in (DType.BOOL, DType.U8):
            raise NotLoweredError("a mask as an index")
    if not places:
        raise NotLoweredError("no indices")
    shape = broadcast_size([index for index in indices if index is not None])
    together = places[-1] - places[0] + 1 == len(places)
    first = places[0] if together else 0
    rest = [
        extent for extent, index in zip(source.size, indices, strict=True) if index is None
    ]
    return Indexed(
        source=source,
        indices=tuple(indices),
        shape=shape,
        first=first,
        size=(*rest[:first], *shape, *rest[first:]),
    )
