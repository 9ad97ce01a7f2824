"""The stand-ins for libdevice compute what PyTorch and the C library compute."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st
from triton.language.extra import libdevice

from wrapperir.kernels.triton_builder import handle
from wrapperir.kernels.triton_libdevice import STAND_INS, missing
from wrapperir.kernels.triton_reduce import block

EMITTED = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "cyl_bessel_i0",
    "cyl_bessel_i1",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "fast_tanhf",
    "floor",
    "fma",
    "fmod",
    "hypot",
    "isinf",
    "isnan",
    "j0",
    "j1",
    "ldexp",
    "lgamma",
    "llrint",
    "log",
    "log10",
    "log1p",
    "log2",
    "mul_rn",
    "nearbyint",
    "nextafter",
    "pow",
    "rsqrt",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
    "y0",
    "y1",
    "abs",
    "ilogb",
]

FINITE = st.floats(-50, 50, width=32)
ANY = st.floats(width=32)


def call(name: str, *args: list[float], dtype: tl.dtype = tl.float32) -> Any:
    kind = np.float64 if dtype is tl.float64 else np.float32
    values = [block(handle(np.array(a, dtype=kind), dtype).data, dtype) for a in args]
    return STAND_INS[name](*values)


@pytest.mark.parametrize("name", EMITTED)
def test_what_inductor_emits_has_a_stand_in(name: str) -> None:
    assert name in STAND_INS


def test_stand_ins_are_functions_of_libdevice() -> None:
    assert set(STAND_INS) <= set(vars(libdevice))


def test_what_has_none_says_so() -> None:
    with pytest.raises(NotImplementedError, match=r"libdevice\.brev"):
        missing("brev")(3)


C: dict[str, Callable[[float], float]] = {
    "erfc": math.erfc,
    "expm1": math.expm1,
    "log1p": lambda x: math.log1p(abs(x)),
    "rint": round,
    "nearbyint": round,
    "trunc": math.trunc,
    "floor": math.floor,
    "cbrt": math.cbrt,
    "tanh": math.tanh,
    "asinh": math.asinh,
}


@settings(max_examples=25)
@given(st.sampled_from(sorted(C)), st.lists(FINITE, min_size=4, max_size=4))
def test_one_argument(name: str, values: list[float]) -> None:
    given_ = [abs(v) for v in values] if name == "log1p" else values
    result = call(name, given_, dtype=tl.float64)
    assert result.dtype is tl.float64
    expected = [C[name](v) for v in given_]
    np.testing.assert_allclose(result.handle.data, expected, rtol=1e-12)


TWO: dict[str, Callable[[float, float], float]] = {
    "atan2": math.atan2,
    "copysign": math.copysign,
    "fmod": lambda x, y: math.fmod(x, y) if y else math.nan,
    "hypot": math.hypot,
    "remainder": lambda x, y: math.remainder(x, y) if y else math.nan,
}


@settings(max_examples=25)
@given(st.sampled_from(sorted(TWO)), FINITE, FINITE)
def test_two_arguments(name: str, x: float, y: float) -> None:
    if name == "remainder" and y and abs(x / y) > 2**30:
        return  # beyond what f64 tells apart
    result = call(name, [x], [y], dtype=tl.float64)
    np.testing.assert_allclose(
        result.handle.data[0], TWO[name](x, y), rtol=1e-9, atol=1e-12 * abs(y)
    )


@settings(max_examples=50)
@given(st.lists(ANY, min_size=4, max_size=4))
def test_tests_of_numbers_return_integers(values: list[float]) -> None:
    for name, expected in (
        ("isnan", math.isnan),
        ("isinf", math.isinf),
        ("signbit", lambda v: math.copysign(1, v) < 0),
    ):
        result = call(name, values)
        assert result.dtype is tl.int32
        assert result.handle.data.tolist() == [int(expected(v)) for v in values]


@settings(max_examples=50)
@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_exponents_take_numbers_apart_and_together(value: float) -> None:
    if value == 0:
        return
    exponent = call("ilogb", [value])
    assert exponent.dtype is tl.int32
    assert exponent.handle.data[0] == math.frexp(value)[1] - 1
    whole = block(np.array([3], dtype=np.int32), tl.int32)
    x = block(np.array([value], dtype=np.float32), tl.float32)
    with np.errstate(over="ignore"):
        expected = np.ldexp(np.float32(value), 3)
    assert STAND_INS["ldexp"](x, whole).handle.data[0] == expected


def test_numbers_among_the_arguments_take_the_type_of_the_block() -> None:
    x = block(np.array([2.0, 3.0], dtype=np.float32), tl.float32)
    result = STAND_INS["pow"](x, 2.0)
    assert result.dtype is tl.float32
    assert result.handle.data.tolist() == [4, 9]


def test_bits_are_reinterpreted() -> None:
    assert call("float_as_int", [1.0]).handle.data.tolist() == [0x3F800000]
    back = block(np.array([0x3F800000], dtype=np.int32), tl.int32)
    assert STAND_INS["int_as_float"](back).handle.data.tolist() == [1.0]
    assert call("llrint", [2.5, 3.5]).dtype is tl.int64


@given(st.lists(FINITE, min_size=4, max_size=4))
def test_bf16_is_rounded_as_pytorch_rounds(values: list[float]) -> None:
    data = handle(np.array(values, dtype=np.float32), tl.bfloat16).data
    expected = torch.tensor(values).bfloat16().view(torch.uint16)
    assert data.tolist() == expected.tolist()
