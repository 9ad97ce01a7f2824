"""Looking up the origins of a program, and dropping those that no line has."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from attrs import evolve

from wrapperir.ir.blocks import Path, parts_on, walk_lines
from wrapperir.ir.definition import Line
from wrapperir.ir.program import Program
from wrapperir.ir.provenance import NodeOrigin, Provenance, SourcePlace


class OriginTable:
    """The origins and places of a program.

    Names and indices that the program does not list are left out.
    """

    def __init__(self, program: Program) -> None:
        """Read the tables of a program when they are first asked for."""
        self._program = program
        self._origins = program.origins
        self._places = program.places

    @cached_property
    def by_name(self) -> Mapping[str, NodeOrigin]:
        """The origins by name; of equal names the first."""
        return {each.name: each for each in reversed(self._origins)}

    def of(self, provenance: Provenance | None) -> list[NodeOrigin]:
        """Return the origins of a line, in the order of its names."""
        names = () if provenance is None else provenance.origins
        return [self.by_name[name] for name in names if name in self.by_name]

    def place(self, origin: NodeOrigin) -> SourcePlace | None:
        """Return the innermost place of an origin."""
        return next(self._outwards(origin), None)

    def stack(self, origin: NodeOrigin) -> tuple[SourcePlace, ...]:
        """Return the places of an origin, the outermost first."""
        return tuple(reversed(list(self._outwards(origin))))

    def source_of(self, path: Path) -> str | None:
        """Return the place in the user's source of the line at a path, as ``file:line``.

        Without one, it is that of the line around it; ``None`` if none has a place.
        """
        found: str | None = None
        for part in parts_on(self._program, path):
            provenance = getattr(part, "provenance", None)
            if isinstance(provenance, Provenance):
                places = filter(None, map(self.place, self.of(provenance)))
                found = next((f"{each.file}:{each.line}" for each in places), found)
        return found

    def _outwards(self, origin: NodeOrigin) -> Iterator[SourcePlace]:
        before, index = len(self._places), origin.place
        while index is not None and 0 <= index < before:
            yield self._places[index]
            before, index = index, self._places[index].caller


def all_lines(program: Program) -> Iterator[Line]:
    """Yield the definitions, symbols and lines of a program, nested ones included."""
    yield from program.definitions
    yield from program.symbols
    yield from walk_lines(program.lines)


def trim_origins(program: Program) -> Program:
    """Return the program without the origins and places of no line or input."""
    provenances = [each.provenance for each in program.inputs]
    provenances += [line.provenance for line in all_lines(program)]
    used = {name for each in provenances if each is not None for name in each.origins}
    origins = [each for each in program.origins if each.name in used]
    kept = _with_callers(program.places, (each.place for each in origins))
    if len(origins) == len(program.origins) and len(kept) == len(program.places):
        return program
    number = {old: new for new, old in enumerate(kept)}
    return evolve(
        program,
        origins=tuple([evolve(x, place=_renumbered(x.place, number)) for x in origins]),
        places=tuple(
            [
                evolve(place, caller=_renumbered(place.caller, number))
                for place in (program.places[old] for old in kept)
            ]
        ),
    )


def _with_callers(places: Sequence[SourcePlace], wanted: Iterable[int | None]) -> list[int]:
    """Return the indices of places and of those that call them, in order."""
    found: set[int] = set()
    for index in wanted:
        while index is not None and 0 <= index < len(places) and index not in found:
            found.add(index)
            index = places[index].caller
    return sorted(found)


def _renumbered(index: int | None, number: Mapping[int, int]) -> int | None:
    return None if index is None else number.get(index)
