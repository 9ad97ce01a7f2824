"""A diagnostic: what was wrong, where, and what to do, with a stable code."""

from enum import StrEnum
from typing import Self, TypeAlias

from attrs import frozen

from wrapperir.diagnostics.codes import Code

LinePath: TypeAlias = tuple[int | str, ...]
"""A place in a program.

``("lines", 3)`` is the fourth line, ``("lines", 3, "on_true", "lines", 0)`` the first of
a nested block, ``("inputs", 0)`` an input; then ``"outputs"``, ``"symbols"``,
``"constants"``, ``"definitions"``.  These are attribute names and tuple positions.
"""


class Severity(StrEnum):
    """How bad it is; only errors make a program invalid."""

    ERROR = "error"
    WARNING = "warning"


@frozen
class Position:
    """A place in a text: 1-based line and column, and how many characters it spans."""

    line: int
    column: int
    length: int = 1


@frozen(kw_only=True)
class Note:
    """A second place that explains the first, such as where a buffer was freed."""

    message: str
    path: LinePath | None = None
    position: Position | None = None


@frozen(kw_only=True)
class Diagnostic:
    """One finding.

    ``path`` places it in the program, ``subject`` is the text on that line to put the
    caret under; ``position`` places it in a file that did not parse.
    """

    code: Code
    message: str
    severity: Severity = Severity.ERROR
    path: LinePath | None = None
    subject: str | None = None
    position: Position | None = None
    notes: tuple[Note, ...] = ()
    hint: str | None = None


class DiagnosticError(Exception):
    """Work stopped because of what ``diagnostics`` say; there is at least one.

    As a string it has a line for each: code, message, place and hint.
    """

    def __init__(self, *diagnostics: Diagnostic) -> None:
        """Keep the diagnostics, first one first."""
        super().__init__("\n".join(_format_line(d) for d in diagnostics))
        self.diagnostics = diagnostics

    @classmethod
    def of(
        cls,
        code: Code,
        message: str,
        *,
        path: LinePath | None = None,
        subject: str | None = None,
        hint: str | None = None,
    ) -> Self:
        """Return the exception for a single diagnostic."""
        return cls(
            Diagnostic(code=code, message=message, path=path, subject=subject, hint=hint)
        )


def _format_line(diagnostic: Diagnostic) -> str:
    place = "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}"
        for step in diagnostic.path or ()
    ).removeprefix(".")
    if diagnostic.position is not None:
        place = f"line {diagnostic.position.line}, column {diagnostic.position.column}"
    text = f"{diagnostic.code.value}: {diagnostic.message}"
    at = f", at {place}" if place else ""
    hint = f" ({diagnostic.hint})" if diagnostic.hint is not None else ""
    return text + at + hint
