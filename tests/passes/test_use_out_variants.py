from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from wrapperir import format_program, parse_program
from wrapperir.operators import find_out_overload
from wrapperir.passes import use_out_variants
from wrapperir.verify import verify


def after(body: str, head: str = "%x: f32[8, 4]") -> str:
    """Return the lines of the program after the pass, which must be valid."""
    text = f"wrapperir 1\n\nprogram @main({head}) {{\n{body}}}\n"
    program = parse_program(text)
    assert verify(program) == ()
    changed = use_out_variants(program)
    assert verify(changed) == ()
    assert use_out_variants(changed) == changed
    return format_program(changed).split("{\n", 1)[1][:-2]


def test_one_result() -> None:
    assert (
        after("""\
  %y = extern_kernel aten.cumsum.default(%x, 1) : f32[8, 4] {align = 16}
  free %x
  return %y
""")
        == """\
  %y = allocate f32[8, 4] {align = 16}
  extern_kernel aten.cumsum.out(%x, 1, out = %y) writes(%y)
  free %x
  return %y
"""
    )


def test_an_element_of_a_tuple_within_a_tuple_stays() -> None:
    body = """\
  %t = extern_kernel aten.unbind.int(%x) : ((f32[8], f32[2]), f32[8])
  %e = multi_output %t[0][1] : f32[2]
  free %t
  free %x
  return %e
"""
    assert after(body) == body


def test_several_results_and_one_that_nothing_reads() -> None:
    assert (
        after("""\
  %t = extern_kernel aten.topk.default(%x, 2, sorted = true) : (f32[8, 2], i64[8, 2])
  free %x
  %indices = multi_output %t[1] : i64[8, 2]
  free %t
  %u = extern_kernel aten.topk.default(%indices, 1) : (i64[8, 1], i64[8, 1])
  free %indices
  %a = multi_output %u[1] : i64[8, 1]
  %b = multi_output %u[0] : i64[8, 1]
  free %u
  return %a, %b
""")
        == """\
  %buf0 = allocate f32[8, 2]
  %indices = allocate i64[8, 2]
  extern_kernel aten.topk.values(%x, 2, sorted = true, values = %buf0, indices = %indices) \
writes(%buf0, %indices)
  free %buf0
  free %x
  %b = allocate i64[8, 1]
  %a = allocate i64[8, 1]
  extern_kernel aten.topk.values(%indices, 1, values = %b, indices = %a) writes(%b, %a)
  free %indices
  return %a, %b
"""
    )


def test_inside_blocks_with_sizes_known_before() -> None:
    assert (
        after(
            """\
  symbol s0: int 1..8 = size(%x, 0)

  %r = subgraph_call @f (%x) : f32[s0, 4] {
    body (%p: f32[s0, 4]) {
      %y = extern_kernel aten.neg.default(%p) : f32[s0, 4]
      return %y
    }
  }
  return %r
""",
            head="%x: f32[s0, 4]",
        )
        == """\
  symbol s0: int 1..8 = size(%x, 0)

  %r = subgraph_call @f (%x) : f32[s0, 4] {
    body (%p: f32[s0, 4]) {
      %y = allocate f32[s0, 4]
      extern_kernel aten.neg.out(%p, out = %y) writes(%y)
      return %y
    }
  }
  return %r
"""
    )


STAYS = {
    "only a derived overload": "%y = extern_kernel aten.clone.default(%x) : f32[8, 4]",
    "a view": "%y = extern_kernel aten.t.default(%x) aliases(%x) : f32[4, 8; stride 1, 4]",
    "may be a view": "%y = extern_kernel aten.neg.default(%x) aliases(%x) : f32[8, 4]",
    "random": "%y = extern_kernel aten.bernoulli.default(%x) : f32[8, 4]",
    "not dense": "%y = extern_kernel aten.neg.default(%x) : f32[8, 4; stride 8, 1]",
    "no elements": "%y = extern_kernel aten.neg.default(%x) : f32[0, 4]",
    "pinned": "%y = extern_kernel aten.neg.default(%x) : f32[8, 4] {pinned}",
    "of a third party": "%y = extern_kernel mine.neg.default(%x) : f32[8, 4]",
    "unknown": "%y = extern_kernel aten.no_such.default(%x) : f32[8, 4]",
    "no name": "extern_kernel aten.neg.default(%x)\n  %y = allocate f32[1]",
}


@pytest.mark.parametrize("line", STAYS.values(), ids=STAYS)
def test_what_stays(line: str) -> None:
    body = f"  {line}\n  return %y\n"
    assert after(body) == body


def test_a_size_that_the_operator_decides() -> None:
    body = """\
  %y = extern_kernel aten.neg.default(%x) : f32[u0, 4]
  symbol_definition u0: int 0.. = size(%y, 0)
  return %y
"""
    assert after(body) == body


def test_a_tuple_that_is_used_whole() -> None:
    body = """\
  %t = extern_kernel aten.max.dim(%x, 1) : (f32[8], i64[8])
  %y = multi_output %t[0] : f32[8]
  return %t, %y
"""
    assert after(body) == body


UNARY = (
    "abs acos asinh atan bitwise_not ceil cos erf exp expm1 floor gelu hardsigmoid log "
    "log1p logical_not neg reciprocal rsqrt sgn sigmoid sign silu sin sqrt tan tanh trunc"
)
BINARY = (
    "add.Tensor atan2 bitwise_xor.Tensor copysign.Tensor div.Tensor eq.Tensor fmax "
    "fmod.Tensor ge.Tensor hypot logical_or lt.Tensor maximum minimum mul.Tensor "
    "pow.Tensor_Tensor remainder.Tensor sub.Tensor"
)
REDUCTIONS = "amax amin any.dims mean.dim sum.dim_IntList"
ALONG = "argmax cumprod cumsum max.dim median.dim min.dim prod.dim_int"
Arguments = Callable[[torch.Tensor, torch.Tensor, int], tuple[object, ...]]
OTHERS: dict[str, Arguments] = {
    "_log_softmax.default": lambda x, y, d: (x, d, False),
    "_softmax.default": lambda x, y, d: (x, d, False),
    "addcmul.default": lambda x, y, d: (x, y, x),
    "cat.default": lambda x, y, d: ([x, y, x], d),
    "clamp.default": lambda x, y, d: (x, -1, 2),
    "gather.default": lambda x, y, d: (x, d, torch.zeros(x.shape, dtype=torch.int64)),
    "index_select.default": lambda x, y, d: (x, d, torch.tensor([0, 0])),
    "kthvalue.default": lambda x, y, d: (x, 1, d),
    "lerp.Tensor": lambda x, y, d: (x, y, x),
    "mm.default": lambda x, y, d: (x.flatten(1), y.flatten(1).T.contiguous()),
    "pow.Tensor_Scalar": lambda x, y, d: (x, 2),
    "sort.stable": lambda x, y, d: (x,),
    "topk.default": lambda x, y, d: (x, 1, d),
    "tril.default": lambda x, y, d: (x,),
    "var.correction": lambda x, y, d: (x, [d]),
    "where.self": lambda x, y, d: (x > y, x, y),
}
CASES: dict[str, Arguments] = {
    **{f"{name}.default": lambda x, y, d: (x,) for name in UNARY.split()},
    **{
        name if "." in name else f"{name}.default": lambda x, y, d: (x, y)
        for name in BINARY.split()
    },
    **{
        name if "." in name else f"{name}.default": lambda x, y, d: (x, [d])
        for name in REDUCTIONS.split()
    },
    **{
        name if "." in name else f"{name}.default": lambda x, y, d: (x, d)
        for name in ALONG.split()
    },
    **OTHERS,
}
GUARD = 64


@st.composite
def operands(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Draw two tensors of one size and any order of dimensions, and a dimension."""
    size = draw(st.lists(st.integers(1, 9), min_size=2, max_size=4))
    dtype = draw(st.sampled_from([torch.float32, torch.float64, torch.int64, torch.bool]))
    seed = draw(st.integers(0, 1000))
    generator = torch.Generator().manual_seed(seed)
    tensors: list[torch.Tensor] = []
    for _ in range(2):
        order = draw(st.permutations(range(len(size))))
        numbers = torch.randn([size[d] for d in order], generator=generator) * 3
        back = [order.index(d) for d in range(len(size))]
        tensors.append(numbers.to(dtype).permute(back))
    return tensors[0], tensors[1], draw(st.integers(0, len(size) - 1))


def guarded(like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a tensor inside larger memory, as a placed one is, and that memory."""
    size = like.numel() * like.element_size()
    memory = torch.full((size + 2 * GUARD,), 0xA5, dtype=torch.uint8)
    inside = memory[GUARD : GUARD + size].view(like.dtype)
    offset = GUARD // like.element_size()
    return inside.as_strided(like.shape, like.stride(), offset), memory


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=15)
@given(given_operands=operands())
def test_the_same_bits_and_only_there(
    name: str, given_operands: tuple[torch.Tensor, torch.Tensor, int]
) -> None:
    overload = find_out_overload(f"aten.{name}", "cpu")
    assert overload is not None
    operator, variant = name.split(".")
    arguments = CASES[name](*given_operands)
    try:
        result = getattr(getattr(torch.ops.aten, operator), variant)(*arguments)
    except (RuntimeError, NotImplementedError):
        return  # not for tensors of this type
    results = result if isinstance(result, tuple) else (result,)
    outs = [guarded(tensor) for tensor in results]
    out = getattr(getattr(torch.ops.aten, operator), overload.operator.split(".")[2])
    keywords = dict(zip(overload.keywords, (inside for inside, _ in outs), strict=True))
    out(*arguments, **keywords)
    for expected, (inside, memory) in zip(results, outs, strict=True):
        assert inside.stride() == expected.stride()
        assert bits(inside) == bits(expected)
        assert len(memory) == 2 * GUARD + expected.numel() * expected.element_size()
        assert bytes(memory[:GUARD]) == bytes(memory[-GUARD:]) == b"\xa5" * GUARD


def test_losses_that_resize_their_out_have_none() -> None:
    assert find_out_overload("aten.mse_loss.default", "cpu") is None
    assert find_out_overload("aten.huber_loss.default", "cpu") is None


def test_a_device_without_kernels_has_none() -> None:
    assert find_out_overload("aten.cumsum.default", "no_such_device") is None
    assert find_out_overload("aten.cumsum.default", "meta") is not None
    assert find_out_overload("not an operator", "cpu") is None
