"""Attention of few positions becomes a launch of a Triton kernel."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.passes.replaced_calls import check_shared, is_replaced, on_cpu
from wrapperir import ir as wir
from wrapperir.emit import compile_program
from wrapperir.interp import interpret
from wrapperir.passes import tile_attention
from wrapperir.passes.attention_calls import MOST_POSITIONS
from wrapperir.pipelines import run_passes
from wrapperir.text import parse_program
from wrapperir.verify import verify

TEXT = """\
wrapperir 1

program @main(%q: f16[{q}]@cuda:0, %k: f16[{k}]@cuda:0, %v: f16[{v}]@cuda:0, \
%m: f16[{m}]@cuda:0) {{
  %all = extern_kernel aten._scaled_dot_product_{kind}_attention.default(\
{arguments}) @{device} : (f16[{y}]@cuda:0, f32[2, 3, 0]@cuda:0)
  %y = multi_output %all[0] : f16[{y}]@cuda:0
  %rest = multi_output %all[1] : f32[2, 3, 0]@cuda:0
  free %all
  free %rest
  return {results}
}}
"""
USUAL = {
    "q": "2, 3, 20, 32",
    "k": "2, 3, 24, 32",
    "v": "2, 3, 24, 32",
    "m": "2, 3, 20, 24; stride 0, 0, 24, 1",
    "y": "2, 3, 20, 32; stride 1920, 32, 96, 1",
    "kind": "efficient",
    "arguments": "%q, %k, %v, %m, false, scale = 0.25",
    "device": "cuda:0",
    "results": "%y",
}


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"kind": "cudnn"},
        {"kind": "cudnn", "arguments": "%q, %k, %v, none, false, 0.0, true, false"},
        {"kind": "flash", "arguments": "%q, %k, %v, 0.0, true"},
        {"arguments": "%q, %k, %v, none, false, 0.0, false"},
        {"arguments": "%q, %k, %v, %m, compute_log_sumexp = false"},
        {"q": "2, 3, 20, 32; stride 5760, 32, 96, 1; offset 5"},
        {"y": "2, 3, 20, 32"},
        {"m": "1, 1, 20, 24"},
        {"m": "2, 1, 1, 24"},
    ],
)
def test_attention_of_few_positions_is_launched(facts: dict[str, str]) -> None:
    assert is_replaced(tile_attention, TEXT.format(**{**USUAL, **facts}))


MANY = MOST_POSITIONS + 1


@pytest.mark.parametrize(
    "facts",
    [
        {"arguments": "%q, %k, %v, %m, true"},
        {"arguments": "%q, %k, %v, %m, false, 0.5"},
        {"kind": "flash", "arguments": "%q, %k, %v, 0.0, false, true"},
        {"results": "%y, %rest"},
        {"q": "2, 3, 20, 32; stride 1920, 640, 1, 20"},
        {"m": "2, 3, 20, 24; stride 0, 0, 1, 20"},
        {"m": "2, 3, 20, 1"},
        {"m": "2, 2, 20, 24"},
        {
            "q": "2, 3, 20, 24",
            **dict.fromkeys("kv", "2, 3, 24, 24"),
            "y": "2, 3, 20, 24",
        },
        {
            "q": f"2, 3, {MANY}, 32",
            "m": f"2, 3, {MANY}, 24",
            "y": f"2, 3, {MANY}, 32",
        },
        {**dict.fromkeys("kv", f"2, 3, {MANY}, 32"), "m": f"2, 3, 20, {MANY}"},
        {"k": "2, 1, 24, 32"},
    ],
)
def test_other_attention_stays(facts: dict[str, str]) -> None:
    text = TEXT.format(**{**USUAL, **facts})
    if "%rest" in facts.get("results", ""):
        text = text.replace("  free %rest\n", "")
    program = parse_program(text)
    assert tile_attention(program) == program


def test_a_tensor_on_another_device_stays() -> None:
    text = TEXT.format(**USUAL)
    for old in ("%k: f16[2, 3, 24, 32]@cuda:0", ") @cuda:0 : "):
        assert old in text
        program = parse_program(text.replace(old, old.replace("cuda:0", "cuda:1")))
        assert tile_attention(program) == program


def test_other_dtypes_stay() -> None:
    text = TEXT.format(**USUAL)
    program = parse_program(text.replace("f16", "f32"))
    assert tile_attention(program) == program
    assert tile_attention(parse_program(text.replace("f16", "bf16"))) != program


def test_kernels_are_shared() -> None:
    body = TEXT.format(**USUAL).partition("{\n")[2].partition("  return")[0]
    more = body.replace("%all", "%others").replace("%y", "%z").replace("%rest", "%left")
    text = TEXT.format(**USUAL).replace("  return %y", f"{more}  return %y, %z")
    check_shared(tile_attention(parse_program(text)), "attention0")


def case(
    rows: int,
    columns: int,
    width: int,
    masked: bool,
    causal: bool,
    dtype: str,
    repeats: Sequence[bool] = (True, True, False),
) -> tuple[wir.Program, list[torch.Tensor]]:
    """Return a program of attention on a GPU, and its inputs on the CPU.

    Queries, keys and values are views of a tensor with heads after positions.  The mask
    ``repeats`` along these dimensions: batch, heads, queries.
    """
    of_mask = [1 if once else n for n, once in zip((3, 2, rows), repeats, strict=True)]
    of_mask.append(columns)
    step = 2 * width
    sizes = {
        "q": f"3, 2, {rows}, {width}; stride {rows * step}, {width}, {step}, 1",
        **dict.fromkeys(
            "kv", f"3, 2, {columns}, {width}; stride {columns * step}, {width}, {step}, 1"
        ),
        "m": ", ".join(map(str, of_mask)),
        "y": f"3, 2, {rows}, {width}; stride {rows * step}, {width}, {step}, 1",
    }
    mask = "%m" if masked else "none"
    arguments = f"%q, %k, %v, {mask}, false, 0.0, {str(causal).lower()}"
    text = TEXT.format(**{**USUAL, **sizes, "arguments": arguments})
    kind = {"f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    torch.manual_seed(rows * columns)
    q, k, v = (
        torch.randn(3, n, 2, width).to(kind).transpose(1, 2)
        for n in (rows, columns, columns)
    )
    hidden = torch.rand(of_mask) < 0.3
    mask_values = torch.zeros(of_mask).masked_fill(hidden, float("-inf")).to(kind)
    program = parse_program(text.replace("f16", dtype))
    return program, [q, k, v, mask_values]


def exact(inputs: list[torch.Tensor], masked: bool, causal: bool) -> torch.Tensor:
    """Return attention in f64, 0 in rows that see nothing."""
    q, k, v, mask = (x.double() for x in inputs)
    scores = q @ k.transpose(2, 3) / q.shape[3] ** 0.5
    if masked:
        scores = scores + mask
    if causal:
        scores = scores.masked_fill(~torch.ones_like(scores).tril().bool(), float("-inf"))
    result: torch.Tensor = scores.softmax(3).nan_to_num(0.0) @ v
    return result


def check(found: torch.Tensor, wanted: torch.Tensor) -> None:
    tolerance = 4 * torch.finfo(found.dtype).eps
    torch.testing.assert_close(found.double(), wanted, rtol=tolerance, atol=tolerance)


@settings(max_examples=8, deadline=None)
@given(
    st.integers(1, 70),
    st.integers(1, 70),
    st.sampled_from([16, 32]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["f16", "bf16"]),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
)
def test_the_kernel_attends(
    rows: int,
    columns: int,
    width: int,
    masked: bool,
    causal: bool,
    dtype: str,
    repeats: tuple[bool, ...],
) -> None:
    program, inputs = case(rows, columns, width, masked, causal, dtype, repeats)
    assert verify(program) == ()
    after = on_cpu(tile_attention(program))
    assert any(isinstance(line, wir.KernelCallLine) for line in after.lines)
    (found,) = interpret(after, inputs, {})
    assert isinstance(found, torch.Tensor)
    check(found, exact(inputs, masked, causal))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("emitter", ["python", "cpp"])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_on_a_gpu(emitter: str, dtype: str) -> None:
    for facts in (
        (1, 128, 64, False, False),
        (20, 24, 32, True, False),
        (64, 64, 64, True, True),
        (128, 128, 128, True, False),
        (128, 100, 16, False, True),
    ):
        program, inputs = case(*facts, dtype)
        after = run_passes(program, ["tile_attention"])
        assert any(isinstance(line, wir.KernelCallLine) for line in after.lines)
        loaded: Any = compile_program(after, emitter=emitter)
        (found,) = loaded([x.cuda() for x in inputs])
        check(found.cpu(), exact(inputs, *facts[3:]))
