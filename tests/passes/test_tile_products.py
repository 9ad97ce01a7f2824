"""Products of an odd number of columns become launches of a Triton kernel."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.passes.replaced_calls import check_shared, is_replaced, on_cpu
from wrapperir import ir as wir
from wrapperir.emit import compile_program
from wrapperir.interp import interpret
from wrapperir.passes import tile_products
from wrapperir.passes.tile_products import LEAST_COLUMNS
from wrapperir.pipelines import run_passes
from wrapperir.text import parse_program

PRODUCT = """\
wrapperir 1

program @main(%x: f16[{x}]@{device}, %w: f16[{w}]@{device}) {{
{symbol}  %y = allocate f16[{y}]@{device}
  extern_kernel aten.mm.out(%x, %w, out = %y) writes(%y) @{device}
  return %y
}}
"""
USUAL = {
    "x": "8, 64",
    "w": "64, 2049; stride 1, 64",
    "y": "8, 2049",
    "device": "cuda:0",
    "symbol": "",
}


def changed(facts: Mapping[str, str]) -> bool:
    return is_replaced(tile_products, PRODUCT.format(**{**USUAL, **facts}))


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"x": "8, 64; stride 72, 1"},
        {"x": "2, 64", "y": "2, 2049"},
        {"y": "8, 2049; stride 2051, 1"},
        {"w": "64, 2049; stride 1, 128"},
        {
            "x": "s0, 64",
            "y": "s0, 2049",
            "symbol": "  symbol s0: int 0..99 = size(%x, 0)\n",
        },
    ],
)
def test_slow_products_are_replaced(facts: dict[str, str]) -> None:
    assert changed(facts)


@pytest.mark.parametrize(
    "facts",
    [
        {"device": "cpu"},
        {"w": "64, 2048; stride 1, 64", "y": "8, 2048"},
        {"w": "64, 2047; stride 1, 64", "y": "8, 2047"},
        {"x": "8, 56", "w": "56, 2049; stride 1, 56"},
        {"x": "1, 64", "y": "1, 2049"},
        {"w": "64, 2049"},
        {"x": "8, 64; stride 68, 1"},
        {"x": "8, 64; stride 1, 8"},
        {"y": "8, 2049; stride 1, 8"},
        {"y": "8, 2049; stride 2056, 1"},
        {"y": "4, 2049"},
        {"y": "8, 2048"},
        {"w": "72, 2049; stride 1, 72"},
        {"w": "64, 2049; stride 1, 64; offset 3"},
    ],
)
def test_other_products_stay(facts: dict[str, str]) -> None:
    assert not changed(facts)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1, 64]@cuda:0", "1, 64]@cuda:1"),
        ("writes(%y) @cuda:0", "writes(%y) @cuda:1"),
        ("out = %y)", "out = %y, extra = 1)"),
        ("(%x, %w, out", "(%x, out"),
    ],
)
def test_products_that_a_kernel_would_change_stay(old: str, new: str) -> None:
    text = PRODUCT.format(**USUAL)
    assert old in text
    program = parse_program(text.replace(old, new))
    assert tile_products(program) == program


def test_a_product_with_a_result_stays() -> None:
    text = PRODUCT.format(**USUAL).replace("  extern_kernel", "  %z = extern_kernel")
    text = text.replace("writes(%y) @cuda:0", "writes(%y) @cuda:0 : f16[8, 2049]@cuda:0")
    program = parse_program(text)
    assert tile_products(program) == program


def test_a_product_with_operands_in_another_order_stays() -> None:
    facts = {
        **USUAL,
        "x": "2049, 2049; stride 2056, 1",
        "w": "2049, 2049",
        "y": "2049, 2049; stride 1, 2056",
    }
    text = PRODUCT.format(**facts)
    program = parse_program(text.replace("%w, out = %y)", "out = %y, mat2 = %w)"))
    assert tile_products(program) == program


def test_products_of_other_dtypes_stay() -> None:
    text = PRODUCT.format(**USUAL)
    program = parse_program(text.replace("f16", "f32"))
    assert tile_products(program) == program
    assert tile_products(parse_program(text.replace("f16", "bf16"))) != program


def product(
    rows: int, columns: int, depth: int, dtype: str
) -> tuple[wir.Program, torch.Tensor, torch.Tensor]:
    """Return a program of a product on a GPU, and its inputs on the CPU."""
    shapes = {
        "x": f"{rows}, {depth}",
        "w": f"{depth}, {columns}; stride 1, {depth}",
        "y": f"{rows}, {columns}",
    }
    text = PRODUCT.format(**{**USUAL, **shapes}).replace("f16", dtype)
    kind = {"f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    torch.manual_seed(rows + columns)
    left = torch.randn(rows, depth).to(kind)
    right = torch.randn(columns, depth).to(kind).t()
    return parse_program(text), left, right


def test_kernels_are_shared() -> None:
    head, body = PRODUCT.format(**USUAL).split("{\n", 1)
    lines, end = body.split("  return")
    more = lines.replace("%y", "%z")
    after = tile_products(parse_program(f"{head}{{\n{lines}{more}  return %z,{end}"))
    check_shared(after, "product0")


def check(found: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    exact = left.double() @ right.double()
    rounded = (exact.to(found.dtype).double() - exact).norm()
    assert (found.double() - exact).norm() <= 1.5 * rounded + 1e-6


@settings(max_examples=8, deadline=None)
@given(
    st.sampled_from([2, 5, 16, 17, 130]),
    st.integers(LEAST_COLUMNS // 2, LEAST_COLUMNS // 2 + 100).map(
        lambda half: 2 * half + 1
    ),
    st.sampled_from([64, 72, 136]),
    st.sampled_from(["f16", "bf16"]),
)
def test_the_kernel_computes_the_product(
    rows: int, columns: int, depth: int, dtype: str
) -> None:
    program, left, right = product(rows, columns, depth, dtype)
    after = on_cpu(tile_products(program))
    assert any(isinstance(line, wir.KernelCallLine) for line in after.lines)
    (found,) = interpret(after, [left, right], {})
    assert isinstance(found, torch.Tensor)
    check(found, left, right)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("emitter", ["python", "cpp"])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_on_a_gpu(emitter: str, dtype: str) -> None:
    for rows, columns, depth in ((8, 2049, 64), (64, 50257, 768), (300, 4099, 136)):
        program, left, right = product(rows, columns, depth, dtype)
        loaded: Any = compile_program(
            run_passes(program, ["tile_products"]), emitter=emitter
        )
        (found,) = loaded([left.cuda(), right.t().cuda().t()])
        check(found.cpu(), left, right)
