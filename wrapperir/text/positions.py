"""The positions of a program's parts in its text."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

from attrs import define, field

from wrapperir.diagnostics import LinePath, Position

Span: TypeAlias = tuple[int, int, int]
"""Line counted from 0, first column, column after the last."""

Definition: TypeAlias = tuple[int, dict[LinePath, int]]
"""The first line of a definition, and the line of each of its parts."""


@define
class BlockPlaces:
    """Positions of a block's parts; lines are counted from 0."""

    header: int = 0
    ending: int = 0
    parameters: list[Span] = field(factory=list[Span])
    lines: list[int] = field(factory=list[int])
    nested: "dict[int, dict[str, BlockPlaces]]" = field(factory=dict[int, dict[str, Any]])
    results: list[Span] = field(factory=list[Span])


@define
class ProgramPlaces(BlockPlaces):
    """Positions of a program's parts."""

    symbols: list[int] = field(factory=list[int])
    constants: list[int] = field(factory=list[int])
    groups: list[int] = field(factory=list[int])
    definitions: list[Definition] = field(factory=list[Definition])
    places: list[int] = field(factory=list[int])
    origins: list[Span] = field(factory=list[Span])


class Positions(Mapping[LinePath, Position]):
    """Maps the path of each line, input, output and block to its position in the text.

    Positions are computed at the first use.  ``()`` is the program's first line.
    """

    def __init__(self, lines: Sequence[str], places: ProgramPlaces) -> None:
        """Keep the text's lines and the places found while reading it."""
        self._lines = lines
        self._places = places

    @cached_property
    def _spans(self) -> dict[LinePath, int | Span]:
        """A line, or a part of a line, by path, in the order of the fields."""
        return dict(_spans_of_program(self._places))

    def __getitem__(self, path: LinePath) -> Position:
        """Return the position of a path.

        Raises:
            KeyError: the program has no such part, or it has no position of its own.
        """
        span = self._spans[path]
        if isinstance(span, int):
            text = self._lines[span]
            span = span, len(text) - len(text.lstrip()), len(text.rstrip())
        line, start, end = span
        return Position(line + 1, start + 1, max(1, end - start))

    def __iter__(self) -> Iterator[LinePath]:
        """Yield every path that has a position, in the order of the fields."""
        return iter(self._spans)

    def __len__(self) -> int:
        """Return the number of paths that have a position."""
        return len(self._spans)


_Spans: TypeAlias = Iterator[tuple[LinePath, int | Span]]


def _spans_of_program(places: ProgramPlaces) -> _Spans:
    yield (), places.header
    for index, (header, parts) in enumerate(places.definitions):
        yield ("definitions", index), header
        for part, line in parts.items():
            yield ("definitions", index, *part), line
    yield from _spans_of_items(("inputs",), places.parameters)
    yield from _spans_of_items(("symbols",), places.symbols)
    yield from _spans_of_items(("constants",), places.constants)
    yield from _spans_of_items(("groups",), places.groups)
    yield from _spans_of_block(places, (), "outputs")
    yield from _spans_of_items(("places",), places.places)
    yield from _spans_of_items(("origins",), places.origins)


def _spans_of_items(path: LinePath, items: Sequence[int | Span]) -> _Spans:
    for index, item in enumerate(items):
        yield (*path, index), item


def _spans_of_block(block: BlockPlaces, path: LinePath, results: str) -> _Spans:
    for index, line in enumerate(block.lines):
        yield (*path, "lines", index), line
        for role, inner in block.nested.get(index, {}).items():
            nested = (*path, "lines", index, role)
            yield nested, inner.header
            yield from _spans_of_items((*nested, "parameters"), inner.parameters)
            yield from _spans_of_block(inner, nested, "results")
    yield (*path, results), block.ending
    yield from _spans_of_items((*path, results), block.results)
