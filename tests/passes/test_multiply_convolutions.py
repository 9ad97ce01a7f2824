"""Pointwise convolutions as matrix products: which, and with what result."""

from collections.abc import Sequence

import pytest
import torch

from wrapperir import Program, format_program, interpret, parse_program
from wrapperir.passes import multiply_convolutions
from wrapperir.verify import verify

IMAGES = "%x: f16[2, 8, 3, 5; stride 120, 1, 40, 8]@cuda"
WEIGHT = "%w: f16[16, 8, 1, 1]@cuda"
BIAS = "%b: f16[16]@cuda"
RESULT = "f16[2, 16, 3, 5; stride 240, 1, 80, 16]@cuda"
POINTWISE = "none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1"


def convolution(
    images: str = IMAGES,
    weight: str = WEIGHT,
    rest: str = POINTWISE,
    result: str = RESULT,
    bias: str = BIAS,
    device: str = " @cuda",
) -> Program:
    program = parse_program(
        f"wrapperir 1\n\nprogram @main({images}, {weight}, {bias}) {{\n"
        "  %y = extern_kernel aten.convolution.default"
        f"(%x, %w, {rest}){device} : {result}\n  return %y\n}}\n"
    )
    assert verify(program) == ()
    return program


def test_a_convolution_without_bias() -> None:
    changed = multiply_convolutions(convolution())
    assert verify(changed) == ()
    assert multiply_convolutions(changed) == changed
    assert (
        format_program(changed).split("{\n", 1)[1]
        == """\
  %y = allocate f16[2, 16, 3, 5; stride 240, 1, 80, 16]@cuda
  %view0 = reinterpret %x as f16[30, 8]@cuda
  %view1 = reinterpret %w as f16[8, 16; stride 1, 8]@cuda
  %view2 = reinterpret %y as f16[30, 16]@cuda
  extern_kernel aten.mm.out(%view0, %view1, out = %view2) writes(%view2) @cuda
  free %view0
  free %view1
  free %view2
  return %y
}
"""
    )


def test_a_convolution_with_bias_and_keywords() -> None:
    rest = (
        "stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = false, "
        "output_padding = [0, 0], groups = 1, bias = %b"
    )
    changed = multiply_convolutions(convolution(rest=rest))
    assert verify(changed) == ()
    line = "aten.addmm.out(%b, %view0, %view1, out = %view2) writes(%view2) @cuda"
    assert line in format_program(changed)


def test_symbolic_batches() -> None:
    images = "%x: bf16[s0, 8, 3, 5; stride 120, 1, 40, 8]@cuda"
    program = parse_program(f"""\
wrapperir 1

program @main({images}, %w: bf16[16, 8, 1, 1; stride 8, 1, 8, 8]@cuda) {{
  symbol s0: int 2..8 = size(%x, 0)

  %y = extern_kernel aten.convolution.default(%x, %w, {POINTWISE}) @cuda : \
bf16[s0, 16, 3, 5; stride 240, 1, 80, 16]@cuda
  return %y
}}
""")
    changed = multiply_convolutions(program)
    assert verify(changed) == ()
    assert "%view0 = reinterpret %x as bf16[s0 * 15, 8]@cuda\n" in format_program(changed)


def _without_cuda(*parts: str) -> list[str]:
    return [part.replace("@cuda", "") for part in parts]


@pytest.mark.parametrize(
    "program",
    [
        convolution(images="%x: f16[2, 8, 3, 5]@cuda"),
        convolution(images="%x: f16[2, 8, 3, 5; stride 240, 1, 80, 16]@cuda"),
        convolution(result="f16[2, 16, 3, 5]@cuda"),
        convolution(weight="%w: f16[16, 8, 1, 1; stride 1, 16, 1, 1]@cuda"),
        convolution(
            rest="none, [2, 2], [0, 0], [1, 1], false, [0, 0], 1",
            result="f16[2, 16, 2, 3; stride 96, 1, 48, 16]@cuda",
        ),
        convolution(
            rest="none, [1, 1], [1, 0], [1, 1], false, [0, 0], 1",
            result="f16[2, 16, 5, 5; stride 400, 1, 80, 16]@cuda",
        ),
        convolution(
            weight="%w: f16[16, 4, 1, 1]@cuda",
            rest="none, [1, 1], [0, 0], [1, 1], false, [0, 0], 2",
        ),
        convolution(
            weight="%w: f16[8, 16, 1, 1]@cuda",
            rest="none, [1, 1], [0, 0], [1, 1], true, [0, 0], 1",
        ),
        convolution(
            weight="%w: f16[16, 8, 1, 3]@cuda",
            result="f16[2, 16, 3, 3; stride 144, 1, 48, 16]@cuda",
        ),
        convolution(
            bias="%b: f16[16; stride 2]@cuda",
            rest="%b, [1, 1], [0, 0], [1, 1], false, [0, 0], 1",
        ),
        convolution(
            *(text.replace("f16", "f32") for text in (IMAGES, WEIGHT, POINTWISE, RESULT))
        ),
        convolution(*_without_cuda(IMAGES, WEIGHT, POINTWISE, RESULT, BIAS, " @cuda")),
    ],
    ids=[
        *("contiguous images", "gaps between images", "contiguous result"),
        *("transposed weight", "stride", "padding", "groups", "transposed", "window"),
        *("strided bias", "f32", "CPU"),
    ],
)
def test_other_convolutions_stay(program: Program) -> None:
    assert multiply_convolutions(program) == program


@pytest.mark.parametrize("bias", [False, True])
def test_the_product_computes_the_convolution(bias: bool) -> None:
    rest = POINTWISE.replace("none", "%b") if bias else POINTWISE
    program = convolution(rest=rest)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 8, 3, 5, generator=generator, dtype=torch.float16)
    w = torch.randn(16, 8, 1, 1, generator=generator, dtype=torch.float16)
    b = torch.randn(16, generator=generator, dtype=torch.float16)
    given = [x.contiguous(memory_format=torch.channels_last), w, b]
    wanted, actual = (
        _on_cpu(each, given) for each in (program, multiply_convolutions(program))
    )
    assert actual.stride() == wanted.stride() == (240, 1, 80, 16)
    torch.testing.assert_close(actual, wanted, rtol=1e-2, atol=1e-2)


def _on_cpu(program: Program, given: Sequence[torch.Tensor]) -> torch.Tensor:
    text = format_program(program).replace("@cuda", "")
    (result,) = interpret(parse_program(text), [tensor.clone() for tensor in given], {})
    assert isinstance(result, torch.Tensor)
    return result
