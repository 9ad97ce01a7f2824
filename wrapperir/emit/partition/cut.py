"""The cut of a program's lines into parts, each for one of two emitters."""

from collections import defaultdict
from collections.abc import Mapping, Set
from enum import StrEnum

from attrs import evolve, frozen

from wrapperir.emit.partition.dependencies import LineOrder
from wrapperir.emit.partition.values import Described


class Side(StrEnum):
    """The emitter that a part is for: the one that was chosen, or its fallback."""

    CHOSEN = "chosen"
    FALLBACK = "fallback"


@frozen
class Cut:
    """The parts, in the order they run.

    ``sides`` has the emitter of each part, ``parts`` the part of each placed line.
    """

    sides: tuple[Side, ...]
    parts: Mapping[int, int]


def cut_lines(
    values: Described, order: LineOrder, lacking: Set[int], alone: Side = Side.CHOSEN
) -> Cut:
    """Return the fewest parts that keep the order; ``lacking`` lines are the fallback's.

    A part is a level: of two lines in order, the second is in the same part as the first
    or a later one, and in a later one if they are of different emitters.  Lines that
    launch nothing are where what they need is.  So no two parts need each other, and no
    other cut into parts that run one after the other has fewer parts: some chain of lines
    in order changes its emitter at each border.  Lines that need no other line are in the
    last part before their results are used, which keeps those for a shorter time.

    Linear in the order's pairs.  A program that launches nothing is one part, of the
    emitter ``alone``.
    """
    lacking = frozenset(order.anchors[line] for line in lacking)
    found = min(
        (_cut(values, order, lacking, first) for first in Side),
        key=lambda cut: len(cut.sides),
    )
    return found if found.sides else evolve(found, sides=(alone,))


def _cut(values: Described, order: LineOrder, lacking: Set[int], first: Side) -> Cut:
    anchors = [line for line in order.placed if order.anchors[line] == line]
    odd = {
        Side.CHOSEN: int(first is Side.FALLBACK),
        Side.FALLBACK: int(first is first.CHOSEN),
    }
    """The parity of the levels of each side."""
    fixed: dict[int, int] = {}
    for line in anchors:
        if line in lacking:
            fixed[line] = odd[Side.FALLBACK]
        elif values.effects[line].launches or values.effects[line].blocks:
            fixed[line] = odd[Side.CHOSEN]
    levels: dict[int, int] = {}
    free: set[int] = set()
    """Lines of a side that need no line but others of these."""
    for line in anchors:
        before = order.before[line]
        least = max((levels[other] for other in before), default=-1)
        parity = fixed.get(line)
        if parity is None:
            levels[line] = least
            continue
        levels[line] = _at_least(max(least, 0), parity)
        if line not in order.effects and free.issuperset(before):
            free.add(line)
    _sink(order, anchors, levels, free)
    return _parts(order, levels, odd)


def _at_least(level: int, parity: int) -> int:
    """Return the first level from ``level`` on of a parity."""
    return level + (level % 2 != parity)


def _sink(
    order: LineOrder, anchors: list[int], levels: dict[int, int], free: set[int]
) -> None:
    """Move free lines to the last level before what comes after them."""
    limits: dict[int, int] = {}
    for line in reversed(anchors):
        limit = limits.get(line)
        if line in free and limit is not None:
            levels[line] = limit - (limit % 2 != levels[line] % 2)
        for other in order.before[line]:
            limits[other] = min(limits.get(other, levels[line]), levels[line])


def _parts(order: LineOrder, levels: dict[int, int], odd: Mapping[Side, int]) -> Cut:
    """Return the parts of levels, without empty ones; neighbours of one side are joined."""
    lines: dict[int, list[int]] = defaultdict(list)
    early: list[int] = []
    for line in order.placed:
        level = levels[order.anchors[line]]
        (early if level < 0 else lines[level]).append(line)
    sides: list[Side] = []
    parts: dict[int, int] = {}
    for level in sorted(lines):
        side = next(side for side, parity in odd.items() if parity == level % 2)
        if not sides or sides[-1] is not side:
            sides.append(side)
        parts.update(dict.fromkeys(lines[level], len(sides) - 1))
    parts.update(dict.fromkeys(early, 0))
    return Cut(tuple(sides), parts)
