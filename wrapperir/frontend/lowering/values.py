"""Values of graph nodes: tensors as views of buffers, scalars as expressions."""

from collections.abc import Sequence
from typing import TypeAlias, Union

from attrs import evolve, field, frozen

from wrapperir.ir import DType, Expr, NodeOrigin, Operation, Symbol, substitute


@frozen(kw_only=True)
class IndexedTensor:
    """A tensor: a buffer and where in it each element is.

    ``index`` has an expression for each dimension of the buffer, over ``d0``, ``d1`` …,
    the coordinates of an element of the tensor, and size symbols.  ``views`` are the nodes
    that made it an index of the buffer.
    """

    buffer: str
    dtype: DType
    size: tuple[Expr, ...]
    index: tuple[Expr, ...]
    views: tuple[NodeOrigin, ...] = field(default=(), eq=False)

    def at(self, point: Sequence[Expr]) -> tuple[Expr, ...]:
        """Return the index in the buffer of the element at a point of the tensor."""
        return rewritten(self.index, point)

    def viewed(self, size: Sequence[Expr], point: Sequence[Expr]) -> "IndexedTensor":
        """Return a view: its element ``d0, d1 …`` is that at ``point`` of this tensor."""
        return IndexedTensor(
            buffer=self.buffer,
            dtype=self.dtype,
            size=tuple(size),
            index=rewritten(self.index, point),
            views=self.views,
        )


NodeValue: TypeAlias = Union[IndexedTensor, Expr, tuple["NodeValue", ...], None]
"""The value of a node; several results are a tuple."""


def with_view(value: NodeValue, view: NodeOrigin) -> NodeValue:
    """Return the value of a node that is only a view of others, with that node."""
    if isinstance(value, IndexedTensor):
        return evolve(value, views=(*value.views, view))
    return tuple(with_view(x, view) for x in value) if isinstance(value, tuple) else value


def dimension(number: int) -> Symbol:
    """Return the coordinate of a dimension."""
    return Symbol(f"d{number}")


def dimensions(count: int) -> tuple[Expr, ...]:
    """Return the coordinates of all dimensions."""
    return tuple(dimension(number) for number in range(count))


def rewritten(index: Sequence[Expr], point: Sequence[Expr]) -> tuple[Expr, ...]:
    """Return expressions over ``d0``, ``d1`` … with ``point`` in their place."""
    values = {f"d{number}": part for number, part in enumerate(point)}
    return tuple(
        substitute(part, values) if isinstance(part, Symbol | Operation) else part
        for part in index
    )
