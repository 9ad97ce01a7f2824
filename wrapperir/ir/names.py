"""Names of values, symbols and kernels: valid names, and generated ones."""

import re
from collections.abc import Iterable
from functools import cached_property, lru_cache

_OPERATOR = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+")

RESERVED_SYMBOLS = frozenset({"true", "false", "none", "inf", "nan", "and", "or", "not"})
"""Words that text reads as literals or operators, so no symbol may be named so."""


def is_identifier(text: str) -> bool:
    """Say whether ``text`` may name a value, symbol or kernel: ASCII, 255 at most."""
    return text.isidentifier() and text.isascii() and len(text) <= 255


@lru_cache(1024)
def is_operator(text: str) -> bool:
    """Say whether ``text`` is an operator's name: dotted identifiers, at least two."""
    return len(text) <= 1000 and _OPERATOR.fullmatch(text) is not None


def is_origin(text: str) -> bool:
    """Say whether ``text`` may name an origin: an identifier, or several with dots."""
    return is_identifier(text) or is_operator(text)


class FreshNames:
    """Gives out names that are unique in a program."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        """Start with these names taken; they are read when a name is first asked for."""
        self._given = taken
        self._next: dict[str, int] = {}

    @cached_property
    def _taken(self) -> set[str]:
        return set(self._given)

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
