"""Bytes that may have been written, of storages of constant size.

A read of any other byte is certainly a fault.  A write whose layout is not constant counts
as a write of all bytes, and such a read as one of written bytes.  A layout in too many
pieces counts as written from its first byte to its last, and is not checked when read.
"""

import itertools
from typing import TypeAlias

from wrapperir.analysis.arithmetic.range_map import RangeMap
from wrapperir.diagnostics import Code
from wrapperir.ir import DEFAULT_SPACE, Expr, TensorType
from wrapperir.verify.layouts import Layouts
from wrapperir.verify.state import State, StorageFacts, ValueFacts, defined_note

Runs: TypeAlias = tuple[tuple[int, int], ...]
"""Disjoint ranges of bytes in increasing order, not adjacent: begin and end of each."""

_MOST_RUNS = 1024


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
    for size, stride in zip(type.size[::-1], type.stride[::-1], strict=True):
        if stride != step and size != 1:
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


def is_partly_unwritten(state: State, value: ValueFacts) -> bool:
    """Say whether some byte of an element of a value is certainly unwritten."""
    storage = value.storage
    if storage.written:
        if storage.unwritten is None or not isinstance(value.type, TensorType):
            return False
        runs = runs_of(value) or ()
        state.run_budget -= len(runs)
        return state.run_budget >= 0 and any(
            next(storage.unwritten.overlapping(begin, end), None) is not None
            for begin, end in runs
        )
    return _has_elements(state.layouts, value)


def is_unwritten(state: State, value: ValueFacts) -> bool:
    """Say whether a value certainly has elements and all of their bytes are unwritten."""
    storage = value.storage
    if not storage.written:
        return _has_elements(state.layouts, value)
    if storage.unwritten is None or not isinstance(value.type, TensorType):
        return False
    runs = runs_of(value) or ()
    state.run_budget -= len(runs)
    return (
        state.run_budget >= 0
        and bool(runs)
        and all(_covers(storage.unwritten, begin, end) for begin, end in runs)
    )


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
    if not is_partly_unwritten(state, value):
        return
    wholly = not storage.written
    note_unknown_write(storage)  # so that it is reported once
    state.report(
        Code.UNINITIALIZED_READ,
        f"{reader} %{value.name}, "
        + ("which nothing has written" if wholly else "which nothing has wholly written"),
        f"%{value.name}",
        notes=(defined_note(value),),
        hint="write all of it first",
    )
