"""Reductions through the lowering, beside eager."""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch

from tests.frontend_lowering.lowered import check
from tests.frontend_lowering.training import check_training

Function: TypeAlias = Callable[[torch.Tensor], Any]

INF = float("inf")
ANY_DTYPE: list[Function] = [
    lambda x: x.sum(),
    lambda x: x.sum(1),
    lambda x: x.sum((0, -1), keepdim=True),
    lambda x: x.sum((), keepdim=True),
    lambda x: x.sum(dtype=torch.float64),
    lambda x: x.sum(1, dtype=torch.int32),
    lambda x: x.sum(2, dtype=torch.bool),
    lambda x: x.prod(),
    lambda x: x.prod(-1, keepdim=True),
    lambda x: x.any(),
    lambda x: x.any(1, keepdim=True),
    lambda x: x.all((0, 2)),
    lambda x: torch.count_nonzero(x, 1),
    lambda x: x.amax(),
    lambda x: x.amin((0, 2), keepdim=True),
    lambda x: x.min(),
    lambda x: x.max(1),
    lambda x: x.min(-1, keepdim=True),
    lambda x: torch.aminmax(x),
]
NUMBERS: list[Function] = [
    lambda x: x.argmax(),
    lambda x: x.argmin(0, keepdim=True),
    lambda x: x.argmax(-2),
]
REAL: list[Function] = [
    lambda x: x.mean(),
    lambda x: x.mean((0, 2), keepdim=True),
    lambda x: x.mean(1, dtype=torch.float64),
    lambda x: x.nansum(1),
    lambda x: x.var(),
    lambda x: x.var(1, correction=0),
    lambda x: x.std((0, 1), correction=2.5),
    lambda x: torch.var_mean(x, 1),
    lambda x: torch.std_mean(x, (0, 2), keepdim=True),
    lambda x: x.norm(),
    lambda x: torch.linalg.vector_norm(x, 1, 1),
    lambda x: torch.linalg.vector_norm(x, 0, -1),
    lambda x: torch.linalg.vector_norm(x, INF, (0, 1)),
    lambda x: torch.linalg.vector_norm(x, -INF, (0, 1), keepdim=True),
    lambda x: torch.linalg.vector_norm(x, 3.5, -1),
    lambda x: x.logsumexp(1),
    lambda x: x.logsumexp((0, 2), keepdim=True),
]


def each(functions: list[Function]) -> Function:
    """Return a function that returns what each of several does."""
    return lambda x: [function(x) for function in functions]


def values(*size: int) -> torch.Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(7))


def with_specials() -> torch.Tensor:
    x = values(3, 5, 7)
    x[1, 2, 3] = float("nan")
    # Eager's mean of two infinities is NaN where it computes the variance too.
    x[0, 4, 1] = INF
    x[0, 4, 2] = -INF
    x[2, 1] = x[2, 0]
    return x


def test_reals() -> None:
    function = each([*ANY_DTYPE, *NUMBERS, *REAL])
    x, y = values(3, 5, 7), values(7, 5, 3).transpose(0, 2)
    given = (x, y, with_specials(), x.double())
    check(lambda *given: [*map(function, given)], *given)


def test_halves() -> None:
    function = each([*ANY_DTYPE, *NUMBERS, *REAL])
    check(function, values(3, 5, 7).bfloat16(), rtol=0.01, atol=0.01)
    check(lambda x: (x.sum(1), x.var(0), x.argmax(2)), values(3, 5, 7).half())


def test_whole_numbers_and_bools() -> None:
    x = values(3, 5, 7) * 3
    numbers, anything = each([*ANY_DTYPE, *NUMBERS]), each(ANY_DTYPE)
    check(
        lambda a, b, c, d: (numbers(a), numbers(b), anything(c), anything(d)),
        x.long(),
        x.to(torch.int8),
        x.to(torch.uint8),
        x > 0,
    )


def test_no_elements_and_no_dimensions() -> None:
    empty: list[Function] = [
        *(lambda x: x.sum(), lambda x: x.sum(0), lambda x: x.prod(1), lambda x: x.mean(0)),
        *(lambda x: x.any(0), lambda x: x.all(), lambda x: x.norm(dim=0)),
        *(lambda x: x.amax(1), lambda x: x.logsumexp(0), lambda x: x.argmax(1)),
        *(lambda x: x.nansum(0), lambda x: torch.linalg.vector_norm(x, INF, 1)),
    ]
    single: list[Function] = [
        *(lambda x: x.sum(), lambda x: x.sum(0), lambda x: x.max(-1), lambda x: x.argmax()),
        *(lambda x: x.argmin(0), lambda x: x.std(correction=0), lambda x: x.any(0)),
        *(lambda x: x.amax(-1), lambda x: x.logsumexp(0), lambda x: x.mean(-1)),
    ]
    check(
        lambda x, y: (each(empty)(x), each(single)(y)),
        torch.empty(0, 4),
        torch.tensor(3.5),
    )


def test_symbolic_sizes() -> None:
    functions: list[Function] = [
        *(lambda x: x.sum((0, 2)), lambda x: x.mean(1), lambda x: x.argmax()),
        *(lambda x: x.var(1), lambda x: x.std(0, correction=1.5), lambda x: x.max(0)),
        *(lambda x: x.logsumexp(-1), lambda x: x.norm(p=3, dim=1)),
    ]
    check(each(functions), values(4, 5, 6), dynamic=True)


def test_gradients() -> None:
    functions: list[Function] = [
        *(lambda x: x.sum(1), lambda x: x.mean(), lambda x: x.var(1), lambda x: x.norm()),
        *(lambda x: x.logsumexp(0), lambda x: x.amax(0), lambda x: x.std(2)),
    ]
    check_training(each(functions), values(3, 4, 5), rtol=1e-5, atol=1e-5)
