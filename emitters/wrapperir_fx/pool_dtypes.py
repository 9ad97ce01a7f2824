"""The element types in which pools are allocated."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from attrs import define, field, frozen

from wrapperir.ir import (
    AllocatePoolLine,
    BodyLine,
    DType,
    Expr,
    PlaceLine,
    PoolType,
    TensorType,
    add,
    mul,
    quotient,
)
from wrapperir.ir.blocks import blocks_of
from wrapperir.ir.effects import uses
from wrapperir_fx.layouts import run_of


class PoolDtypes:
    """The element type of each pool that a list of lines allocates.

    It is the most common type that is placed there, so that most places are one view.
    """

    def __init__(self, lines: Sequence[BodyLine]) -> None:
        """Look at no line until the first pool."""
        self._lines = lines

    def dtype(self, pool: str) -> DType:
        """Return the element type of a pool; bytes where blocks place in it, too."""
        return self._dtypes[pool]

    @cached_property
    def _dtypes(self) -> Mapping[str, DType]:
        pools: dict[str, _Pool] = {}
        begins: dict[str, tuple[_Pool, Expr]] = {}  # of pools, also those in pools
        for line in self._lines:
            if isinstance(line, AllocatePoolLine):
                pool = pools[line.result] = _Pool(line.type.size)
                begins[line.result] = pool, 0
            elif isinstance(line, PlaceLine) and line.pool in begins:
                pool, begin = begins[line.pool]
                begin = add(begin, line.offset)
                if isinstance(line.type, PoolType):
                    begins[line.result] = pool, begin
                else:
                    offset = mul(line.type.offset, line.type.dtype.itemsize)
                    pool.places.append(_Place(line.type, add(begin, offset)))
            elif blocks_of(line):
                for name in uses(line):
                    if name in begins:
                        begins[name][0].lent = True
        return {name: _dtype_of(pool) for name, pool in pools.items()}


@frozen
class _Place:
    type: TensorType
    first_byte: Expr


@define(eq=False)
class _Pool:
    bytes: Expr
    places: list[_Place] = field(factory=list[_Place])
    lent: bool = False


def _dtype_of(pool: _Pool) -> DType:
    if pool.lent:
        return DType.U8
    counts = Counter(place.type.dtype for place in pool.places)
    for dtype, _ in counts.most_common():
        whole = quotient(pool.bytes, dtype.itemsize)
        if whole is not None and _holds(dtype.itemsize, pool.places):
            return dtype
    return DType.U8


def _holds(itemsize: int, places: Iterable[_Place]) -> bool:
    """Say whether all places consist of whole elements of ``itemsize`` bytes."""
    return all(
        place.type.dtype.itemsize >= itemsize
        or run_of(place.type, place.first_byte, itemsize) is not None
        for place in places
    )
