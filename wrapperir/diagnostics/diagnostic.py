"""Diagnostics, their places in programs and files, and the exceptions that carry them."""

import traceback
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from attrs import evolve, frozen

if TYPE_CHECKING:
    from wrapperir.diagnostics.codes import Code

LinePath: TypeAlias = tuple[int | str, ...]
"""A place in a program.

``("lines", 3)`` is the fourth line, ``("lines", 3, "on_true", "lines", 0)`` the first of
a nested block, ``("inputs", 0)`` an input; then ``"outputs"``, ``"symbols"``,
``"constants"``, ``"definitions"``.  These are attribute names and tuple positions.
"""


class Severity(StrEnum):
    """The severity of a diagnostic; only errors make a program invalid."""

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
    """A second place that explains the first, such as where a buffer was freed.

    Where several programs are checked together, ``program`` is the number, from 0, of the
    one that ``path`` is in, and ``None`` for the program of the diagnostic.
    """

    message: str
    path: LinePath | None = None
    position: Position | None = None
    program: int | None = None


@frozen
class Diagnostic:
    """One finding.

    ``path`` is its place in the program, ``subject`` the text on that line to put the
    caret under.  ``position`` is its place in a file that did not parse.  ``origin`` is
    the place in the user's model that it is about, as in ``model.py:12``.
    """

    code: "Code"
    message: str
    severity: Severity = Severity.ERROR
    path: LinePath | None = None
    subject: str | None = None
    position: Position | None = None
    notes: tuple[Note, ...] = ()
    hint: str | None = None
    origin: str | None = None


class DiagnosticError(Exception):
    """The error with one or more ``diagnostics``.

    As a string it has one line for each: code, message, place and hint.
    """

    def __init__(self, *diagnostics: Diagnostic) -> None:
        """Keep the diagnostics, first one first."""
        super().__init__("\n".join(_format_line(d) for d in diagnostics))
        self.diagnostics = diagnostics


def _format_line(diagnostic: Diagnostic) -> str:
    place = "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}"
        for step in diagnostic.path or ()
    ).removeprefix(".")
    if diagnostic.position is not None:
        place = f"line {diagnostic.position.line}, column {diagnostic.position.column}"
    text = f"{diagnostic.code.value}: {diagnostic.message}"
    at = f", at {place}" if place else ""
    if diagnostic.origin is not None:
        at += f", from {diagnostic.origin}"
    hint = f" ({diagnostic.hint})" if diagnostic.hint is not None else ""
    return text + at + hint


TRACEBACKS = "WRAPPERIR_TRACEBACKS"
"""The environment variable with which the command line shows tracebacks of plugins."""


class FaultError(Exception):
    """A fault of a running program or kernel; the executor adds its place."""

    def __init__(
        self,
        code: "Code",
        message: str,
        *,
        subject: str | None = None,
        notes: tuple[Note, ...] = (),
        hint: str | None = None,
    ) -> None:
        """Take the parts of the diagnostic, except its place."""
        super().__init__(message)
        self._diagnostic = Diagnostic(
            code, message, subject=subject, notes=notes, hint=hint
        )

    def at(self, path: LinePath) -> DiagnosticError:
        """Return the error that reports this fault at ``path``."""
        return DiagnosticError(evolve(self._diagnostic, path=path))


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type's name."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def format_cause(error: BaseException) -> str:
    """Return the traceback of what an error was raised from, or else of the error."""
    return "".join(traceback.format_exception(error.__cause__ or error))


def describe_failure(error: BaseException) -> tuple[str, Note]:
    """Return the type and first line of an error, and a note of where it was raised."""
    lines = str(error).strip().splitlines() or ["no message"]
    frame = traceback.extract_tb(error.__traceback__)[-1]
    note = f"raised at {frame.filename}:{frame.lineno}, in {frame.name}"
    return f"{type(error).__name__}: {lines[0]}", Note(message=note)
