"""Attention of symbolic sizes: the kernel for few positions, the operator for more."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.passes.attention_on_cpu import attention_operators
from tests.passes.replaced_calls import on_cpu
from wrapperir import ir as wir
from wrapperir.emit import compile_program
from wrapperir.interp import interpret
from wrapperir.ir.blocks import walk_lines
from wrapperir.passes import branch_attention, tile_attention
from wrapperir.passes.attention_calls import MOST_POSITIONS
from wrapperir.pipelines import run_passes
from wrapperir.text import format_expr, format_program, parse_program
from wrapperir.verify import verify

MANY = MOST_POSITIONS + 1
TEXT = """\
wrapperir 1

program @main(%q: f16[{q}]@cuda:0, %k: f16[{k}]@cuda:0, %v: f16[{k}]@cuda:0, \
%m: f16[{m}]@cuda:0) {{
  symbol b: int 1..{b} = size(%q, 0)
  symbol s: int {s} = size(%q, 2)
  symbol t: int {t} = size(%k, 2)

  %all = extern_kernel aten._scaled_dot_product_efficient_attention.default(\
%q, %k, %v, {mask}, false, 0.0, {causal}) @cuda:0 stream({stream}) \
: (f16[{y}]@cuda:0, f32[b, 3, 0; stride 3, 1, 1]@cuda:0, i64[]@cuda:0, i64[]@cuda:0)
  %y = multi_output %all[0] : f16[{y}]@cuda:0
  free %all
  return %y
}}
"""
USUAL = {
    "q": "b, 3, s, 16; stride 48 * s, 16, 48, 1",
    "k": "b, 3, t, 16; stride 48 * t, 16, 48, 1",
    "m": "1, 3, s, t",
    "y": "b, 3, s, 16; stride 48 * s, 16, 48, 1",
    "b": "",
    "s": "1..",
    "t": "1..",
    "mask": "%m",
    "causal": "false",
    "stream": "0",
}


def program(**facts: str) -> wir.Program:
    text = TEXT.format(**{**USUAL, **facts}).replace(" stream(0)", "")
    made = parse_program(text)
    assert verify(made) == ()
    return made


def tiled(before: wir.Program) -> wir.Program:
    """Run both passes; what they return is valid, and they have nothing left to do."""
    passes = ["branch_attention", "tile_attention"]
    after = run_passes(before, passes)
    assert verify(after) == ()
    assert run_passes(after, passes) == after
    return after


def kinds(made: wir.Program) -> list[type[wir.Line]]:
    """Return the kinds of the calls and branches of a program, in order."""
    wanted = wir.KernelCallLine, wir.ExternKernelLine, wir.ConditionalLine
    return [type(line) for line in walk_lines(made.lines) if isinstance(line, wanted)]


BRANCHED = [wir.ConditionalLine, wir.KernelCallLine, wir.ExternKernelLine]


@pytest.mark.parametrize(
    ("facts", "condition"),
    [
        ({}, "s <= 256 and t <= 256"),
        ({"s": "0.."}, "s >= 1 and s <= 256 and t <= 256"),
        ({"s": "1..256"}, "t <= 256"),
        ({"s": "1..300", "t": "2..8"}, "s <= 256"),
        ({"k": "b, 3, s, 16", "m": "1, 1, s, s"}, "s <= 256"),
        ({"mask": "none", "causal": "true"}, "s <= 256 and t <= 256"),
    ],
)
def test_a_branch_asks_for_what_ranges_leave_open(
    facts: dict[str, str], condition: str
) -> None:
    after = tiled(program(**facts))
    assert kinds(after) == BRANCHED
    (line,) = [x for x in after.lines if isinstance(x, wir.ConditionalLine)]
    assert isinstance(line.predicate, wir.Operation)
    assert format_expr(line.predicate) == condition


def test_ranges_that_tell_leave_one_call() -> None:
    few = program(s="1..256", t="1..64")
    assert branch_attention(few) == few
    assert kinds(tiled(few)) == [wir.KernelCallLine]
    many = program(s=f"{MANY}..", t="1..")
    assert tiled(many) == many


@pytest.mark.parametrize("facts", [{"stream": "1"}, {"k": "1, 3, t, 16"}])
def test_other_attention_stays(facts: dict[str, str]) -> None:
    before = program(**facts)
    assert tiled(before) == before


@pytest.fixture(scope="module")
def ran() -> Iterator[list[str]]:
    with attention_operators() as ran:
        yield ran


def inputs(batch: int, rows: int, columns: int, dtype: torch.dtype) -> list[torch.Tensor]:
    torch.manual_seed(rows * columns)
    q, k, v = (
        torch.randn(batch, n, 3, 16).to(dtype).transpose(1, 2)
        for n in (rows, columns, columns)
    )
    hidden = torch.rand(1, 3, rows, columns) < 0.3
    mask = torch.zeros(1, 3, rows, columns).masked_fill(hidden, float("-inf"))
    return [q, k, v, mask.to(dtype)]


def check_lengths(
    after: wir.Program, lengths: list[tuple[int, int, int]], masked: bool, causal: bool
) -> None:
    """Interpret one program at each length, beside eager attention in f64."""
    type = after.inputs[0].type
    assert isinstance(type, wir.TensorType)
    dtype = torch.bfloat16 if type.dtype is wir.DType.BF16 else torch.float16
    for batch, rows, columns in lengths:
        given = inputs(batch, rows, columns, dtype)
        q, k, v, mask = (x.double() for x in given)
        seen = torch.ones(rows, columns, dtype=torch.bool).tril()
        bias = mask if masked else torch.zeros(rows, columns, dtype=torch.float64)
        bias = bias.masked_fill(~seen, float("-inf")) if causal else bias
        wanted = (q @ k.transpose(2, 3) / 4 + bias).softmax(3).nan_to_num(0.0) @ v
        (found,) = interpret(on_cpu(after), given, {})
        assert isinstance(found, torch.Tensor)
        tolerance = 4 * torch.finfo(dtype).eps
        torch.testing.assert_close(found.double(), wanted, rtol=tolerance, atol=tolerance)


SIZES = st.integers(1, 70)


@settings(max_examples=6, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 2), SIZES, SIZES), min_size=2, max_size=3),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["f16", "bf16"]),
    st.booleans(),
)
def test_one_program_takes_all_lengths(
    lengths: list[tuple[int, int, int]],
    masked: bool,
    causal: bool,
    dtype: str,
    bounded: bool,
) -> None:
    facts = {"s": "1..100", "t": "1..200"} if bounded else {}
    mask = "%m" if masked else "none"
    before = program(mask=mask, causal=str(causal).lower(), **facts)
    after = tiled(parse_program(format_program(before).replace("f16", dtype)))
    check_lengths(after, lengths, masked, causal)


def test_lengths_on_each_side_of_the_limit(ran: list[str]) -> None:
    after = tiled(program())
    sides = [(1, 8, MOST_POSITIONS), (1, 8, MANY), (1, MANY, 8), (1, 8, 8)]
    check_lengths(after, sides, masked=True, causal=False)
    assert ran == ["_scaled_dot_product_efficient_attention"] * 2


def chosen_rows(after: wir.Program, numbers: dict[str, int]) -> int:
    """Return the queries of a program of the kernel that a launch runs."""
    kernels = {line.name: line for line in after.definitions}
    (call,) = [x for x in walk_lines(after.lines) if isinstance(x, wir.KernelCallLine)]
    kernel = kernels[call.kernel]
    if isinstance(kernel, wir.MultiKernelLine):
        index = wir.choose(kernel.selection, [], numbers)
        kernel = kernels[kernel.choices[index].kernel]
    assert isinstance(kernel, wir.KernelDefinitionLine)
    rows = dict(kernel.configs[0].values)["ROWS"]
    assert isinstance(rows, int)
    return rows


@given(st.integers(1, 300), st.integers(1, 256), st.integers(1, 256), st.booleans())
def test_symbols_have_the_kernels_of_constants(
    batch: int, rows: int, columns: int, bounded: bool
) -> None:
    numbers = {"all_heads": 3 * batch, "rows": rows, "columns": columns}
    facts = {"s": "1..256", "t": "1..256"} if bounded else {}
    symbolic = chosen_rows(tiled(program(**facts)), numbers)
    sizes = {
        "q": f"{batch}, 3, {rows}, 16",
        "k": f"{batch}, 3, {columns}, 16",
        "m": f"1, 3, {rows}, {columns}",
        "y": f"{batch}, 3, {rows}, 16",
    }
    constant = tile_attention(program(**sizes, b="300"))
    assert chosen_rows(constant, numbers) == symbolic


def stride_dtypes(after: wir.Program) -> set[wir.DType]:
    return {
        parameter.dtype
        for line in after.definitions
        for parameter in line.parameters
        if isinstance(parameter, wir.ScalarParameter)
        and parameter.name.endswith(("_batch", "_head", "_row"))
    }


def test_strides_without_a_bound_have_64_bits() -> None:
    assert stride_dtypes(tiled(program())) == {wir.DType.I32}
    rows_apart = {"q": "b, 3, s, 16; stride 48, 16, 48 * b, 1"}
    assert stride_dtypes(tiled(program(**rows_apart))) == {wir.DType.I64}
    # The last query of 256 is 2 ** 31 elements after the first.
    far = {"q": "b, 3, s, 16; stride 48, 16, 8421505, 1"}
    assert stride_dtypes(tiled(program(**far))) == {wir.DType.I64}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_on_a_gpu(emitter: str) -> None:
    after = tiled(program())
    loaded: Any = compile_program(after, emitter=emitter)
    for lengths in ((1, 40, 40), (2, 8, 256), (64, 64, 64), (1, 8, 264), (1, 300, 304)):
        given = inputs(*lengths, torch.float16)
        q, k, v, mask = (x.double() for x in given)
        wanted = (q @ k.transpose(2, 3) / 4 + mask).softmax(3).nan_to_num(0.0) @ v
        (found,) = loaded([x.cuda() for x in given])
        torch.testing.assert_close(found.cpu().double(), wanted, rtol=4e-3, atol=4e-3)
