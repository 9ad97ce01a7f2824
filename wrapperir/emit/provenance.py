"""Remarks in emitted code that say where lines come from."""

from collections.abc import Sequence

from wrapperir.ir import AnyLine, Provenance
from wrapperir.ir.effects import LineEffects, Origin

_MEMORY = frozenset(
    {
        *(Origin.ALLOCATED, Origin.PROGRAM, Origin.POOL),
        *(Origin.PLACED, Origin.VIEW, Origin.MOVED),
    }
)
_EFFECTS = LineEffects(None)


def provenances_to_show(lines: Sequence[AnyLine]) -> list[Provenance | None]:
    """Return the provenance to remark before each line; ``None`` for no remark.

    Lines that allocate memory or make views for a call have the call's provenance, which is
    shown before the call alone.
    """
    shown = [line.provenance for line in lines]
    following: Provenance | None = None  # of the next line that does something
    for index in range(len(lines) - 1, -1, -1):
        if not _only_names_memory(lines[index]):
            following = shown[index]
        elif shown[index] == following:
            shown[index] = None
    return shown


def _only_names_memory(line: AnyLine) -> bool:
    effects = _EFFECTS.visit(line)
    origins = {made.origin for made in effects.definitions}
    return origins <= _MEMORY and (bool(origins) or effects.drops is not None)


def format_provenance(provenance: Provenance) -> str:
    """Return ``relu, add; aten.relu.default; model.py:12``; empty if nothing is known."""
    place = provenance.location
    where = f"{place.file}:{place.line}" if place else ""
    parts = (", ".join(provenance.nodes), provenance.operator, where)
    return "; ".join([part for part in parts if part])
