"""Names that are unique in a program."""

from collections.abc import Iterable, Iterator

from wrapperir.ir.blocks import blocks_of, walk_lines
from wrapperir.ir.effects import definitions
from wrapperir.ir.program import Program


class Names:
    """Gives out names that are unique in a program."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        """Start with these names taken."""
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def is_free(self, name: str) -> bool:
        """Say whether nothing has that name yet."""
        return name not in self._taken

    def new(self, name: str | None, prefix: str) -> str:
        """Return ``name``, or the first free ``prefix<n>``."""
        if name is not None:
            self._taken.add(name)
            return name
        number = self._next.get(prefix, 0)
        while f"{prefix}{number}" in self._taken:
            number += 1
        self._next[prefix] = number + 1
        self._taken.add(f"{prefix}{number}")
        return f"{prefix}{number}"


def value_names(program: Program) -> Iterator[str]:
    """Yield the name of each value of a program, nested blocks included."""
    yield from (input.name for input in program.inputs)
    yield from (constant.name for constant in program.constants)
    for line in walk_lines(program.lines):
        yield from (name for name, _ in definitions(line))
        for block in blocks_of(line):
            yield from (parameter.name for parameter in block.parameters)
