"""Differences between two runs, as data."""

from enum import StrEnum

from attrs import frozen

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, Diagnostic, LinePath, Note
from wrapperir.emit import Emitter
from wrapperir.emit.pipeline import origin_of
from wrapperir.trace.summary import ValueSummary

_MOST_NOTES = 5
"""Lines without a value to compare with that a diagnostic names."""


class DifferenceKind(StrEnum):
    """How the second run differs from the first."""

    VALUE = "value"
    """A line writes another value."""
    OVERWRITTEN = "overwritten"
    """A line changes a value that it should not write."""
    FLOW = "flow"
    """A line runs in one of them only."""
    FAILURE = "failure"
    """One of them raises an error."""
    BOTH_FAIL = "both_fail"
    """Both raise an error, and so nothing is compared."""
    RESULT = "result"
    """Every line writes the same, and what is returned or left in an input differs."""


_CODES = {
    DifferenceKind.FAILURE: Code.ONE_RUN_FAILS,
    DifferenceKind.BOTH_FAIL: Code.BOTH_RUNS_FAIL,
}
"""Codes of the kinds that are not of values; of the others it is ``RUNS_DIFFER``."""


@frozen(kw_only=True)
class Difference:
    """The first difference of the second run, at the line at ``path`` of ``program``.

    ``program`` is the one that ran second, without graph regions, or the first one if only
    that one failed.  ``wanted`` and ``found`` are the values in both runs.  ``unmatched``
    are earlier lines of the program, whose values the first run does not have, and
    ``absent`` the text of earlier lines whose values only the first run has.
    """

    kind: DifferenceKind
    program: wir.Program
    path: LinePath | None
    message: str
    subject: str | None = None
    wanted: ValueSummary | None = None
    found: ValueSummary | None = None
    unmatched: tuple[LinePath, ...] = ()
    absent: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def diagnostic(self) -> Diagnostic:
        """The difference as a diagnostic, with the source of its line."""
        origin = origin_of(self.program, self.path)
        notes = [Note(message=f"this line is from {origin}")] if origin else []
        notes += self.notes
        notes += [Note(message=f"in the first run: {self.wanted}")] if self.wanted else []
        notes += [Note(message=f"in the second run: {self.found}")] if self.found else []
        notes += [
            Note(message="not compared: the first run has no such value", path=path)
            for path in self.unmatched[-_MOST_NOTES:]
        ]
        notes += [
            Note(message=f"not compared: the second run has no such value: {line}")
            for line in self.absent[-_MOST_NOTES:]
        ]
        return Diagnostic(
            _CODES.get(self.kind, Code.RUNS_DIFFER),
            self.message,
            path=self.path,
            subject=self.subject,
            notes=tuple(notes),
            origin=origin,
        )


@frozen(kw_only=True)
class Agreement:
    """Two runs without a difference: how many values were compared, and how many not."""

    compared: int
    not_compared: int


@frozen(eq=False)
class RunSide:
    """One of two runs: a verified program, and the emitter whose code runs it.

    Without an emitter the interpreter runs it.  ``title`` is what messages call it.
    """

    title: str
    program: wir.Program
    emitter: Emitter | None = None
