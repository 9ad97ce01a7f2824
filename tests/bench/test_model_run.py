"""Errors of models, against eager and against the same model in f64."""

import math

import pytest
import torch

from bench.model_run import (
    describe_excess,
    max_error,
    relative_errors,
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

    near, far, theirs = results(1.5), results(2), results(1.25)
    assert describe_excess(results(1), near, theirs, 0.25, exact) is None
    excess = describe_excess(results(1), far, theirs, 0.25, exact)
    assert excess is not None
    assert "error 1 exceeds plain Inductor's 0.25" in excess
    assert "against f64, 0.6, exceeds 0.22, 1.1 of eager's and" in excess
    assert describe_excess(results(1), far, results(0.5), 0.25, exact) is None


def test_tensors_of_rounding_alone_do_not_hide_others() -> None:
    def pair(value: float, rounding: float) -> dict[str, torch.Tensor]:
        return {"value": torch.tensor([value]), "zero": torch.tensor([rounding])}

    def exact() -> dict[str, torch.Tensor]:
        return {name: value.double() for name, value in pair(1, 1e-12).items()}

    eager, theirs = pair(1 + 2**-20, 1e-8), pair(1 + 2**-20, 2e-8)
    assert describe_excess(eager, pair(1, 3.9e-8), theirs, 0, exact) is None
    wrong = describe_excess(eager, pair(1, 4.1e-8), theirs, 0, exact)
    assert wrong is not None
    assert "error of zero, of which rounding leaves nothing, exceeds 2.0" in wrong
    wrong = describe_excess(eager, pair(1 + 2**-19, 1e-8), theirs, 0, exact)
    assert wrong is not None
    assert "relative error against f64, 1.91e-06, exceeds 1.05e-06" in wrong


def test_errors_are_relative_to_each_tensor() -> None:
    exact = {"x": torch.tensor([3.0, 4.0]).double(), "n": torch.tensor([5])}
    near = {"x": torch.tensor([3.0, 4.5]), "n": torch.tensor([5])}
    assert relative_errors(exact, near) == {"x": pytest.approx(0.1), "n": 0}
    other = {**near, "n": torch.tensor([6])}
    assert relative_errors(exact, other) == {"x": pytest.approx(0.1), "n": math.inf}
    unpaired = {"x": near["x"]}
    assert relative_errors(exact, unpaired) == {"x": math.inf, "n": math.inf}
    zeros = {"x": torch.zeros(2).double()}
    assert relative_errors(zeros, {"x": torch.zeros(2)}) == {"x": 0}
    assert relative_errors(zeros, {"x": torch.ones(2)}) == {"x": math.inf}


def test_no_run_in_f64_is_needed_where_an_error_is_as_inductors() -> None:
    def exact() -> dict[str, torch.Tensor]:
        raise AssertionError

    assert describe_excess(results(1), results(1.5), results(1), 0.5, exact) is None
