"""The positions of a program's parts in its text."""

from collections.abc import Iterator, Mapping, Sequence

from wrapperir.diagnostics import LinePath, Position

Span = tuple[int, int, int]
"""Line counted from 0, first column, column after the last."""


class BlockPlaces:
    """Positions of a block's parts; lines are counted from 0."""

    __slots__ = ("ending", "header", "lines", "nested", "parameters", "results")

    def __init__(self, header: int) -> None:
        """Start with the line that opens the block."""
        self.header = header
        self.parameters: list[Span] = []
        self.lines: list[int] = []
        self.nested: dict[int, dict[str, BlockPlaces]] = {}
        self.ending = header
        self.results: list[Span] = []


class ProgramPlaces(BlockPlaces):
    """Positions of a program's parts."""

    __slots__ = ("constants", "definitions", "symbols")

    def __init__(self) -> None:
        """Start empty."""
        super().__init__(0)
        self.symbols: list[int] = []
        self.constants: list[int] = []
        self.definitions: list[tuple[int, dict[LinePath, int]]] = []


class Positions(Mapping[LinePath, Position]):
    """Maps the path of each line, input, output and block to its position in the text.

    Positions are computed on demand.  ``()`` is the program's first line.
    """

    def __init__(self, lines: Sequence[str], places: ProgramPlaces) -> None:
        """Keep the text's lines and the places found while reading it."""
        self._lines = lines
        self._places = places

    def __getitem__(self, path: LinePath) -> Position:
        """Return the position of a path.

        Raises:
            KeyError: the program has no such part, or it has no position of its own.
        """
        try:
            span = self._find(path)
        except (IndexError, TypeError):
            span = None
        if span is None:
            raise KeyError(path)
        line, start, end = span
        return Position(line + 1, start + 1, max(1, end - start))

    def __iter__(self) -> Iterator[LinePath]:
        """Yield every path that has a position, in the order of the fields."""
        places = self._places
        yield ()
        for index, (_, parts) in enumerate(places.definitions):
            yield ("definitions", index)
            for part in parts:
                yield ("definitions", index, *part)
        for name, items in (
            ("inputs", places.parameters),
            ("symbols", places.symbols),
            ("constants", places.constants),
        ):
            for index in range(len(items)):
                yield (name, index)
        yield from _paths(places, (), "outputs")

    def __len__(self) -> int:
        """Return the number of paths that have a position."""
        return sum(1 for _ in self)

    def _find(self, path: LinePath) -> Span | None:
        places = self._places
        if not path:
            return self._whole(places.header)
        kind = path[0]
        if kind in ("lines", "outputs"):
            return self._find_in_block(places, path, "outputs")
        if kind == "definitions" and len(path) > 1:
            header, parts = places.definitions[_index(path[1])]
            return self._whole(parts[path[2:]] if len(path) > 2 else header)
        if len(path) != 2:
            return None
        if kind == "inputs":
            return places.parameters[_index(path[1])]
        if kind in ("symbols", "constants"):
            items = places.symbols if kind == "symbols" else places.constants
            return self._whole(items[_index(path[1])])
        return None

    def _find_in_block(
        self, block: BlockPlaces, path: LinePath, results: str
    ) -> Span | None:
        if path[0] == results:
            if len(path) == 1:
                return self._whole(block.ending)
            return block.results[_index(path[1])] if len(path) == 2 else None
        if path[0] == "parameters" and len(path) == 2:
            return block.parameters[_index(path[1])]
        if path[0] != "lines" or len(path) < 2:
            return None
        index = _index(path[1])
        if len(path) == 2:
            return self._whole(block.lines[index])
        role = path[2]
        if not isinstance(role, str):
            return None
        inner = block.nested.get(index, {}).get(role)
        if inner is None:
            return None
        if len(path) == 3:
            return self._whole(inner.header)
        return self._find_in_block(inner, path[3:], "results")

    def _whole(self, line: int) -> Span:
        text = self._lines[line]
        return line, len(text) - len(text.lstrip()), len(text.rstrip())


def _index(part: int | str) -> int:
    if not isinstance(part, int) or part < 0:
        raise IndexError
    return part


def _paths(block: BlockPlaces, prefix: LinePath, results: str) -> Iterator[LinePath]:
    for index in range(len(block.lines)):
        yield (*prefix, "lines", index)
        for role, inner in block.nested.get(index, {}).items():
            path = (*prefix, "lines", index, role)
            yield path
            for number in range(len(inner.parameters)):
                yield (*path, "parameters", number)
            yield from _paths(inner, path, "results")
    yield (*prefix, results)
    for index in range(len(block.results)):
        yield (*prefix, results, index)
