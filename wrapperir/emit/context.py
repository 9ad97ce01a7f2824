"""The context of emission that the free functions of an emitter take."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from wrapperir.diagnostics import Code, Diagnostic, LinePath
from wrapperir.emit.facts import ProgramFacts
from wrapperir.emit.provenance import format_provenance
from wrapperir.ir import AnyLine, Provenance

AnyLineT = TypeVar("AnyLineT", bound=AnyLine)


class Emission:
    """Facts of the program, the place of the current line, and what was refused.

    An emitter's own context is a subclass with its writer and names.  Its functions take
    that context, so that modules for blocks, streams or asserts need not import the module
    with the line visitor.
    """

    def __init__(
        self, facts: ProgramFacts, problems: list[Diagnostic] | None = None
    ) -> None:
        """Start before the first line; refusals are appended to ``problems``."""
        self.facts = facts
        self.problems: list[Diagnostic] = [] if problems is None else problems
        self._path: LinePath = ()
        self._index = 0
        self._remarked: Provenance | None = None

    @property
    def path(self) -> LinePath:
        """The place of the line that is being emitted."""
        return (*self._path, self._index)

    def at(self, path: LinePath, index: int) -> None:
        """Set the place of what is emitted next: an item of the tuple at ``path``."""
        self._path, self._index = path, index

    def walk(
        self, lines: Sequence[AnyLineT], path: LinePath, part: range | None = None
    ) -> Iterator[tuple[int, AnyLineT]]:
        """Yield the lines at ``path``, or a part of them, with their indices.

        Each line is the current place until the next is asked for; at the end the place is
        again what it was, so that nested blocks may be walked from within.
        """
        outer = self._path, self._index
        for index in range(len(lines)) if part is None else part:
            self._path, self._index = path, index
            yield index, lines[index]
        self._path, self._index = outer

    def new_remark(self, origin: Provenance | None) -> str:
        """Return the remark for a line from ``origin``, empty where it was just made."""
        if origin is None or origin == self._remarked:
            return ""
        self._remarked = origin
        return format_provenance(origin)

    def report(self, message: str, subject: str | None = None) -> None:
        """Refuse the current line: it needs something that the emitter lacks."""
        self.problems.append(
            Diagnostic(Code.UNSUPPORTED_FEATURE, message, path=self.path, subject=subject)
        )
