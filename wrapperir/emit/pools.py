"""Pools as tensors, and views of these tensors for the buffers in a pool.

A view is made once a block: buffers that are placed at the same bytes with the same type,
one after the other, are one tensor.  So placing and freeing mostly cost nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from attrs import define, evolve, field, frozen

from wrapperir import ir as wir
from wrapperir.emit.source_text import Fragment
from wrapperir.ir.effects import Effects, Origin

PoolLayout: TypeAlias = tuple[
    wir.Expr, wir.DType, tuple[wir.Expr, ...], tuple[wir.Expr, ...]
]
"""The byte of a pool that a tensor's first element is at, dtype, size and stride."""


def layout_at(begin: wir.Expr, type: wir.TensorType) -> PoolLayout:
    """Return the layout of a tensor whose storage begins at byte ``begin`` of a pool."""
    first = wir.add(begin, wir.mul(type.offset, type.dtype.itemsize))
    return first, type.dtype, type.size, type.stride


@define
class PoolUse:
    """The buffers placed in an allocated pool, and in the pools that are placed in it.

    A pool that ``is_lent`` is an operand of a line with blocks.
    """

    type: wir.PoolType
    dtypes: Counter[wir.DType] = field(factory=Counter[wir.DType])
    layouts: set[PoolLayout] = field(factory=set[PoolLayout])
    is_lent: bool = False

    def tensor_type(self) -> wir.TensorType:
        """Return the type of a tensor for the pool that needs the fewest views.

        Where all buffers have one layout that fills the pool, it is their type; otherwise
        a vector of the commonest dtype that measures the pool, or of bytes.
        """
        pool = self.type
        plain = wir.pool_bytes(pool)
        if len(self.layouts) == 1:
            ((first, dtype, size, stride),) = self.layouts
            only = evolve(plain, dtype=dtype, size=size, stride=stride)
            if (
                first == 0
                and wir.mul(wir.storage_extent(only), dtype.itemsize) == pool.size
            ):
                return only
        for dtype, _ in self.dtypes.most_common(1):
            length = wir.quotient(pool.size, dtype.itemsize)
            if length is not None:
                return evolve(plain, dtype=dtype, size=(length,))
        return plain


def pool_uses(effects: Iterable[Effects]) -> Mapping[str, PoolUse]:
    """Return the use of each allocated pool, by its name, in lines with these effects."""
    uses: dict[str, PoolUse] = {}
    places: dict[str, tuple[PoolUse, wir.Expr]] = {}  # of pools, those in pools too
    for effect in effects:
        for made in effect.definitions:
            if made.origin is Origin.POOL and isinstance(made.type, wir.PoolType):
                use = uses[made.name] = PoolUse(made.type)
                places[made.name] = use, 0
            elif made.origin is Origin.PLACED and made.source in places:
                use, outer = places[made.source]
                begin = wir.add(outer, made.offset)
                if isinstance(made.type, wir.TensorType):
                    use.dtypes[made.type.dtype] += 1
                    use.layouts.add(layout_at(begin, made.type))
                else:
                    places[made.name] = use, begin
        for nested in effect.blocks:
            for parameter, operand in zip(
                nested.block.parameters, nested.operands, strict=True
            ):
                if isinstance(parameter.type, wir.PoolType) and isinstance(
                    operand, wir.BufferRef
                ):
                    places[parameter.name] = places[operand.name]
                    places[operand.name][0].is_lent = True
    return uses


@define(eq=False)
class PoolTensor:
    """The tensor of an allocated pool, and the number of names that hold its memory."""

    tensor: Fragment
    type: wir.TensorType
    size: wir.Expr
    names: int = 1


@frozen
class PoolPlace:
    """The byte of an allocated pool at which a pool, or a buffer's storage, begins."""

    pool: PoolTensor
    begin: wir.Expr


@frozen
class _PoolViews:
    """The tensors that a block has made: views by layout, and all tensors of each pool."""

    views: dict[tuple[Fragment, PoolLayout], Fragment] = field(
        factory=dict[tuple[Fragment, PoolLayout], Fragment]
    )
    tensors: dict[Fragment, list[Fragment]] = field(factory=dict[Fragment, list[Fragment]])


class PoolTensors:
    """The tensors that stand for pools and for buffers in them, at one point of a program.

    An emitter tells it of each pool, place, view and drop, and writes what it asks for.
    """

    def __init__(self) -> None:
        """Start with no pools, in the outermost block."""
        self._places: dict[str, PoolPlace] = {}
        self._scopes = [_PoolViews()]

    def __contains__(self, name: str) -> bool:
        """Return whether a name is a pool, or a tensor in one."""
        return name in self._places

    def __getitem__(self, name: str) -> PoolPlace:
        """Return where in a pool a name's memory begins."""
        return self._places[name]

    def enter(self) -> None:
        """Begin a nested block."""
        self._scopes.append(_PoolViews())

    def leave(self) -> list[list[Fragment]]:
        """End a nested block; return the tensors that it made, to be dropped."""
        return list(self._scopes.pop().tensors.values())

    def lend(self, parameter: str, operand: str) -> None:
        """Record that a block's parameter is a pool."""
        self._places[parameter] = self._places[operand]

    def allocate(self, name: str, pool: PoolTensor) -> None:
        """Add an allocated pool."""
        self._places[name] = PoolPlace(pool, 0)
        scope = self._scopes[-1]
        scope.tensors[pool.tensor] = [pool.tensor]
        scope.views[pool.tensor, layout_at(0, pool.type)] = pool.tensor

    def add_name(self, name: str, place: PoolPlace) -> None:
        """Record that one more name holds memory of a pool."""
        self._places[name] = place
        place.pool.names += 1

    def drop(self, name: str) -> list[Fragment]:
        """Drop a name; return the tensors to drop if it was the pool's last."""
        pool = self._places[name].pool
        pool.names -= 1
        return [] if pool.names else self._scopes[-1].tensors.pop(pool.tensor)

    def known(self, pool: PoolTensor, layout: PoolLayout) -> Fragment | None:
        """Return the tensor of a layout that this block, or one around it, has made."""
        for scope in reversed(self._scopes):
            tensor = scope.views.get((pool.tensor, layout))
            if tensor is not None:
                return tensor
        return None

    def add_view(self, pool: PoolTensor, layout: PoolLayout, tensor: Fragment) -> None:
        """Add a tensor that the block has made."""
        scope = self._scopes[-1]
        scope.views[pool.tensor, layout] = tensor
        scope.tensors.setdefault(pool.tensor, []).append(tensor)
