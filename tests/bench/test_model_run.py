"""Errors of models, against eager and against the same model in f64."""

import torch

from bench.model_run import max_error, run_exactly, run_step


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
