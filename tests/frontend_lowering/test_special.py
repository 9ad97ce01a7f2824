"""Special functions through the lowering, beside eager."""

from collections.abc import Callable
from typing import Any

import mpmath
import torch

from tests.frontend_lowering.lowered import check, compiled

mp: Any = mpmath.mp
special: Any = torch.special
Function = Callable[[torch.Tensor], torch.Tensor]

ALL_NUMBERS: list[Function] = [
    *(torch.i0, special.i0e, special.i1, special.i1e),
    *(special.bessel_j0, special.bessel_j1, special.spherical_bessel_j0),
    *(torch.digamma, special.erfcx, torch.angle),
]
POSITIVE: list[Function] = [
    *(special.modified_bessel_k0, special.modified_bessel_k1),
    *(special.scaled_modified_bessel_k0, special.scaled_modified_bessel_k1),
    *(special.bessel_y0, special.bessel_y1),
]


def all_of(functions: list[Function]) -> Any:
    return lambda x: [function(x) for function in functions]


def check_values(functions: list[Function], *values: Any) -> None:
    """Compare with eager, which has errors of up to 1e-6 itself."""
    x = torch.cat([torch.as_tensor(each) for each in values])
    check(all_of(functions), x, rtol=1e-5, atol=1e-6)


def test_functions_of_all_numbers() -> None:
    edges = [0.0, -0.0, 1.0, -1.0, -2.0, float("inf"), float("-inf"), float("nan")]
    check_values(ALL_NUMBERS, edges, torch.linspace(-9.4, 50, 131))


def test_functions_of_positive_numbers() -> None:
    edges = [0.0, -0.0, -1.0, 2.0, 8.0, float("nan")]
    check_values(POSITIVE, edges, torch.linspace(0.1, 50, 131))


def test_inverse_error_functions() -> None:
    functions: list[Function] = [torch.erfinv, special.ndtri, special.log_ndtr]
    edges = [0.0, 1.0, -1.0, 1.5, -0.5, 1e-30, 1e-5, 0.99999, float("nan")]
    check_values(functions, edges, torch.linspace(0.001, 0.999, 131))


def test_polygamma() -> None:
    functions: list[Function] = [
        lambda x, order=order: torch.polygamma(order, x)  # type: ignore[misc]
        for order in range(1, 5)
    ]
    negative = [-0.6, -1.4, -2.7]
    check_values(functions, [0.0], negative, torch.linspace(0.3, 50, 31))


ACCURATE: list[tuple[Function, Function]] = [
    (special.i1e, lambda x: mp.besseli(1, x) * mp.exp(-abs(x))),
    (special.modified_bessel_k0, lambda x: mp.besselk(0, x)),
    (special.bessel_y1, lambda x: mp.bessely(1, x)),
    (torch.digamma, mp.digamma),
    (lambda x: torch.polygamma(3, x), lambda x: mp.polygamma(3, x)),
    (special.erfcx, lambda x: mp.erfc(x) * mp.exp(x * x)),
    (lambda x: special.ndtri(10.0**-x), lambda x: ndtri(10.0 ** -float(x))),
]


def ndtri(x: float) -> Any:
    return mp.findroot(lambda y: mp.log(mp.ncdf(y) / x), -mp.sqrt(-2 * mp.log(x)))


def test_errors() -> None:
    """Results agree with mpmath to 13 digits; some of eager's functions have 7."""
    x = torch.tensor([0.3, 1.1, 1.9, 2.3, 5.1, 7.7, 8.8, 13.0, 25.0], dtype=torch.float64)
    found = compiled(all_of([function for function, _ in ACCURATE]), [])(x)
    for values, (_, exact) in zip(found, ACCURATE, strict=True):
        expected = [float(exact(mp.mpf(float(each)))) for each in x]
        torch.testing.assert_close(values, x.new_tensor(expected), rtol=2e-13, atol=0)


def test_other_dtypes() -> None:
    check(all_of([torch.i0, torch.digamma]), torch.arange(5))
    check(all_of([torch.i0, torch.digamma]), torch.linspace(0.1, 5, 9).bfloat16())
