from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.passes.changed_lines import lines_after
from wrapperir.operators import find_out_overload, is_pointwise
from wrapperir.passes import update_in_place


def after(body: str, head: str = "%x: f32[16]") -> str:
    """Return the lines of the program after the pass, which must be valid."""
    return lines_after(update_in_place, body, head, "")


START = """\
  %a = allocate f32[16]
  extern_kernel aten.neg.out(%x, out = %a) writes(%a)
"""


def test_a_chain_has_one_memory() -> None:
    assert (
        after(f"""\
{START}\
  %b = allocate f32[16]
  extern_kernel aten.mul.out(%a, %a, out = %b) writes(%b)
  free %a
  %c = allocate f32[16]
  comment "between"
  extern_kernel aten.add.out(%x, %b, alpha = 2, out = %c) writes(%c)
  free %b
  return %c
""")
        == f"""\
{START}\
  %b = reuse %a as f32[16]
  extern_kernel aten.mul.out(%b, %b, out = %b) writes(%b)
  comment "between"
  %c = reuse %b as f32[16]
  extern_kernel aten.add.out(%x, %c, alpha = 2, out = %c) writes(%c)
  return %c
"""
    )


def test_views_that_are_freed_are_no_hindrance() -> None:
    assert (
        after(f"""\
{START}\
  %v = reinterpret %a as f32[4]
  %b = allocate f32[16]
  extern_kernel aten.exp.out(%a, out = %b) writes(%b)
  free %a
  free %v
  return %b
""")
        == f"""\
{START}\
  %v = reinterpret %a as f32[4]
  %b = reuse %a as f32[16]
  extern_kernel aten.exp.out(%b, out = %b) writes(%b)
  free %v
  return %b
"""
    )


def call(line: str, before: str = "", result: str = "f32[16]", later: str = "") -> str:
    """Return a program's lines around one call that reads %a and writes %b."""
    lines = f"{before}  %b = allocate {result}\n  {line}\n{later}"
    return f"{START}{lines}  free %a\n  return %b\n"


EXP = "extern_kernel aten.exp.out(%a, out = %b) writes(%b)"
STAYS = {
    "used later": call(
        EXP, later="  extern_kernel aten.exp.out(%a, out = %b) writes(%b)\n"
    ),
    "a view used later": call(
        EXP,
        "  %v = reinterpret %a as f32[16]\n",
        later="  extern_kernel aten.exp.out(%v, out = %b) writes(%b)\n  free %v\n",
    ),
    "a view in the call": call(
        "extern_kernel aten.add.out(%a, %v, out = %b) writes(%b)",
        "  %v = reinterpret %a as f32[1]\n",
        later="  free %v\n",
    ),
    "not pointwise": call("extern_kernel aten.cumsum.out(%a, 0, out = %b) writes(%b)"),
    "another dtype": call(
        "extern_kernel aten.gt.Scalar_out(%a, 0, out = %b) writes(%b)", result="bool[16]"
    ),
    "another size": call(
        "extern_kernel aten.add.out(%a, %x, out = %b) writes(%b)", result="f32[2, 16]"
    ),
    "a greater alignment": call(EXP, result="f32[16] {align = 64}"),
    "pinned": call(EXP, result="f32[16] {pinned}"),
    "complex": call(EXP).replace("f32", "c64"),
    "written before": call(f"extern_kernel aten.zero_.default(%b) writes(%b)\n  {EXP}"),
    "an input": """\
  %b = allocate f32[16]
  extern_kernel aten.exp.out(%x, out = %b) writes(%b)
  free %x
  return %b
""",
    "returned": call(EXP).replace("  free %a\n  return %b", "  return %a, %b"),
    "in larger memory": f"""\
  %whole = allocate f32[32]
  extern_kernel aten.fill_.Scalar(%whole, 1) writes(%whole)
  %a = reinterpret %whole as f32[16]
  free %whole
  %b = allocate f32[16]
  {EXP}
  free %a
  return %b
""",
}


@pytest.mark.parametrize("body", STAYS.values(), ids=STAYS)
def test_what_stays(body: str) -> None:
    assert after(body) == body


def test_streams_that_do_not_meet() -> None:
    other = "  %y = extern_kernel aten.exp.default(%a) stream(1) : f32[16]\n"
    wait = "  %e = record_event\n  wait_event %e stream(1)\n"
    body = call(EXP, f"{wait}{other}").replace("return %b", "return %b, %y")
    assert after(body) == body
    met = call(EXP, f"{wait}{other}  %f = record_event stream(1)\n  wait_event %f\n")
    assert "%b = reuse %a" in after(met.replace("return %b", "return %b, %y"))


UNARY = (
    "abs acos asinh bitwise_not ceil erf exp lgamma neg reciprocal sgn sigmoid silu tanh"
)
BINARY = (
    "add.Tensor atan2 bitwise_and.Tensor copysign.Tensor div.Tensor fmod.Tensor hypot "
    "igamma logaddexp maximum mul.Tensor pow.Tensor_Tensor remainder.Tensor "
    "sigmoid_backward sub.Tensor tanh_backward xlogy.Tensor"
)
OPERATORS = [
    (name if "." in name else f"{name}.default", count)
    for count, names in ((1, UNARY), (2, BINARY))
    for name in names.split()
]


@pytest.mark.parametrize(("name", "count"), OPERATORS)
@settings(max_examples=10)
@given(
    size=st.lists(st.integers(1, 40), min_size=1, max_size=3),
    orders=st.tuples(st.randoms(), st.randoms()),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.int64]),
    seed=st.integers(0, 1000),
)
def test_the_same_bits(
    name: str,
    count: int,
    size: list[int],
    orders: tuple[Random, Random],
    dtype: torch.dtype,
    seed: int,
) -> None:
    overload = find_out_overload(f"aten.{name}", "cpu")
    assert overload is not None
    assert is_pointwise(overload.operator, "cpu")
    operator, variant = name.split(".")
    generator = torch.Generator().manual_seed(seed)
    given = [
        laid_out((torch.randn(size, generator=generator) * 3).to(dtype), order)
        for _, order in zip(range(count), orders, strict=False)
    ]
    try:
        expected = getattr(getattr(torch.ops.aten, operator), variant)(*given)
    except (RuntimeError, NotImplementedError):
        return  # not for tensors of this type
    out = getattr(getattr(torch.ops.aten, operator), overload.operator.split(".")[2])
    for number, tensor in enumerate(given):
        if expected.dtype is not dtype or expected.stride() != tensor.stride():
            continue
        target = torch.empty_strided(size, tensor.stride(), dtype=dtype).copy_(tensor)
        arguments = [*given[:number], target, *given[number + 1 :]]
        out(*arguments, **{overload.keywords[0]: target})
        bits = [t.contiguous().flatten().view(torch.uint8) for t in (target, expected)]
        assert torch.equal(*bits)


def laid_out(tensor: torch.Tensor, rng: Random) -> torch.Tensor:
    """Return the tensor with its dimensions in some order in memory."""
    order = rng.sample(range(tensor.dim()), tensor.dim())
    back = [order.index(dim) for dim in range(tensor.dim())]
    return tensor.permute(order).contiguous().permute(back)


def test_a_donated_input_is_updated_in_place() -> None:
    body = """\
  %a = allocate f32[16]
  extern_kernel aten.neg.out(%x, out = %a) writes(%a)
  free %x
  return %a
"""
    assert (
        after(body, "%x: donated f32[16]")
        == """\
  %a = reuse %x as f32[16]
  extern_kernel aten.neg.out(%a, out = %a) writes(%a)
  return %a
"""
    )
    assert after(body, "%x: f32[16]") == body
