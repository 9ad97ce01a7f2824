"""Results of checks: one for each feature and case, and the counts of a table's rows."""

from collections.abc import Mapping, Sequence
from enum import Enum

from attrs import frozen


class Status(Enum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@frozen
class CheckResult:
    """The outcome of one check.

    ``reason`` says why it failed or was skipped.  ``program`` is the text of a program that
    fails, and ``seed`` that of its inputs.  ``traceback`` is that of an error which the
    emitter or its code raised.
    """

    feature: str
    case: str
    status: Status
    reason: str = ""
    program: str = ""
    seed: int = 0
    traceback: str = ""


@frozen
class CheckReport:
    """The results of all checks of an emitter, in the order in which they ran."""

    results: Sequence[CheckResult]

    def rows(self) -> Mapping[str, Mapping[Status, int]]:
        """Return the number of results of each status, by feature."""
        rows: dict[str, dict[Status, int]] = {}
        for result in self.results:
            counts = rows.setdefault(result.feature, dict.fromkeys(Status, 0))
            counts[result.status] += 1
        return rows

    def of(self, status: Status) -> Sequence[CheckResult]:
        """Return the results of one status."""
        return [result for result in self.results if result.status is status]

    @property
    def holds(self) -> bool:
        """Whether something passed and nothing failed."""
        return bool(self.of(Status.PASSED)) and not self.of(Status.FAILED)
