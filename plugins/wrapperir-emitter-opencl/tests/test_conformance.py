"""The checks of ``wrapperir plugins check opencl``, on the OpenCL device."""

import pytest

from fresh_checks import check

REASONS = (
    *("not declared: kernels in triton", "not declared: the operator"),
    *("not declared: multi_output", "not declared: assert_alignment"),
    "refused with WIR705: buffers are aligned to 128 bytes, not 256",
    "what faults is replaced for an emitter that does not choose kernels",
)
"""Beginnings of the reasons to skip a check."""


@pytest.mark.device
def test_everything_that_the_emitter_declares() -> None:
    (results,) = check(("", ()))
    assert [result for result in results if result[2] == "failed"] == []
    for _, _, status, reason in results:
        assert status == "passed" or reason.startswith(REASONS), reason
    passed = {feature for feature, _, status, _ in results if status == "passed"}
    for feature in ("buffers", "pools", "loops", "streams", "multi-kernels", "leaks"):
        assert f"{feature} on opencl" in passed
