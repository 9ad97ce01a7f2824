"""Digests of programs that a reduction has tried, in a file."""

import hashlib
from collections.abc import Iterable
from pathlib import Path


class Digests(set[str]):
    """Digests that a file keeps, one a line.

    The first line is a digest of what is ``sought``.  What the file has is left out if that
    is something else.
    """

    def __init__(self, path: Path, sought: Iterable[str]) -> None:
        """Read the file, if there is one."""
        self._path = path
        self._sought = hashlib.sha256("\0".join(sought).encode()).hexdigest()
        lines = path.read_text().split() if path.is_file() else []
        self._is_begun = lines[:1] == [self._sought]
        super().__init__(lines[1:] if self._is_begun else ())

    def add(self, value: str, /) -> None:
        """Add a digest, in the file too."""
        super().add(value)
        with self._path.open("a" if self._is_begun else "w") as file:
            if not self._is_begun:
                file.write(f"{self._sought}\n")
            file.write(f"{value}\n")
        self._is_begun = True

    def remove_file(self) -> None:
        """Remove the file, if there is one."""
        self._path.unlink(missing_ok=True)
