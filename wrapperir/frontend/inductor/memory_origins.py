"""Origins of the lines that make and name memory for a kernel or call."""

from collections.abc import Mapping, Sequence

from attrs import evolve

from wrapperir import ir as wir
from wrapperir.ir.line_effects import definitions, uses


def with_memory_origins(
    lines: Sequence[wir.BodyLine], written_by: Mapping[str, wir.Provenance]
) -> tuple[wir.BodyLine, ...]:
    """Return lines, where memory comes from what the first line computes that uses it.

    ``written_by`` has what computes buffers where not all of a line does.
    """
    found: list[wir.BodyLine] = []
    users: dict[str, wir.Provenance] = {}
    for line in reversed(lines):
        if line.provenance is None:
            names = [name for name, _ in definitions(line) if name in users]
            if names:
                provenance = written_by.get(names[0], users[names[0]])
                line = evolve(line, provenance=provenance)
        if line.provenance is not None:
            users.update(dict.fromkeys(uses(line), line.provenance))
        found.append(line)
    return tuple(reversed(found))
