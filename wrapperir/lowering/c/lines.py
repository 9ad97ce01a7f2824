"""Lines of source in nested blocks."""

from collections.abc import Generator
from contextlib import contextmanager


class SourceLines:
    """Lines that are appended, indented by their block; ``lines`` is what was written."""

    def __init__(self) -> None:
        """Begin with nothing written."""
        self.lines: list[str] = []
        self._depth = 0

    def write(self, *lines: str) -> None:
        """Append lines."""
        self.lines += ["  " * self._depth + line for line in lines]

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
        self.lines[place:place] = ["  " * depth + line for line in before]
