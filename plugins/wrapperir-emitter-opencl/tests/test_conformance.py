"""The checks of ``wrapperir plugins check opencl``, on the OpenCL device."""

import pytest

from fresh_checks import check

REASONS = (
    *("not declared: kernels in triton", "not declared: the operator"),
    *("not declared: multi_output", "not declared: assert_alignment"),
    "what faults is replaced for an emitter that does not choose kernels",
)
"""Beginnings of the reasons to skip a check."""


FEW = (
    *("kernel_buffers_own", "kernel_reuse_own", "kernel_numbers_own", "kernel_donated_own"),
    *("kernel_mutation_own", "kernel_symbols_own", "kernel_late_item_own", "copies"),
    *("kernel_false_condition_own", "workspaces_own", "pools_and_kernels_own"),
    *("kernel_conditional_with_constant_own", "kernel_loop_own", "kernel_graph_region_own"),
    *("kernel_late_stream_own", "selection_dynamic_sizes_own", "threads", "drawn"),
    *("peak_buffers", "kernel_loop_results_own", "kernel_offsets_own"),
)
"""Cases of each kind, for every run of the tests."""


@pytest.mark.device
@pytest.mark.parametrize(
    "cases", [FEW, pytest.param((), marks=pytest.mark.sweep)], ids=["few", "all"]
)
def test_what_the_emitter_declares(cases: tuple[str, ...]) -> None:
    (results,) = check(("", cases))
    assert [result for result in results if result[2] == "failed"] == []
    for _, _, status, reason in results:
        assert status == "passed" or reason.startswith(REASONS), reason
    passed = {feature for feature, _, status, _ in results if status == "passed"}
    for feature in ("buffers", "pools", "loops", "streams", "multi-kernels", "leaks"):
        assert f"{feature} on opencl" in passed
    assert {"wrong inputs on opencl", "calls at once on opencl"} <= passed
