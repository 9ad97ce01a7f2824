"""Groups of the conformance kit's programs, in a process and in a fork of it."""

from collections.abc import Sequence

import pytest
from torch import distributed

from wrapperir.testing import Outcome, check_case
from wrapperir.testing.conformance_collectives import COLLECTIVE_CASES
from wrapperir.testing.suite.processes import in_own_process
from wrapperir.testing.suite.results import CheckResult, Status
from wrapperir_python.emitter import PythonEmitter

pytestmark = pytest.mark.skipif(
    not (distributed.is_available() and distributed.is_gloo_available()),
    reason="needs torch.distributed with gloo",
)


def check() -> Sequence[CheckResult]:
    outcome = check_case(PythonEmitter(), COLLECTIVE_CASES[0])
    status = Status.PASSED if outcome is Outcome.PASSED else Status.FAILED
    return [CheckResult("collectives", COLLECTIVE_CASES[0].name, status)]


def test_a_fork_has_groups_of_its_own() -> None:
    wanted = check()
    assert [result.status for result in wanted] == [Status.PASSED]
    assert in_own_process(check, 60) == wanted
    assert check() == wanted
