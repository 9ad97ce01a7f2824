"""The bench of fused kernels: what its cases compute and move, and its page."""

import pytest
import torch

from bench.lowering.fused_cases import CASES, FusedCase
from bench.lowering.fused_kernels import Times, format_page, moved_bytes


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_cases_compute_finite_numbers(case: FusedCase) -> None:
    inputs = case.inputs(1)
    found = case.function(*inputs)
    results = (found,) if isinstance(found, torch.Tensor) else found
    assert all(result.isfinite().all() for result in results if result.is_floating_point())
    bytes_of_all = sum(x.nbytes for x in (*inputs, *results))
    assert 0 < moved_bytes(case, inputs, found) <= bytes_of_all


def test_a_table_is_read_in_part() -> None:
    case = FusedCase("rows", lambda t, i: t[i], lambda _: [], frozenset({0}))
    inputs = [torch.zeros(100, 8), torch.zeros(3, dtype=torch.int64)]
    assert moved_bytes(case, inputs, case.function(*inputs)) == 96 + 24 + 96


def test_the_page_has_a_row_for_each_case_and_their_mean() -> None:
    times = [Times("one", 1e-6, 2e-6, 4e-6, 0.5), Times("two", 8e-6, 4e-6, 1e-6, 0.9)]
    page = format_page(times, "cpu")
    assert "geometric mean **1.00** (goal 1.0), worst 2.00" in page
    assert "| one | 1.0 | 2.0 | 0.50 | 4.0 | 0.50 |" in page
