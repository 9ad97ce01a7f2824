"""The sections of time that decide whether a plan fits, and what they hold."""

from collections.abc import Sequence
from itertools import accumulate
from math import gcd

from wrapperir.planning.instance import Buffer
from wrapperir.planning.slots import Slots


def sections(slots: Slots) -> Slots:
    """Return the same buffers with fewer slots, in order of their first one.

    A slot that ends without the end of a buffer holds no more than the next one, so the
    two are merged.  Two buffers are alive together if and only if they share a slot.
    """
    ending = set(slots.stop)
    kept = [0, *accumulate(int(slot + 1 in ending) for slot in range(slots.count))]
    spans = [(kept[a], kept[b]) for a, b in zip(slots.first, slots.stop, strict=True)]
    order = sorted(range(len(spans)), key=spans.__getitem__)
    return Slots(
        kept[-1],
        tuple(slots.buffers[i] for i in order),
        tuple(spans[i][0] for i in order),
        tuple(spans[i][1] for i in order),
        tuple(slots.sizes[i] for i in order),
        tuple(slots.alignments[i] for i in order),
    )


def static_orders(slots: Slots, buffers: Sequence[Buffer]) -> tuple[tuple[int, ...], ...]:
    """Return, in three orders, which buffers of ``slots`` are the more urgent to place.

    They are those of MiniMalloc (see :mod:`~wrapperir.planning.tree_search`): lifetime,
    area, and the bytes of the fullest section, each first once.  An order is given as
    the rank of each buffer in it.
    """
    change = [0] * (slots.count + 1)
    for first, stop, size in zip(slots.first, slots.stop, slots.sizes, strict=True):
        change[first] += size
        change[stop] -= size
    live = list(accumulate(change))
    facts: list[tuple[int, int, int]] = []
    for index, first, stop in zip(slots.buffers, slots.first, slots.stop, strict=True):
        lifetime = buffers[index].end - buffers[index].begin
        area = lifetime * buffers[index].size
        facts.append((-lifetime, -area, -max(live[first:stop])))
    ranks: list[tuple[int, ...]] = []
    for one, two, three in ((0, 1, 2), (2, 1, 0), (2, 0, 1)):
        keys = [(fact[one], fact[two], fact[three]) for fact in facts]
        rank = [0] * len(keys)
        for place, index in enumerate(sorted(range(len(keys)), key=keys.__getitem__)):
            rank[index] = place
        ranks.append(tuple(rank))
    return tuple(ranks)


def unit(slots: Slots) -> int:
    """Return a number of bytes of which every useful height is a multiple, at least 1."""
    common = gcd(*slots.sizes)
    if not common or any(a % common and common % a for a in slots.alignments):
        return 1
    return common
