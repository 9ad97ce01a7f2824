"""The inner loop that each instruction of a list runs in."""

from collections.abc import Mapping

from attrs import frozen

from wrapperir.ir import DType
from wrapperir.lowering.flat_nest import FlatNest
from wrapperir.lowering.loops import Check, Instruction, Load, Reduce, Scan, Store
from wrapperir.lowering.substitution import names_used, results


class NotNestedError(ValueError):
    """Instructions have no order of loops: one outside uses a value of one inside."""


@frozen(kw_only=True)
class RowReuse:
    """A value that one inner loop stores, and later ones load instead of computing it.

    ``store`` is the store to the memory that is used; it is ``is_added`` to the first loop
    where the value is stored for nothing else.
    """

    place: int
    loop: int
    dtype: DType
    store: Store
    is_added: bool


class LoopPlan:
    """The position of each instruction: position ``k`` comes before inner loop ``k``.

    A reduction runs in the first inner loop in which its operands can be computed; so do
    stores and checks.  But a check that is the same in all points of a loop runs before it,
    unless the loop may be empty.  Stores to memory that the nest also reads run last, so
    that no read comes after.
    """

    def __init__(self, flat: FlatNest) -> None:
        """Place all instructions.

        Raises:
            NotNestedError: a store or check outside the inner axes depends on them.
        """
        self.code = flat.code
        self._inner_axes = {axis.name for axis in flat.inner}
        self._has_points = all(
            isinstance(axis.extent, int) and axis.extent > 0 for axis in flat.inner
        )
        self.definition: dict[str, int] = {}
        """The place of the instruction that defines each value."""
        self.inner: list[bool] = []
        """Whether each instruction runs in inner loops."""
        self.stage: list[int] = []
        """The first position of each instruction; for stores and checks, the only one."""
        for place, (each, deep) in enumerate(zip(flat.code, flat.deep, strict=True)):
            self._place(place, each, deep)
        self.roots = [
            place
            for place, each in enumerate(flat.code)
            if isinstance(each, Store | Check | Reduce)
        ]
        self.loops = max(
            (self.stage[place] + 1 for place in self.roots if self.inner[place]), default=0
        )
        """How many inner loops there are."""
        self._delay_stores()

    def _place(self, place: int, each: Instruction, deep: bool) -> None:
        inner = False
        stage = 0
        for name in names_used(each):
            if name in self._inner_axes:
                inner = True
            defined = self.definition.get(name)
            if defined is None:
                continue
            if isinstance(self.code[defined], Reduce):
                stage = max(stage, self.stage[defined] + 1)
            else:
                inner = inner or self.inner[defined]
                stage = max(stage, self.stage[defined])
        if isinstance(each, Store | Check):
            if inner and not deep:
                raise NotNestedError(
                    f"an instruction outside the inner axes uses them: {each}"
                )
            inner = deep and (inner or isinstance(each, Store) or not self._has_points)
        elif isinstance(each, Reduce | Scan):
            inner = True
        self.inner.append(inner)
        self.stage.append(stage)
        for name in results(each):
            self.definition[name] = place

    def _delay_stores(self) -> None:
        """Put stores last where the nest also reads the buffer or stores to it twice."""
        seen: set[str] = set()
        twice: set[str] = set()
        for each in self.code:
            if isinstance(each, Load | Store):
                if isinstance(each, Store) and each.buffer in seen:
                    twice.add(each.buffer)
                seen.add(each.buffer)
        for place in self.roots:
            each = self.code[place]
            if isinstance(each, Store) and each.buffer in twice:
                self.stage[place] = self.loops - 1 if self.inner[place] else self.loops

    def uses(self, place: int) -> list[int]:
        """Return the places of the values that an instruction uses."""
        found = (self.definition.get(name) for name in names_used(self.code[place]))
        return [other for other in found if other is not None]

    def needed(self, reuse: Mapping[int, RowReuse]) -> tuple[list[list[int]], list[int]]:
        """Return the places of what runs in each inner loop, and of what runs outside.

        What an inner loop needs of another's values is computed again, but for ``reuse``.
        """
        outer = {place for place in self.roots if not self.inner[place]}
        loops: list[list[int]] = []
        for loop in range(self.loops):
            found: set[int] = set()
            pending = [p for p in self.roots if self.inner[p] and self.stage[p] == loop]
            while pending:
                place = pending.pop()
                if place in found:
                    continue
                found.add(place)
                reused = reuse.get(place)
                if reused is not None and loop > reused.loop:
                    continue
                for other in self.uses(place):
                    if isinstance(self.code[other], Reduce):
                        continue
                    if self.inner[other]:
                        pending.append(other)
                    else:
                        outer.add(other)
            loops.append(sorted(found))
        pending = list(outer)
        while pending:
            for other in self.uses(pending.pop()):
                if not isinstance(self.code[other], Reduce) and other not in outer:
                    outer.add(other)
                    pending.append(other)
        return loops, sorted(outer)
