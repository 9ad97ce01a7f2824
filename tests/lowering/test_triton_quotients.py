"""Quotients of a row by one divisor are those of divisions."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.lowering.eager_operators import assert_quotients, numbers
from tests.lowering.triton_kernels import run
from tests.lowering.triton_nests import (
    I0,
    R0,
    apply,
    constant,
    inner,
    load,
    nest,
    row_quotients,
    store,
)
from wrapperir.ir import DType
from wrapperir.lowering.scalar_op import ScalarOp

_bits = st.integers(-(2**31), 2**31 - 1)


def _divided(x: torch.Tensor, divisors: torch.Tensor) -> tuple[torch.Tensor, str]:
    """Return quotients of rows by a divisor each, and the kernel's source."""
    found = torch.empty_like(x)
    buffers = {"in0": x, "in1": divisors, "out0": found}
    return found, run(row_quotients(*x.shape), buffers).source


def test_a_row_is_divided_as_eager_divides() -> None:
    x = numbers(DType.F32, 1, 200).repeat(61, 1)
    divisors = numbers(DType.F32, 2, 61)
    divisors[-4:] = torch.tensor([1e-45, -1.1e-38, 3.4e38, 2.0**-127])
    found, source = _divided(x, divisors)
    assert source.count("tl.div_rn") == 1
    assert_quotients(found, x, divisors)


@given(st.lists(_bits, min_size=2, max_size=4), st.lists(_bits, min_size=5, max_size=9))
def test_quotients_of_any_bits(divisors: list[int], dividends: list[int]) -> None:
    below = torch.tensor(divisors, dtype=torch.int32).view(torch.float32)
    x = torch.tensor(dividends, dtype=torch.int32).view(torch.float32)
    x = x.repeat(len(divisors), 1)
    assert_quotients(_divided(x, below)[0], x, below)


@pytest.mark.parametrize("divisor", [3.0, 2048.0, 1e-40, float("inf")])
def test_constants_divide_rows(divisor: float) -> None:
    x = numbers(DType.F32, 3, 100).reshape(2, 50)
    body = (
        inner(
            "r0",
            50,
            constant("v0", divisor),
            load("v1", "in0", I0, R0),
            apply("v2", ScalarOp.DIV, "v1", "v0"),
            store("out0", "v2", I0, R0),
        ),
    )
    found = torch.empty_like(x)
    run(nest("scaled", (2,), *body), {"in0": x, "out0": found})
    assert_quotients(found, x, torch.full((2,), divisor))


def test_a_divisor_of_each_point_divides() -> None:
    body = (
        load("v0", "in0", I0),
        apply("v1", ScalarOp.NEG, "v0"),
        apply("v2", ScalarOp.DIV, "v0", "v1"),
        store("out0", "v2", I0),
    )
    x, found = torch.tensor([2.0, -3.0]), torch.empty(2)
    assert (
        "quotient_by"
        not in run(nest("points", (2,), *body), {"in0": x, "out0": found}).source
    )
    assert found.tolist() == [-1.0, -1.0]
