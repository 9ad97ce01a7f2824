"""Errors of models, against eager and against the same model in f64."""

import math

import pytest
import torch

from bench.model_run import (
    describe_excess,
    max_error,
    relative_error,
    run_exactly,
    run_step,
)


def test_an_exact_run_is_closer_than_any_other() -> None:
    torch.manual_seed(0)
    model, inputs = torch.nn.Linear(64, 8), {"input": torch.randn(16, 64)}
    single = run_step(model, model, inputs, training=True)
    exact = run_exactly(model, inputs, training=True)
    assert {value.dtype for value in exact.values()} == {torch.float64}
    assert all(value.dtype is torch.float32 for value in model.parameters())
    assert 0 < max_error(exact, single) < 1e-5


def test_only_an_expected_value_may_be_in_f64() -> None:
    single, exact = torch.ones(2), torch.ones(2, dtype=torch.float64)
    assert max_error({"x": exact}, {"x": single}) == 0
    assert max_error({"x": single}, {"x": exact}) == float("inf")


def results(value: float, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    return {"x": torch.tensor([value], dtype=dtype)}


def test_results_may_be_farther_than_inductors_if_they_are_close_to_f64() -> None:
    def exact() -> dict[str, torch.Tensor]:
        return results(1.25, torch.float64)

    assert describe_excess(results(1), results(1.5), 0.25, exact) is None
    excess = describe_excess(results(1), results(2), 0.25, exact)
    assert excess is not None
    assert "error 1 exceeds plain Inductor's 0.25" in excess
    assert "against f64, 0.6, exceeds 1.1 of eager's, 0.2" in excess


def test_errors_are_relative_to_each_tensor() -> None:
    exact = {"x": torch.tensor([3.0, 4.0]).double(), "n": torch.tensor([5])}
    near = {"x": torch.tensor([3.0, 4.5]), "n": torch.tensor([5])}
    assert relative_error(exact, near) == pytest.approx(0.1 / math.sqrt(2))
    assert relative_error(exact, {**near, "n": torch.tensor([6])}) == math.inf
    assert relative_error(exact, {"x": near["x"]}) == math.inf
    zeros = {"x": torch.zeros(2).double()}
    assert relative_error(zeros, {"x": torch.zeros(2)}) == 0
    assert relative_error(zeros, {"x": torch.ones(2)}) == math.inf


def test_no_run_in_f64_is_needed_where_an_error_is_as_inductors() -> None:
    def exact() -> dict[str, torch.Tensor]:
        raise AssertionError

    assert describe_excess(results(1), results(1.5), 0.5, exact) is None
