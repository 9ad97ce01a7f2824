"""Names that are unique in a program."""


class Names:
    """Gives out names that are unique in a program."""

    def __init__(self) -> None:
        """Start with no name taken."""
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

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
