"""Functions of f32 in C++ kernels are within 2 ulp; the bench checks all bit patterns."""

import itertools
import math

import pytest
import torch

from bench.lowering.math_errors import measure
from tests.lowering.cpp_kernels import build_kernels, kernel_of, type_of
from wrapperir.ir import DType, Symbol
from wrapperir.lowering.cpp.snippets import POLYNOMIALS
from wrapperir.lowering.eager import eager_operator
from wrapperir.lowering.loops import Apply, Axis, Load, Nest, Store
from wrapperir.lowering.scalar_op import ScalarOp


def test_functions_are_within_2_ulp() -> None:
    # The step reaches each exponent and both signs, and zeros, infinities and NaNs.
    errors = measure(1 << 15) + measure(99991)
    assert {error.name for error in errors} == {*POLYNOMIALS}
    assert [error for error in errors if error.ulp > 2 or error.wrong] == []


def _pairs() -> tuple[torch.Tensor, torch.Tensor]:
    """Return all pairs of special numbers, and numbers of all sizes."""
    sizes = [0.0, 1e-45, 1e-40, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 1e7, 2.0**25, 3e38, math.inf]
    special = [*sizes, *(-x for x in sizes), math.nan]
    pairs = torch.tensor(list(itertools.product(special, special)))
    generator = torch.Generator().manual_seed(0)
    bits = torch.randint(-(2**31), 2**31, (2, 1 << 14), generator=generator)
    drawn = bits.to(torch.int32).view(torch.float32)
    near = torch.rand(2, 1 << 14, generator=generator) * 8
    left, right = torch.cat([pairs.t(), drawn, near], 1)
    return left.contiguous(), right.contiguous()


def _computed(op: ScalarOp, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return what a kernel computes of pairs."""
    out = torch.zeros_like(x)
    at = (Symbol("i"),)
    body = (
        Load(result="a", dtype=DType.F32, buffer="x", index=at),
        Load(result="b", dtype=DType.F32, buffer="y", index=at),
        Apply(result="r", dtype=DType.F32, op=op, operands=("a", "b")),
        Store(buffer="out", index=at, value="r"),
    )
    nest = Nest(name=f"{op.value}_of_two", axes=(Axis("i", len(x)),), body=body)
    types = {"x": type_of(x), "y": type_of(y), "out": type_of(out)}
    (kernel,) = build_kernels([kernel_of(nest, types)])
    kernel.launch([x, y, out])
    return out


@pytest.mark.parametrize("op", [ScalarOp.POW, ScalarOp.ATAN2, ScalarOp.HYPOT])
def test_functions_of_two_numbers_round_once(op: ScalarOp) -> None:
    x, y = _pairs()
    out = _computed(op, x, y)
    exact = eager_operator(op)(x.double(), y.double())
    wanted = exact.float()
    assert torch.equal(out.isnan(), wanted.isnan())
    assert torch.equal(out.signbit()[~out.isnan()], wanted.signbit()[~out.isnan()])
    is_number = wanted.isfinite() & out.isfinite()
    assert torch.equal(out[~is_number & ~out.isnan()], wanted[~is_number & ~out.isnan()])
    step = torch.nextafter(wanted.abs(), torch.tensor(math.inf)).double() - wanted.abs()
    error = (out.double() - exact).abs() / step
    assert error[is_number].max() < 0.51


def test_a_remainder_is_exact() -> None:
    x, y = _pairs()
    is_finite = x.isfinite() & y.isfinite() & (y != 0)
    x, y = x[is_finite], y[is_finite]
    exact = list(map(math.fmod, x.tolist(), y.tolist()))
    found = _computed(ScalarOp.FMOD, x, y)
    assert torch.equal(found.view(torch.int32), torch.tensor(exact).view(torch.int32))
