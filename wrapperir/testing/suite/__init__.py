"""The checks of ``wrapperir plugins check``: an emitter's promises, by feature."""

from wrapperir.testing.suite.results import CheckReport, CheckResult, Status
from wrapperir.testing.suite.run import check_emitter, check_program, suite_names
from wrapperir.testing.suite.selection import CheckSelection

__all__ = [
    "CheckReport",
    "CheckResult",
    "CheckSelection",
    "Status",
    "check_emitter",
    "check_program",
    "suite_names",
]
