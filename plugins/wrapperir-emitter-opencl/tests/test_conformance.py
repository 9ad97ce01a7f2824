"""The checks of ``wrapperir plugins check opencl``, on the OpenCL device."""

import pytest

from wrapperir.testing.suite import CheckSelection, Status, check_emitter
from wrapperir_opencl.emitter import OpenclEmitter

REASONS = (
    *("not declared: kernels in triton", "not declared: the operator"),
    *("not declared: multi_output", "not declared: assert_alignment"),
    "refused with WIR705: buffers are aligned to 128 bytes, not 256",
    "what faults is replaced for an emitter that does not choose kernels",
)
"""Beginnings of the reasons to skip a check."""


@pytest.mark.device
def test_everything_that_the_emitter_declares() -> None:
    selection = CheckSelection(devices=frozenset({"opencl"}), examples=10)
    report = check_emitter(OpenclEmitter(), selection)
    assert report.holds, [(r.case, r.reason, r.program) for r in report.of(Status.FAILED)]
    for result in report.of(Status.SKIPPED):
        assert result.reason.startswith(REASONS), result
    rows = report.rows()
    for feature in ("buffers", "pools", "loops", "streams", "multi-kernels", "leaks"):
        assert rows[f"{feature} on opencl"][Status.PASSED], feature
