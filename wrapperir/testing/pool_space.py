"""The free bytes of the pools of a program while it is generated.

A pool is counted in units, of a number of bytes or of an expression.  Where units are
constant, a placement of symbolic size gets the space of the largest size in the declared
ranges.  Where they are symbolic, a placement has the size of the unit.
"""

from collections.abc import Callable, Sequence

from attrs import define, evolve, field, frozen

from wrapperir.ir import DEFAULT_SPACE, Expr, PoolType, TensorType, mul
from wrapperir.ir.builder import NamedValue


@define(eq=False)
class TrackedMemory:
    """Bytes that values share.

    ``numel`` counts its elements.  ``written`` says whether all of them were written,
    ``lent`` whether the block does not own them, ``certain`` whether the memory is known
    (else it may be the memory of ``base``), ``leaves`` whether a block may return it, and
    ``aligned`` whether it is as aligned as an allocation.
    """

    numel: Expr
    written: bool = True
    lent: bool = False
    writable: bool = True
    certain: bool = True
    base: "TrackedMemory | None" = None
    leaves: bool = True
    aligned: bool = True


@frozen(eq=False)
class TakenUnits:
    """Units ``[first, end)`` that a memory or a pool takes; without a holder, for ever."""

    first: int
    end: int
    holder: "TrackedMemory | PoolSpace | None"


@define(eq=False)
class PoolSpace:
    """The space of a pool: ``count`` units of ``unit`` bytes, or of ``numel`` elements.

    ``smaller`` are numbers of elements that are never more than ``numel``, ``alignment``
    is the alignment of every multiple of the unit, and ``leaves`` says whether a block may
    return a placement.
    """

    value: NamedValue
    unit: Expr
    count: int
    alignment: int
    numel: Expr | None = None
    smaller: tuple[Expr, ...] = ()
    owned: bool = True
    leaves: bool = True
    taken: list[TakenUnits] = field(factory=list[TakenUnits])

    def type_of(self, count: int) -> PoolType:
        """Return the type of a pool of so many units."""
        return PoolType(size=mul(self.unit, count), alignment=self.alignment)

    def units(
        self, type: TensorType, numel: Expr, most: Callable[[Expr], int]
    ) -> int | None:
        """Return the number of units of a dense tensor; ``None`` where it does not fit.

        ``most`` gives the greatest value of an expression.
        """
        wanted = max(type.alignment or 1, type.dtype.itemsize)
        is_plain = type.space == DEFAULT_SPACE and not type.pinned and type.layout is None
        if wanted > self.alignment or not is_plain:
            return None
        if self.numel is not None:
            return 1 if numel in (self.numel, *self.smaller) else None
        assert isinstance(self.unit, int)
        return -(-most(numel) * type.dtype.itemsize // self.unit)

    def free_units(self, count: int) -> Sequence[int]:
        """Return where so many free units begin."""
        return [
            first
            for first in range(self.count - count + 1)
            if all(t.end <= first or first + count <= t.first for t in self.taken)
        ]

    def lent(self, value: NamedValue) -> "PoolSpace":
        """Return the space as a block sees it under ``value``; taken units stay taken."""
        taken = [TakenUnits(t.first, t.end, None) for t in self.taken]
        return evolve(self, value=value, owned=False, leaves=False, taken=taken)
