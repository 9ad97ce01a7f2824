"""Sines, cosines and tangents in C++: of near and far angles, side by side and in place."""

from collections.abc import Callable

import pytest
import torch

from tests.lowering.cpp_kernels import build_kernels, kernel_of
from wrapperir.ir import DType, Symbol, TensorType
from wrapperir.lowering.cpp import CppRenderer
from wrapperir.lowering.loops import Apply, Axis, Load, Nest, Store, StoreMode
from wrapperir.lowering.renderer import LoopKernel
from wrapperir.lowering.scalar_op import ScalarOp

_I = Symbol("i0")
_LONG = 1 << 18
"""Enough points for several chunks."""


def _kernel(
    op: ScalarOp,
    points: int,
    *,
    target: str = "out",
    mode: StoreMode = StoreMode.OVERWRITE,
) -> LoopKernel:
    type = TensorType(dtype=DType.F32, size=(points,), stride=(1,))
    f32 = DType.F32
    body = (
        Load(result="v0", dtype=f32, buffer="x", index=(_I,)),
        Apply(result="v1", dtype=f32, op=op, operands=("v0",)),
        Store(buffer=target, index=(_I,), value="v1", mode=mode),
    )
    name = f"{op.value}_{points}_{target}_{mode.value}"
    nest = Nest(name=name, axes=(Axis("i0", points),), body=body)
    return kernel_of(nest, dict.fromkeys(dict.fromkeys(("x", target)), type))


def _angles(points: int) -> torch.Tensor:
    """Return angles of all exponents, those of each in neighboring elements."""
    bits = torch.linspace(0, 0x7F7FFFFF, points, dtype=torch.float64).to(torch.int32)
    return bits.view(torch.float32) * torch.tensor([1.0, -1.0]).repeat(points // 2)


def _assert_near(found: torch.Tensor, exact: torch.Tensor) -> None:
    ulp = torch.tensor(2.0).pow(torch.floor(torch.log2(exact.abs())) - 23).clamp(2.0**-149)
    assert ((found.double() - exact).abs() <= 2 * ulp).all()


@pytest.mark.parametrize(
    ("op", "function"),
    [(ScalarOp.SIN, torch.sin), (ScalarOp.COS, torch.cos), (ScalarOp.TAN, torch.tan)],
)
def test_angles_of_all_sizes(
    op: ScalarOp, function: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    kernels = build_kernels([_kernel(op, _LONG), _kernel(op, _LONG, target="x")])
    x, out = _angles(_LONG), torch.empty(_LONG)
    kernels[0].launch([x, out])
    exact = function(x.double())
    _assert_near(out, exact)
    kernels[1].launch([x])
    assert torch.equal(x, out)


def test_angles_that_are_no_numbers_and_zeros() -> None:
    x = torch.tensor([0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e38, 1.0, 2.0])
    (sine, cosine) = build_kernels([_kernel(op, 8) for op in (ScalarOp.SIN, ScalarOp.COS)])
    out = torch.empty(8)
    sine.launch([x, out])
    assert torch.equal(out[:2].signbit(), torch.tensor([False, True]))
    assert out[2:5].isnan().all()
    torch.testing.assert_close(out[5:].double(), x[5:].double().sin(), rtol=1e-6, atol=0)
    cosine.launch([x, out])
    assert (out[:2] == 1).all()
    assert out[2:5].isnan().all()


def test_a_far_angle_changes_no_chunk_but_its_own() -> None:
    (kernel,) = build_kernels([_kernel(ScalarOp.SIN, _LONG)])
    x, near, far = torch.linspace(-9, 9, _LONG), torch.empty(_LONG), torch.empty(_LONG)
    kernel.launch([x, near])
    x[7] = 1e30
    kernel.launch([x, far])
    assert far[7] == torch.tensor(1e30).double().sin().float()
    far[7] = near[7]
    assert torch.equal(near, far)


@pytest.mark.parametrize(
    "kernel",
    [_kernel(ScalarOp.SIN, 64, target="x"), _kernel(ScalarOp.SIN, 64, mode=StoreMode.ADD)],
    ids=["in place", "added"],
)
def test_loops_that_must_not_run_twice_have_one_form(kernel: LoopKernel) -> None:
    assert "near_sin" in CppRenderer().render_kernel(_kernel(ScalarOp.SIN, 64)).source
    assert "near_sin" not in CppRenderer().render_kernel(kernel).source
