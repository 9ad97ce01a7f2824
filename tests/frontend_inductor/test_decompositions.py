"""Small matrix products become sums where a GPU computes them."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from wrapperir.frontend.aten import small_products
from wrapperir.frontend.inductor import capture
from wrapperir.frontend.inductor.decompositions import decompositions
from wrapperir.frontend.inductor.exported import lower_exported
from wrapperir.frontend.lowering.exported import lower_exported as lower_by_loops
from wrapperir.ir import ExternKernelLine

aten = torch.ops.aten


def traced(
    rows: int = 1,
    depth: int = 512,
    columns: int = 1536,
    dtype: torch.dtype = torch.float16,
    device: str = "cuda",
    is_transposed: bool = True,
    is_left_transposed: bool = False,
    alpha: float | None = None,
) -> set[Any]:
    """Return the operators that a product becomes; ``alpha`` is a factor beside a bias."""

    def product(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        w = w.t() if is_transposed else w
        x = x.t() if is_left_transposed else x
        return x @ w if alpha is None else torch.addmm(bias, x, w, alpha=alpha)

    with FakeTensorMode():
        size = (columns, depth) if is_transposed else (depth, columns)
        left = (depth, rows) if is_left_transposed else (rows, depth)
        x, w, bias = (
            torch.empty(size, dtype=dtype, device=device)
            for size in (left, size, (columns,))
        )
        graph = make_fx(product, decomposition_table=decompositions())(x, w, bias)
    return {node.target for node in graph.graph.nodes}


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"dtype": torch.bfloat16},
        {"dtype": torch.float32},
        {"depth": 4096, "columns": 4096},
        {"columns": 2730},
        {"alpha": 1},
        {"rows": 2, "depth": 1024, "columns": 1024},
        {"rows": 128, "depth": 128, "columns": 128, "alpha": 1},
        {"rows": 64, "depth": 64, "columns": 64, "is_transposed": False},
    ],
)
def test_small_products_are_sums(facts: dict[str, Any]) -> None:
    found = traced(**facts)
    assert aten.sum.dim_IntList in found
    assert not found & {aten.mm.default, aten.addmm.default}


@pytest.mark.parametrize(
    "facts",
    [
        {"rows": 4, "depth": 1024, "columns": 1024},
        {"depth": 4096, "columns": 4097},
        {"depth": 16385, "columns": 8},
        {"dtype": torch.float64},
        {"device": "cpu"},
        {"is_transposed": False},
        {"alpha": 2},
        {"rows": 64, "depth": 64, "columns": 65, "is_transposed": False},
        {"rows": 64, "depth": 64, "columns": 64, "is_left_transposed": True},
    ],
)
def test_other_products_stay(facts: dict[str, Any]) -> None:
    found = traced(**facts)
    assert found & {aten.mm.default, aten.addmm.default}
    assert aten.sum.dim_IntList not in found


@given(
    st.integers(1, 9),
    st.integers(1, 70),
    st.integers(1, 70),
    st.sampled_from([torch.float16, torch.bfloat16, torch.float32]),
    st.integers(0, 1000),
)
def test_the_sum_is_as_exact_as_f32(
    rows: int, depth: int, columns: int, dtype: torch.dtype, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, depth, generator=generator).to(dtype)
    w = torch.randn(columns, depth, generator=generator).to(dtype).t()
    wanted = x.double() @ w.double()
    most = x.double().abs() @ w.double().abs()
    error = (small_products.sum_of_products(x, w).double() - wanted).abs()
    assert (error <= most * (depth + 1) * 2.0**-24).all()


class Layers(torch.nn.Module):
    """Linear layers with and without a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(24, 40)
        self.second = torch.nn.Linear(40, 24, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.second(torch.relu(self.first(x))))


def test_every_frontend_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = Layers().eval(), torch.randn(1, 24)
    exported = torch.export.export(model, (x,))

    def products() -> list[int]:
        programs = [
            capture(model, (x,))[0].program,
            lower_exported(exported).program,
            lower_by_loops(exported).lowered.program,
        ]
        return [
            sum(isinstance(line, ExternKernelLine) for line in each.lines)
            for each in programs
        ]

    before = products()
    monkeypatch.setattr(small_products, "is_summed", lambda x, w: True)
    assert (before, products()) == ([2, 2, 2], [0, 0, 0])
    with torch.no_grad():
        compiled = torch.compile(model, backend="wrapperir")
        torch.testing.assert_close(compiled(x), model(x))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize(("rows", "width"), [(1, 2730), (16, 96)])
def test_sums_on_a_gpu(dtype: torch.dtype, rows: int, width: int) -> None:
    torch._dynamo.reset()  # else modules are recompiled too often
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(512, width),
        torch.nn.SiLU(),
        torch.nn.Linear(width, 512, bias=False),
    ).to("cuda", dtype)
    x = torch.randn(rows, 512, device="cuda", dtype=dtype)
    with torch.no_grad():
        wanted = model.double()(x.double())
        model.to(dtype)
        (program,) = [lowered.program for lowered in capture(model, (x,))]
        assert not any(isinstance(line, ExternKernelLine) for line in program.lines)
        for mode in ("default", "reduce-overhead"):
            found = torch.compile(model, backend="wrapperir", mode=mode)(x)
            limit = 4 * torch.finfo(dtype).eps
            torch.testing.assert_close(found.double(), wanted, rtol=limit, atol=limit)
