"""What a pass did to the memory of values: placed, reused, allocated, removed."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import groupby

from attrs import frozen

from wrapperir.analysis.line_traffic import value_bytes
from wrapperir.ir import (
    BodyLine,
    EvaluationError,
    Expr,
    Number,
    PoolType,
    Program,
    ReuseLine,
    ValueType,
    evaluate_int,
)
from wrapperir.ir.blocks import walk_places
from wrapperir.ir.effects import Origin
from wrapperir.ir.line_effects import program_effects, value_types
from wrapperir.report.text import format_bytes, visible
from wrapperir.text import format_expr

FRONTEND = "the frontend"
"""Who chose a reuse of memory that no pass made."""

_MOST = 20
"""Changes of a pass that text shows."""


class MemoryChangeKind(StrEnum):
    """What a pass did to a value's memory."""

    PLACED = "placed"
    REUSED = "reused"
    ALLOCATED = "allocated"
    REMOVED = "removed"


@frozen
class MemoryChange:
    """A value whose memory a pass changed.

    ``holder`` is the pool that it is placed in, at byte ``offset``, or the value whose
    memory it got.  ``bytes`` are its own, if sizes are known.
    """

    value: str
    kind: MemoryChangeKind
    holder: str | None = None
    offset: Expr | None = None
    bytes: int | None = None

    @property
    def text(self) -> str:
        """What was done, as words after the name of the value."""
        match self.kind:
            case MemoryChangeKind.PLACED:
                offset = 0 if self.offset is None else self.offset
                return f"placed in %{self.holder} at {format_expr(offset)}"
            case MemoryChangeKind.REUSED:
                return f"given the memory of %{self.holder}"
            case MemoryChangeKind.ALLOCATED:
                return "given memory of its own"
            case MemoryChangeKind.REMOVED:
                return "removed"


_KINDS = {
    Origin.ALLOCATED: MemoryChangeKind.ALLOCATED,
    Origin.PROGRAM: MemoryChangeKind.ALLOCATED,
    Origin.POOL: MemoryChangeKind.ALLOCATED,
    Origin.PLACED: MemoryChangeKind.PLACED,
    Origin.MOVED: MemoryChangeKind.REUSED,
}


def memory_changes(
    old: Program, new: Program, values: Mapping[str, Number]
) -> tuple[MemoryChange, ...]:
    """Return what changed in the memory of values, those that were removed first.

    ``values`` are those of the symbols that bytes are counted with.
    """
    before, after = _homes(old, values), _homes(new, values)
    types, names = value_types(old), value_types(new)
    removed = (
        MemoryChange(name, MemoryChangeKind.REMOVED, bytes=_bytes(type, values))
        for name, type in types.items()
        if name not in names
    )
    changed = (each for name, each in after.items() if before.get(name) != each)
    return *removed, *changed


def is_frontend_reuse(line: BodyLine) -> bool:
    """Say whether a line reuses memory, and no pass made it."""
    passes = () if line.provenance is None else line.provenance.passes
    return isinstance(line, ReuseLine) and not passes


def frontend_reuse(
    program: Program, values: Mapping[str, Number]
) -> tuple[MemoryChange, ...]:
    """Return the values that were given the memory of others by no pass.

    The frontend chose that, such as Inductor by its own planning of memory.
    """
    return tuple(
        MemoryChange(
            line.result,
            MemoryChangeKind.REUSED,
            line.source,
            bytes=_bytes(line.type, values),
        )
        for line, _ in walk_places(program.lines)
        if isinstance(line, ReuseLine) and is_frontend_reuse(line)
    )


def _homes(program: Program, values: Mapping[str, Number]) -> dict[str, MemoryChange]:
    """Return how values whose memory the program makes got it, by their names."""
    return {
        made.name: MemoryChange(
            made.name,
            _KINDS[made.origin],
            made.source,
            made.offset if made.origin is Origin.PLACED else None,
            _bytes(made.type, values),
        )
        for done in program_effects(program)
        for made in done.definitions
        if made.origin in _KINDS
    }


def _bytes(type: ValueType, values: Mapping[str, Number]) -> int | None:
    try:
        if isinstance(type, PoolType):
            return evaluate_int(type.size, values)
        return value_bytes(type, values)
    except EvaluationError:
        return None


def format_memory_changes(changes: Sequence[tuple[str, MemoryChange]]) -> str:
    """Return what passes did as text; each change comes with the call of its pass.

    What the frontend chose comes with :data:`FRONTEND`.
    """
    by_frontend = any(call == FRONTEND for call, _ in changes)
    who = "the frontend and passes" if by_frontend else "passes"
    rows = ["", f"what {who} did to the memory of values:"] if changes else []
    for call, group in groupby(changes, key=lambda each: each[0]):
        found = [change for _, change in group]
        rows.append(f"  {call}:")
        for each in found[:_MOST]:
            size = "" if each.bytes is None else f", {format_bytes(each.bytes)}"
            rows.append(f"    %{each.value} {each.text}{size}")
        if len(found) > _MOST:
            rows.append(f"    and {len(found) - _MOST} more, which `wrapperir view` lists")
    return "".join(f"{visible(row)}\n" for row in rows)
