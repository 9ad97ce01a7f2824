"""Fresh names for what a kernel's source defines beside the names of its nest."""

from collections.abc import Iterable


class KernelNames:
    """The names in use in a kernel."""

    def __init__(self, used: Iterable[str]) -> None:
        """Begin with names that are in use."""
        self._used = set(used)
        self._counts: dict[str, int] = {}

    def fresh(self, wanted: str) -> str:
        """Return ``wanted`` or, if it is in use, that with a number; it is then in use."""
        name = wanted
        while name in self._used:
            count = self._counts.get(wanted, 0)
            self._counts[wanted] = count + 1
            name = f"{wanted}_{count}"
        self._used.add(name)
        return name
