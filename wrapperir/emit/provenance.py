"""Remarks that say where lines come from."""

from collections.abc import Sequence

from wrapperir.ir import (
    AllocateLine,
    AllocatePoolLine,
    AnyLine,
    FreeLine,
    PlaceLine,
    Provenance,
    ReinterpretLine,
    ReuseLine,
)

_OF_MEMORY = (
    AllocateLine,
    AllocatePoolLine,
    FreeLine,
    PlaceLine,
    ReinterpretLine,
    ReuseLine,
)


def provenances_to_show(lines: Sequence[AnyLine]) -> list[Provenance | None]:
    """Return what to remark before each line: where it comes from, if that is to be said.

    Lines that make room for a call, or views for it, come from where the call does: it is
    said before the call, not before them.
    """
    shown = [line.provenance for line in lines]
    following: Provenance | None = None  # that of the next line that does something
    for index in range(len(lines) - 1, -1, -1):
        if not isinstance(lines[index], _OF_MEMORY):
            following = shown[index]
        elif shown[index] == following:
            shown[index] = None
    return shown


def format_provenance(provenance: Provenance) -> str:
    """Return ``relu, add; aten.relu.default; model.py:12``; empty if nothing is known."""
    place = provenance.location
    where = f"{place.file}:{place.line}" if place else ""
    parts = (", ".join(provenance.nodes), provenance.operator, where)
    return "; ".join([part for part in parts if part])
