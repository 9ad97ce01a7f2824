"""The built-in emitters are held by the checks that other plugins have."""

import pytest

from wrapperir.plugin import plugin_manager
from wrapperir.testing.suite import CheckReport, CheckSelection, Status, check_emitter
from wrapperir.testing.suite.features import FEATURES, PROBES

pytestmark = pytest.mark.usefixtures("inductor_prepared")
EMITTERS = ("python", "cpp", "fx")
FEW = frozenset(
    {
        *("kernel_buffers_cpp", "kernel_mutation_cpp", "kernel_symbols_cpp"),
        *("kernel_false_condition_cpp", "kernel_loop_cpp", "kernel_pools_cpp"),
        *("reuse", "streams", "threads", "peak_buffers", "drawn"),
    }
)
"""Cases of each kind, for every run of the tests."""


def check(emitter: str, selection: CheckSelection) -> CheckReport:
    report = check_emitter(plugin_manager().emitter(emitter), selection)
    assert not report.of(Status.FAILED), [
        (result.feature, result.case, result.reason, result.program)
        for result in report.of(Status.FAILED)
    ]
    return report


@pytest.mark.slow
@pytest.mark.parametrize("emitter", EMITTERS)
def test_some_cases_and_every_probe(emitter: str) -> None:
    report = check(emitter, CheckSelection(cases=FEW, examples=2))
    rows = {row.partition(" on ")[0] for row in report.rows()}
    assert set(PROBES) <= rows
    assert {"buffers", "reuse", "symbols", "asserts", "loops", "pools", "streams"} <= rows


@pytest.mark.sweep
@pytest.mark.parametrize("emitter", EMITTERS)
def test_everything(emitter: str) -> None:
    report = check(emitter, CheckSelection(examples=50))
    known = {*FEATURES, *PROBES, "device cuda"}
    assert {row.partition(" on ")[0] for row in report.rows()} <= known
    reasons = {result.reason for result in report.of(Status.SKIPPED)}
    if emitter != "cpp":  # of which Triton kernels run on GPUs
        # A process that used CUDA, as tests on a GPU do, has no children that can.
        assert all("CUDA" in (reason or "") for reason in reasons)
