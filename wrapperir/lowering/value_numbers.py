"""Numbers of the values of inner loops: equal where loops compute equal values."""

from collections.abc import Hashable, Iterable

from wrapperir.ir import Symbol
from wrapperir.lowering.loops import (
    Apply,
    Check,
    IndexValue,
    InnerLoop,
    Literal,
    Load,
    Reduce,
    Scan,
    Step,
    Store,
)
from wrapperir.lowering.substitution import (
    index_of,
    instructions,
    names_used,
    operands,
    replace_names,
    results,
)


class ValueNumbers:
    """Numbers the values of a nest's inner loops, by what they are computed from.

    Values with equal numbers are equal at each point of their loops, which have equal
    extents.
    """

    def __init__(self, steps: Iterable[Step]) -> None:
        """Take the body of a nest."""
        self._written = {s.buffer for s in instructions(steps) if isinstance(s, Store)}
        self._numbers: dict[Hashable, int] = {}

    def of(self, loop: InnerLoop) -> dict[str, int]:
        """Return the numbers of what a loop computes.

        Values that need a buffer that the nest writes, or a reduction or scan of the loop,
        have none.
        """
        extents = tuple(axis.extent for axis in loop.axes)
        places = {axis.name: Symbol(f"#{place}") for place, axis in enumerate(loop.axes)}
        missing = {name for step in loop.body for name in results(step)}
        found: dict[str, int] = {}
        for step in loop.body:
            if not missing.isdisjoint(names_used(step)):
                continue
            index = tuple(replace_names(expr, places.get) for expr in index_of(step))
            given = tuple(found.get(name, name) for name in operands(step))
            match step:
                case Literal():
                    own: tuple[Hashable, ...] = (repr(step.value),)
                case IndexValue():
                    own = ()
                case Load():
                    if step.buffer in self._written:
                        continue
                    own = (step.buffer, repr(step.other))
                case Apply():
                    own = (step.op,)
                case Store() | Reduce() | Scan() | Check():
                    continue
            key = (extents, type(step), step.dtype, own, index, given)
            found[step.result] = self._numbers.setdefault(key, len(self._numbers))
            missing.discard(step.result)
        return found
