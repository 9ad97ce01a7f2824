"""Products of an odd extent as an aligned product and a narrow one."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from wrapperir import ir as wir
from wrapperir.emit import compile_program
from wrapperir.interp import interpret
from wrapperir.passes import split_products
from wrapperir.passes.split_products import LEAST
from wrapperir.pipelines import run_passes
from wrapperir.text import format_program, parse_program
from wrapperir.verify import verify

PRODUCT = """\
wrapperir 1

program @main(%x: f16[{x}]@cuda:0, %w: f16[{w}]@cuda:0) {{
  %y = allocate f16[{y}]@cuda:0
  extern_kernel aten.mm.out(%x, %w, out = %y) writes(%y) @cuda:0
  return %y
}}
"""
USUAL = {"x": "64, 2049; stride 2056, 1", "w": "2049, 64", "y": "64, 64"}


def products(program: wir.Program) -> list[str]:
    lines = program.lines
    return [line.operator for line in lines if isinstance(line, wir.ExternKernelLine)]


@pytest.mark.parametrize(
    ("facts", "operators"),
    [
        ({}, ["aten.mm.out", "aten.addmm.out"]),
        (
            {
                "x": "2049, 64; stride 1, 2056",
                "w": "64, 64",
                "y": "2049, 64",
            },
            ["aten.mm.out", "aten.mm.out"],
        ),
        (
            {
                "x": "64, 64",
                "w": "64, 2049; stride 1, 64",
                "y": "64, 2049; stride 2056, 1",
            },
            ["aten.mm.out", "aten.mm.out"],
        ),
    ],
)
def test_each_extent_is_split(facts: dict[str, str], operators: list[str]) -> None:
    program = parse_program(PRODUCT.format(**{**USUAL, **facts}))
    after = split_products(program)
    assert verify(after) == ()
    assert products(after) == operators
    assert split_products(after) == after


@pytest.mark.parametrize(
    "facts",
    [
        {"x": "64, 2049"},
        {"x": "64, 2048", "w": "2048, 64"},
        {"x": "64, 2047; stride 2056, 1", "w": "2047, 64"},
        {"x": "63, 2049; stride 2056, 1", "y": "63, 64"},
        {"w": "2049, 64; stride 65, 1"},
    ],
)
def test_other_products_stay(facts: dict[str, str]) -> None:
    program = parse_program(PRODUCT.format(**{**USUAL, **facts}))
    assert split_products(program) == program
    on_cpu = parse_program(PRODUCT.format(**USUAL).replace("@cuda:0", ""))
    assert split_products(on_cpu) == on_cpu


def matrix(rows: int, columns: int, *, pads: bool) -> torch.Tensor:
    """Return a matrix whose rows are padded, or one whose columns are dense."""
    if pads:
        return torch.randn(rows, -(-columns // 8) * 8).half()[:, :columns]
    return torch.randn(columns, -(-rows // 8) * 8).half()[:, :rows].t()


def text_of(tensor: torch.Tensor) -> str:
    size, stride = (", ".join(map(str, each)) for each in (tensor.shape, tensor.stride()))
    return f"{size}; stride {stride}"


@st.composite
def operands(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Draw operands and a result; one extent is large and no multiple of 8."""
    extents = [8 * draw(st.integers(1, 4)) for _ in range(3)]
    extents[draw(st.integers(0, 2))] = LEAST + draw(st.integers(1, 7))
    rows, depth, columns = extents
    torch.manual_seed(draw(st.integers(0, 99)))
    pads = draw(st.tuples(*[st.booleans()] * 3))
    return (
        matrix(rows, depth, pads=pads[0]),
        matrix(depth, columns, pads=pads[1]),
        matrix(rows, columns, pads=pads[2]),
    )


def check(found: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> None:
    exact = x.double() @ w.double()
    rounded = (exact.to(found.dtype).double() - exact).norm()
    assert (found.double() - exact).norm() <= 1.5 * rounded + 1e-3


@settings(max_examples=25, deadline=None)
@given(operands())
def test_the_product_stays(
    matrices: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
) -> None:
    x, w, y = matrices
    texts = {"x": text_of(x), "w": text_of(w), "y": text_of(y)}
    after = split_products(parse_program(PRODUCT.format(**texts)))
    assert len(products(after)) == 2
    on_cpu = parse_program(format_program(after).replace("@cuda:0", ""))
    (found,) = interpret(on_cpu, [x, w], {})
    assert isinstance(found, torch.Tensor)
    check(found, x, w)


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_emitted_code_adds_to_what_it_computed(emitter: str) -> None:
    x, w = matrix(64, 2049, pads=True), matrix(2049, 64, pads=True)
    after = split_products(parse_program(PRODUCT.format(**USUAL)))
    on_cpu = parse_program(format_program(after).replace("@cuda:0", ""))
    loaded: Any = compile_program(on_cpu, emitter=emitter)
    (found,) = loaded([x, w])
    check(found, x, w)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_on_a_gpu(emitter: str) -> None:
    for rows, depth, columns in ((1024, 768, 50257), (1024, 50257, 768), (50257, 1024, 64)):
        x, w = matrix(rows, depth, pads=depth > rows), matrix(depth, columns, pads=False)
        if columns > rows:
            y = f"{rows}, {columns}; stride {-(-columns // 8) * 8}, 1"
        else:
            y = f"{rows}, {columns}"
        texts = {"x": text_of(x), "w": text_of(w), "y": y}
        program = parse_program(PRODUCT.format(**texts))
        assert len(products(split_products(program))) == 2
        loaded: Any = compile_program(
            run_passes(program, ["split_products"]), emitter=emitter
        )
        given = [
            torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="cuda").copy_(t)
            for t in (x, w)
        ]
        (found,) = loaded(given)
        check(found.cpu(), x, w)
