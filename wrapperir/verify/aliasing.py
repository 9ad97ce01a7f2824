"""Forbidden writes, and arguments of one call that partly overlap."""

from collections.abc import Sequence

from wrapperir.diagnostics import Code
from wrapperir.ir import TensorType
from wrapperir.verify.comparison import certainly_differ
from wrapperir.verify.state import Role, State, StorageFacts, ValueFacts, defined_note
from wrapperir.verify.written_bytes import (
    intersect,
    note_unknown_write,
    runs_of,
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
    state.report(
        Code.FORBIDDEN_WRITE,
        f"%{value.name} is {how}, but {why}",
        f"%{value.name}",
        notes=(defined_note(owner),),
        hint=hint,
    )


def merged_storage(sources: Sequence[ValueFacts]) -> StorageFacts:
    """Return the storage of a result that may alias any of ``sources``.

    A write to the result may write a source, so all sources count as written.
    """
    result = StorageFacts(certain=False)
    for value in sources:
        note_unknown_write(value.storage)
        result.lender = result.lender or value.storage.lender
        if value.storage.placement is not None:
            result.lender = result.lender or value.storage.placement.lender
        result.read_only = result.read_only or value.storage.read_only
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
            and a.offset == b.offset
            and len(a.size) == len(b.size)
            and any(
                certainly_differ(state.layouts, m, n)
                for m, n in zip(a.size, b.size, strict=True)
            )
            and a.stride == b.stride
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
