"""Reads and writes of memory: unwritten bytes, forbidden writes and partial overlaps.

Bytes that may have been written are known of storages of constant size.  A read of any
other byte is certainly a fault.  A write whose layout is not constant counts as a write of
all bytes, and such a read as a read of written bytes.  A layout in too many pieces counts
as written from its first byte to its last, and is not checked when read.
"""

import itertools
from collections.abc import Sequence
from typing import TypeAlias

from wrapperir.analysis.range_map import RangeMap
from wrapperir.diagnostics import Code
from wrapperir.ir import DEFAULT_SPACE, Expr, TensorType
from wrapperir.verify.comparison import any_differ, are_written_alike
from wrapperir.verify.layouts import Layouts
from wrapperir.verify.state import Role, State, StorageFacts, ValueFacts, defined_note

Runs: TypeAlias = tuple[tuple[int, int], ...]
"""Disjoint ranges of bytes in increasing order, not adjacent: begin and end of each."""

_MOST_RUNS = 1024
_MOST_PERHAPS = 8
"""Results of operators that a result is perhaps a view of: the last ones of each source."""


def runs_of(value: ValueFacts) -> Runs | None:
    """Return the bytes that a tensor's elements have, counted from the storage's start.

    ``None`` where sizes, strides or offset are not constant, or there are too many runs.
    """
    facts = value.facts
    if facts.reach is None or facts.empty:
        return () if facts.empty else None
    if facts.runs is None:
        assert isinstance(value.type, TensorType)
        facts.runs = _build_runs(value.type, facts.reach)
    return facts.runs or None


def _build_runs(type: TensorType, reach: int) -> Runs:
    """Return the runs of a constant layout with elements; none if they are too many.

    ``reach`` is the end of its last byte.
    """
    assert isinstance(type.offset, int)
    item = type.dtype.itemsize
    first = type.offset * item
    step: Expr = 1
    dim = len(type.size)
    for size in reversed(type.size):
        dim -= 1
        if type.stride[dim] != step and size != 1:
            break
        step = step * size
    else:
        return ((first, reach),)  # row-major, as most layouts are
    length = item
    outer: list[range] = []
    count = 1
    dims = [
        (stride * item, size)
        for stride, size in zip(type.stride, type.size, strict=True)
        if isinstance(stride, int) and isinstance(size, int) and size > 1 and stride
    ]
    for step, size in sorted(dims):
        if step <= length and not outer:
            length += (size - 1) * step
        else:
            outer.append(range(0, size * step, step))
            count *= size
    if count > _MOST_RUNS:
        return ()
    begins = sorted(first + sum(steps) for steps in itertools.product(*outer))
    merged: list[tuple[int, int]] = []
    for begin in begins:
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], begin + length))
        else:
            merged.append((begin, begin + length))
    return tuple(merged)


def intersect(left: Runs, right: Runs) -> bool:
    """Say whether two sets of bytes share one."""
    at = 0
    for begin, end in left:
        while at < len(right) and right[at][1] <= begin:
            at += 1
        if at < len(right) and right[at][0] < end:
            return True
    return False


def note_write(state: State, value: ValueFacts, *, gaps_too: bool = False) -> None:
    """Note that the elements of a value may have been written.

    With ``gaps_too``, all bytes from the first element to the end of the last may be.
    """
    storage = value.storage
    if (storage.written and storage.unwritten is None) or value.facts.empty:
        return
    type, reach = value.type, value.facts.reach
    size = None if storage.extent is None else state.layouts.of(storage.extent).reach
    if reach is None or size is None or not isinstance(type, TensorType):
        note_unknown_write(storage)
        return
    runs = None if gaps_too else runs_of(value)
    if runs is None:
        assert isinstance(type.offset, int)
        runs = ((type.offset * type.dtype.itemsize, reach),)
    if runs == ((0, size),):
        note_unknown_write(storage)
        return
    state.run_budget -= len(runs)
    if state.run_budget < 0:
        note_unknown_write(storage)
        return
    unwritten = storage.unwritten
    if unwritten is None:
        unwritten = storage.unwritten = RangeMap()
        unwritten.insert(0, size, None)
        storage.written = True
    for begin, end in runs:
        unwritten.cut(begin, end)
    if next(unwritten.overlapping(0, size), None) is None:
        storage.unwritten = None


def note_unknown_write(storage: StorageFacts) -> None:
    """Note that any byte of a storage may have been written."""
    storage.written = True
    storage.unwritten = None


def is_unwritten(state: State, value: ValueFacts) -> bool:
    """Say whether a value certainly has elements and all of their bytes are unwritten."""
    return _unwritten(state, value)[1]


def _unwritten(state: State, value: ValueFacts) -> tuple[bool, bool]:
    """Say whether some bytes, and all bytes, of a value's elements are unwritten."""
    unwritten = value.storage.unwritten
    if not value.storage.written:
        has_elements = _has_elements(state.layouts, value)
        return has_elements, has_elements
    if unwritten is None or not isinstance(value.type, TensorType):
        return False, False
    runs = runs_of(value) or ()
    state.run_budget -= len(runs)
    if state.run_budget < 0 or not runs:
        return False, False
    some = any(next(unwritten.overlapping(*run), None) is not None for run in runs)
    return some, some and all(_covers(unwritten, begin, end) for begin, end in runs)


def _covers(ranges: RangeMap[None], begin: int, end: int) -> bool:
    """Say whether one of the ranges, no two of which are adjacent, covers a run."""
    return any(
        first <= begin and end <= last for first, last, _ in ranges.overlapping(begin, end)
    )


def _has_elements(layouts: Layouts, value: ValueFacts) -> bool:
    if value.facts.empty or value.facts.faults or not isinstance(value.type, TensorType):
        return False
    return value.facts.reach is not None or all(
        layouts.expressions.interval(size)[0] >= 1 for size in value.type.size
    )


def check_read(state: State, value: ValueFacts, reader: str) -> None:
    """Report a read of all elements of a value that is partly unwritten.

    ``reader`` begins the message: ``aten.sum.default reads``.
    """
    storage = value.storage
    if storage.written and storage.unwritten is None:
        return
    if not isinstance(value.type, TensorType) or value.type.space != DEFAULT_SPACE:
        return  # other programs may write other memory spaces
    if not _unwritten(state, value)[0]:
        return
    wholly = not storage.written
    note_unknown_write(storage)  # so that it is reported once
    state.report_value(
        value,
        Code.UNINITIALIZED_READ,
        f"{reader} %{value.name}, "
        + ("which nothing has written" if wholly else "which nothing has wholly written"),
        hint="write all of it first",
    )


def check_writable(state: State, value: ValueFacts) -> None:
    """Report a write through a name whose memory may not be written."""
    storage = value.storage
    owner = storage.read_only
    if owner is None:
        return
    what = {Role.CONSTANT: "constant", Role.INPUT: "input"}.get(owner.role)
    if what is None:
        why = f"the operand of block parameter %{owner.name} may not be written"
        hint = None
    else:
        why = f"the {what} %{owner.name} is not mutated"
        hint = f"declare %{owner.name} mutated, or write to a buffer of its own"
    how = "written"
    if owner is not value:
        how = "written, as a view" if storage.certain else "written, as perhaps a view"
        how += f" of %{owner.name}"
    state.report_value(
        value, Code.FORBIDDEN_WRITE, f"%{value.name} is {how}, but {why}", owner, hint=hint
    )


def merged_storage(sources: Sequence[ValueFacts]) -> StorageFacts:
    """Return the storage of a result that may alias any of ``sources``.

    A write to the result may write a source, so all sources count as written.
    """
    result = StorageFacts(certain=False)
    perhaps: dict[int, StorageFacts] = {}
    for value in sources:
        note_unknown_write(value.storage)
        perhaps[id(value.storage)] = value.storage
        others = [each for each in value.storage.perhaps if not each.certain]
        roots = [each for each in value.storage.perhaps if each.certain]
        perhaps |= {id(each): each for each in (*others[:_MOST_PERHAPS], *roots)}
        result.lender = result.lender or value.storage.lender
        if value.storage.placement is not None:
            result.lender = result.lender or value.storage.placement.lender
        result.read_only = result.read_only or value.storage.read_only
    result.perhaps = tuple(perhaps.values())
    return result


def check_overlaps(state: State, buffers: Sequence[tuple[ValueFacts, bool]]) -> None:
    """Report arguments of one call that certainly overlap in part, one of them written.

    ``buffers`` has each argument, and whether it is written.
    """
    by_storage: dict[int, dict[str, tuple[ValueFacts, bool]]] = {}
    for value, written in buffers:
        if value.storage.certain:
            group = by_storage.setdefault(id(value.storage), {})
            before = group.get(value.name)
            group[value.name] = (value, written or (before is not None and before[1]))
    for group in by_storage.values():
        if len(group) > 1 and any(written for _, written in group.values()):
            _check_group(state, list(group.values()))


def _check_group(state: State, group: list[tuple[ValueFacts, bool]]) -> None:
    """Compare the views of one storage in a call, each written one with each other one.

    A budget for the whole program bounds the cost of hostile files.  When it is used up,
    no overlap is reported.
    """
    for index, (left, left_written) in enumerate(group):
        for right, right_written in group[index + 1 :]:
            state.overlap_budget -= 1
            if state.overlap_budget < 0:
                return
            if (left_written or right_written) and partly_overlap(state, left, right):
                state.report(
                    Code.PARTIAL_OVERLAP,
                    f"%{left.name} and %{right.name} share a part of their memory, and the "
                    "kernel writes it",
                    f"%{right.name}",
                    notes=(defined_note(left), defined_note(right)),
                )
                return


def partly_overlap(state: State, left: ValueFacts, right: ValueFacts) -> bool:
    """Say whether two views of one storage certainly share some bytes but not all."""
    a, b = left.type, right.type
    assert isinstance(a, TensorType)
    assert isinstance(b, TensorType)
    if left.facts.empty or right.facts.empty or left.facts.faults or right.facts.faults:
        return False
    first, second = left.facts.reach, right.facts.reach
    if first is None or second is None:
        return (
            a.dtype is b.dtype
            and are_written_alike((a.offset,), (b.offset,))
            and len(a.size) == len(b.size)
            and any_differ(state.layouts, a.size, b.size)
            and are_written_alike(a.stride, b.stride)
            and 0 not in a.stride
        )
    if _start(b) >= first or _start(a) >= second:
        return False
    mine, others = runs_of(left), runs_of(right)
    if mine is None or others is None or mine == others:
        return False
    state.overlap_budget -= len(mine) + len(others)
    return state.overlap_budget >= 0 and intersect(mine, others)


def _start(type: TensorType) -> int:
    assert isinstance(type.offset, int)
    return type.offset * type.dtype.itemsize
