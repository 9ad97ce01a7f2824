"""Operators on single elements through the lowering, beside eager."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.frontend_lowering.lowered import check
from wrapperir.ir import KernelDefinitionLine

Function = Callable[..., Any]
HALVES = [torch.float16, torch.bfloat16]
FLOATS = [torch.float32, torch.float64, *HALVES]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, float("inf"), float("-inf"), float("nan")]


def floats(dtype: torch.dtype) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.cat([torch.tensor(SPECIAL), torch.randn(27) * 3]).to(dtype)


def whole(dtype: torch.dtype) -> torch.Tensor:
    torch.manual_seed(0)
    info = torch.iinfo(dtype)
    edges = torch.tensor([0, 1, 2, info.min, info.max], dtype=torch.int64)
    return torch.cat([edges, torch.randint(max(info.min, -99), 99, (32,))]).to(dtype)


EXACT: list[Function] = [
    torch.abs,
    torch.neg,
    torch.sign,
    torch.floor,
    torch.ceil,
    torch.trunc,
    torch.round,
    torch.relu,
    torch.isnan,
    torch.isinf,
    torch.isfinite,
    torch.signbit,
    torch.logical_not,
    torch.square,
    lambda x: x + 1.5,
    lambda x: x * 2,
    lambda x: 3 - x,
    lambda x: torch.sub(x, x.flip(0), alpha=2),
    lambda x: x > x.flip(0),
    lambda x: x == x,
    lambda x: torch.maximum(x, x.flip(0)),
    lambda x: torch.minimum(x, x.flip(0)),
    lambda x: torch.fmax(x, x.flip(0)),
    lambda x: torch.fmin(x, x.flip(0)),
    lambda x: x.clamp(-1, 1),
    lambda x: x.clamp(min=0),
    lambda x: torch.where(x > 0, x, -1),
    lambda x: torch.logical_and(x, x.flip(0)),
    lambda x: x.to(torch.float64),
    lambda x: x.to(torch.bfloat16),
    lambda x: x.bool(),
    lambda x: torch.copysign(x, x.flip(0)),
]


def all_of(functions: list[Function]) -> Function:
    return lambda *inputs: [function(*inputs) for function in functions]


@pytest.mark.parametrize("dtype", FLOATS)
def test_exact_functions(dtype: torch.dtype) -> None:
    check(all_of(EXACT), floats(dtype), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_powers_of_plain_numbers_are_exact_and_call_no_function(dtype: torch.dtype) -> None:
    powers = [2, 3.0, -1, -2.0]
    functions = [lambda x, power=power: x**power for power in powers]
    for lowering in check(all_of(functions), floats(dtype), rtol=0, atol=0):
        for line in lowering.lowered.program.definitions:
            assert isinstance(line, KernelDefinitionLine)
            assert "pow(" not in line.source


def test_signs_of_half_types() -> None:
    """GCC 12 did not compile a kernel with nothing else."""
    check(torch.signbit, torch.randn(37, 5).bfloat16())


OF_INTEGERS: list[Function] = [
    lambda x: x + 3,
    lambda x: x * x.flip(0),
    lambda x: 7 - x,
    torch.abs,
    torch.sign,
    torch.bitwise_not,
    torch.relu,
    lambda x: x & x.flip(0),
    lambda x: x | 5,
    lambda x: x ^ x.flip(0),
    lambda x: x // 3,
    lambda x: x % 3,
    lambda x: torch.div(x, 3, rounding_mode="trunc"),
    lambda x: torch.fmod(x, 3),
    lambda x: x.clamp(-2, 5),
    lambda x: torch.maximum(x, x.flip(0)),
    lambda x: x == x.flip(0),
    lambda x: x < 3,
    lambda x: x.to(torch.float32),
    lambda x: x.to(torch.int8),
    lambda x: x.bool(),
    lambda x: x << 1,
    lambda x: x >> 1,
    lambda x: torch.where(x > 2, x, 0),
    lambda x: x / 3,
]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_whole_numbers(dtype: torch.dtype) -> None:
    functions = OF_INTEGERS
    if dtype is torch.uint8:
        functions = [f for f in functions if f not in (torch.sign,)]
    check(all_of(functions), whole(dtype), rtol=1e-7, atol=0)


def test_bools() -> None:
    functions: list[Function] = [
        lambda x: x & x.flip(0),
        lambda x: x | x.flip(0),
        lambda x: x ^ x.flip(0),
        torch.logical_not,
        lambda x: x + x,
        lambda x: x * 2,
        lambda x: x.float() + 1,
        lambda x: torch.where(x, 1.5, 2),
    ]
    check(all_of(functions), torch.tensor([True, False, True]))


ROUNDED: list[Function] = [
    *(torch.acos, torch.asin, torch.atan, torch.asinh, torch.atanh, torch.cos, torch.cosh),
    *(torch.erf, torch.erfc, torch.exp, torch.exp2, torch.expm1, torch.lgamma, torch.log),
    *(torch.log10, torch.log1p, torch.log2, torch.rsqrt, torch.sin, torch.sinh, torch.sqrt),
    *(torch.tan, torch.tanh, torch.sigmoid, torch.reciprocal, torch.acosh),
    lambda x: x / x.flip(0),
    lambda x: torch.atan2(x, x.flip(0)),
    lambda x: torch.hypot(x, x.flip(0)),
    lambda x: x.abs() ** 1.5,
    lambda x: torch.addcmul(x, x, x, value=0.5),
    lambda x: torch.nn.functional.gelu(x),
    lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    lambda x: torch.nn.functional.silu(x),
    lambda x: torch.nn.functional.softplus(x),
    lambda x: torch.nn.functional.elu(x),
    lambda x: torch.nn.functional.leaky_relu(x),
    lambda x: torch.nn.functional.hardswish(x),
    lambda x: torch.nn.functional.mish(x),
    lambda x: torch.lerp(x, x.flip(0), 0.3),
]


@pytest.mark.parametrize("dtype", FLOATS)
def test_rounded_functions(dtype: torch.dtype) -> None:
    x = floats(dtype)
    tolerance = 8 * torch.finfo(dtype).eps
    # On some processors gelu of oneDNN returns zeros without their signs.
    with torch.backends.mkldnn.flags(enabled=False):
        check(all_of(ROUNDED), x[x.isfinite()], rtol=tolerance, atol=tolerance)


def test_broadcasting_and_strides() -> None:
    x, y = torch.randn(4, 1, 5), torch.randn(3, 5).t().contiguous().t()
    check(lambda x, y: (x + y, (x * y).transpose(0, 2) + 1), x, y)


def test_promotion() -> None:
    x, y = torch.randn(5).half(), torch.randn(5).bfloat16()
    number, count = torch.tensor(2.5), torch.arange(5)
    functions: list[Function] = [
        lambda x, y, n, c: x + y,
        lambda x, y, n, c: x + n,
        lambda x, y, n, c: c + 1.5,
        lambda x, y, n, c: c / 2,
        lambda x, y, n, c: x * c,
        lambda x, y, n, c: c > 2.5,
    ]
    check(all_of(functions), x, y, number, count)


def test_division_by_zero() -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        check(lambda x, y: x // y, torch.arange(4), torch.tensor([1, 2, 0, 3]))


@pytest.mark.parametrize("size", [(0,), (), (1,), (2, 0, 3)])
def test_small_tensors(size: tuple[int, ...]) -> None:
    check(lambda x: (x + 1).sin() * 2, torch.randn(size))


def test_symbolic_sizes() -> None:
    check(
        lambda x, y: (x + y.t()) * x.shape[0],
        torch.randn(5, 7),
        torch.randn(7, 5),
        dynamic=True,
    )


def test_computed_sizes_that_guards_say_are_one_are_broadcast() -> None:
    x, y = torch.randn(3), torch.randn(5)
    check(lambda x, y: x[::3].abs() + y.abs(), x, y, dynamic=True)
    check(lambda x, y: x.abs()[::3].expand(5) * y, x, y, dynamic=True)
    check(lambda x, y, z: x[::3] + y[::2] + z[::3], x, y, torch.randn(3), dynamic=True)


def test_inputs_that_are_written() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        y.copy_(y.flip(0))
        return x * y

    check(function, torch.randn(3, 4), torch.randn(3, 4))


def _quotients(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    one, number = y[:1], y[0]
    divisors = (y, y[:, None], one, number, number.float(), 3.7, 7)
    results = [torch.div(x, each, rounding_mode="trunc") for each in divisors]
    dividends = (number, one, 3)
    return results + [torch.div(each, x, rounding_mode="trunc") for each in dividends]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_truncated_quotients_of_half_types_are_eagers(dtype: torch.dtype) -> None:
    x, y = (torch.randn(2, 400) * 20).to(dtype)
    check(_quotients, x, y, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_powers_of_half_types_round_as_eager(dtype: torch.dtype) -> None:
    x = torch.randn(4000).to(dtype)
    options: Any = {"frontend": "lowering", "rounding": "eager"}
    torch._dynamo.reset()

    @torch.compile(backend="wrapperir", options=options)
    def powers(x: torch.Tensor) -> list[torch.Tensor]:
        return [x**exponent for exponent in (-2, 2, 3, 3.0)]

    expected = [x**exponent for exponent in (-2, 2, 3, 3.0)]
    torch.testing.assert_close(powers(x), expected, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_of_products_in_place(dtype: torch.dtype) -> None:
    def function(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        x.addcmul_(y, z, value=0.1).lerp_(z, 0.2)
        return x.addcdiv_(y, z, value=-2).addcmul_(y, z)

    torch.manual_seed(0)
    check(function, *(torch.rand(3, 4).to(dtype) + 1 for _ in range(3)))
