"""A checker of plans that shares no code with planning."""

from bisect import bisect_left, insort
from collections.abc import Sequence

from wrapperir.planning import Buffer, Plan

_PAIRS = 256
"""Up to so many buffers, every pair is compared."""


def check_plan(buffers: Sequence[Buffer], plan: Plan) -> tuple[str, ...]:
    """Return the faults of a plan, one sentence each.

    Of many buffers, those that overlap an earlier one are each named once.
    """
    if len(plan.offsets) != len(buffers):
        return (f"{len(buffers)} buffers have {len(plan.offsets)} offsets",)
    faults: list[str] = []
    height = bound = 0
    for index, (buffer, offset) in enumerate(zip(buffers, plan.offsets, strict=True)):
        if offset < 0:
            faults.append(f"buffer {index} is at the negative offset {offset}")
        if offset % buffer.alignment:
            faults.append(
                f"buffer {index} is at {offset}, no multiple of its alignment "
                f"{buffer.alignment}"
            )
        if buffer.size and buffer.begin < buffer.end:
            height = max(height, offset + buffer.size)
    if plan.height != height:
        faults.append(f"the height is {height}, the plan says {plan.height}")
    for time in {buffer.begin for buffer in buffers} if len(buffers) <= _PAIRS else ():
        live = sum(b.size for b in buffers if b.begin <= time < b.end)
        bound = max(bound, live)
    if len(buffers) <= _PAIRS and plan.lower_bound > bound:
        faults.append(f"{bound} bytes are alive at most, the plan says {plan.lower_bound}")
    find = overlapping_pairs if len(buffers) <= _PAIRS else overlaps_in_time_order
    for one, other in find(buffers, plan.offsets):
        faults.append(f"buffers {one} and {other} overlap")
    return tuple(faults)


def overlapping_pairs(
    buffers: Sequence[Buffer], offsets: Sequence[int]
) -> list[tuple[int, int]]:
    """Compare every two buffers."""
    found: list[tuple[int, int]] = []
    for i, one in enumerate(buffers):
        for j in range(i + 1, len(buffers)):
            other = buffers[j]
            in_time = max(one.begin, other.begin) < min(one.end, other.end)
            top = min(offsets[i] + one.size, offsets[j] + other.size)
            if in_time and max(offsets[i], offsets[j]) < top:
                found.append((i, j))
    return found


def overlaps_in_time_order(
    buffers: Sequence[Buffer], offsets: Sequence[int]
) -> list[tuple[int, int]]:
    """Keep the live buffers in order of offset; a buffer that overlaps is left out.

    Those kept do not overlap, so one that begins can meet only its neighbours.
    """
    events: list[tuple[int, int, int]] = []
    for index, buffer in enumerate(buffers):
        if buffer.size and buffer.begin < buffer.end:
            events.append((buffer.begin, 1, index))
            events.append((buffer.end, 0, index))
    live: list[tuple[int, int]] = []
    kept: set[int] = set()
    found: list[tuple[int, int]] = []
    for _, begins, index in sorted(events):
        place = (offsets[index], index)
        if not begins:
            if index in kept:
                del live[bisect_left(live, place)]
            continue
        at = bisect_left(live, place)
        met = [
            other
            for offset, other in live[max(at - 1, 0) : at + 1]
            if offset < offsets[index] + buffers[index].size
            and offsets[index] < offset + buffers[other].size
        ]
        found += [(other, index) for other in met]
        if not met:
            insort(live, place)
            kept.add(index)
    return found
