"""Functions of f32 in C++ kernels are within 2 ulp; the bench checks all bit patterns."""

from bench.lowering.math_errors import measure
from wrapperir.lowering.cpp.snippets import POLYNOMIALS


def test_functions_are_within_2_ulp() -> None:
    # The step reaches each exponent and both signs, and zeros, infinities and NaNs.
    errors = measure(1 << 15) + measure(99991)
    assert {error.name for error in errors} == {*POLYNOMIALS}
    assert [error for error in errors if error.ulp > 2 or error.wrong] == []
