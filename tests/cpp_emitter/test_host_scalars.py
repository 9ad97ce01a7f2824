"""Tensors without dimensions on the CPU, which operators of a GPU return and take."""

import re

import pytest
import torch

from wrapperir.text import parse_program
from wrapperir.verify import verify
from wrapperir_cpp.emitter import CppEmitter

TEXT = """\
wrapperir 1

program @main(%x: f32[4]@cuda:0, %s: f32[]@cuda:0, %t: {t}@cuda:0) {{
  %y = extern_kernel aten.mul.Tensor(%x, %s) @cuda:0 : f32[4]@cuda:0
{line}  return %y{more}
}}
"""


@pytest.mark.parametrize(
    ("t", "line", "more", "may_be"),
    [
        ("f32[]", "", "", True),
        ("f32[]", "  free %t\n", "", True),
        ("f32[]", "  assert_size_stride %t () ()\n", "", True),
        ("f32[1]", "", "", False),
        ("f32[]", "", ", %t", False),
        ("mutated f32[]", "", "", False),
        ("f32[]", "  %v = reinterpret %t as f32[1]@cuda:0\n  free %v\n", "", False),
    ],
)
def test_only_what_operators_take_may_be_on_the_cpu(
    t: str, line: str, more: str, may_be: bool
) -> None:
    program = parse_program(TEXT.format(t=t, line=line, more=more))
    assert verify(program) == ()
    text = str(CppEmitter().emit(program).files["program.cpp"])
    found = dict(re.findall(r'\{"(\w)", WRAPPERIR_TENSOR, .*, (true|false)\},', text))
    assert found == {"x": "false", "s": "true", "t": str(may_be).lower()}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("frontend", ["inductor", "lowering"])
def test_attention_trains_in_f32(frontend: str) -> None:
    """Its memory-efficient kernel returns a seed on the CPU, for its backward."""

    def loss(x: torch.Tensor) -> torch.Tensor:
        found = torch.nn.functional.scaled_dot_product_attention(x, x, x)
        return found.square().sum()

    torch.manual_seed(0)
    made = torch.randn(2, 4, 16, 32, device="cuda", requires_grad=True)
    compiled = torch.compile(
        loss, backend="wrapperir", options={"emitter": "cpp", "frontend": frontend}
    )
    (found,) = torch.autograd.grad(compiled(made), made)
    (wanted,) = torch.autograd.grad(loss(made), made)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
