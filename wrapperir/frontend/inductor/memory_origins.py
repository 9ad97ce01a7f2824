"""Origins of the lines that make and name memory for a kernel or call."""

from collections.abc import Sequence

from attrs import evolve

from wrapperir import ir as wir
from wrapperir.ir.line_effects import definitions, uses


def with_memory_origins(lines: Sequence[wir.BodyLine]) -> tuple[wir.BodyLine, ...]:
    """Return lines, where memory comes from what the first line computes that uses it."""
    found: list[wir.BodyLine] = []
    users: dict[str, wir.Provenance] = {}
    for line in reversed(lines):
        if line.provenance is None:
            names = [name for name, _ in definitions(line) if name in users]
            line = evolve(line, provenance=users[names[0]]) if names else line
        if line.provenance is not None:
            users.update(dict.fromkeys(uses(line), line.provenance))
        found.append(line)
    return tuple(reversed(found))
