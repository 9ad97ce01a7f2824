"""Lines of source in nested blocks, and the nodes that each is for."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from wrapperir.ir import NodeOrigin


class SourceLines:
    """Lines that are appended, indented by their block; ``lines`` is what was written.

    ``origins`` has the nodes of each line: none for what only makes loops and blocks.
    """

    def __init__(self) -> None:
        """Begin with nothing written."""
        self.lines: list[str] = []
        self.origins: list[tuple[NodeOrigin, ...]] = []
        self._depth = 0
        self._origins: tuple[NodeOrigin, ...] = ()

    def write(self, *lines: str) -> None:
        """Append lines."""
        self._put(len(self.lines), lines, self._depth)

    @contextmanager
    def computing(self, origins: tuple[NodeOrigin, ...]) -> Generator[None]:
        """Have what is written inside be for these nodes."""
        before, self._origins = self._origins, origins
        yield
        self._origins = before

    @contextmanager
    def block(self, head: str = "", tail: str = "}") -> Generator[None]:
        """Put braces after ``head`` around what is written inside."""
        self.write(f"{head} {{" if head else "{")
        self._depth += 1
        yield
        self._depth -= 1
        self.write(tail)

    @contextmanager
    def preceded(self, before: list[str]) -> Generator[None]:
        """Put the lines that ``before`` has in the end before what is written inside."""
        place, depth = len(self.lines), self._depth
        yield
        self._put(place, before, depth)

    def enclose(self, place: int, head: str, *tail: str) -> None:
        """Put lines around what was written from a place among :attr:`lines` on."""
        self._put(place, [head], 0)
        self._put(len(self.lines), tail, 0)

    def append(self, other: "SourceLines") -> None:
        """Append the lines of another source."""
        self.lines += other.lines
        self.origins += other.origins

    def add_origins(self, other: "SourceLines") -> None:
        """Let each line be for the nodes of that of an equal source, too."""
        both = zip(self.origins, other.origins, strict=True)
        self.origins = [tuple(dict.fromkeys((*a, *b))) for a, b in both]

    def _put(self, place: int, lines: Sequence[str], depth: int) -> None:
        self.lines[place:place] = ["  " * depth + line for line in lines]
        self.origins[place:place] = [self._origins] * len(lines)
