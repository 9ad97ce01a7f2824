"""A program with origins in a source file, to view."""

from pathlib import Path

SOURCE = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x, w):
        y = x @ w
        return scale(torch.relu(y))


def scale(x):
    return x * 2
"""

PROGRAM = """\
wrapperir 1

kernel_definition @fused cpp(in0: read f32*, out0: write f32*) {
  entry = fused
  source {
    | extern "C" void fused(const float* p0, float* p1) {
    |   for (int i = 0; i < 64; ++i) p1[i] = (p0[i] > 0 ? p0[i] : 0) * 2;
    | }
  }
}

program @main(%x: f32[8, 8], %w: f32[8, 8] from "layer.weight") {
  %y = extern_kernel aten.mm.default(%x, %w) : f32[8, 8] from(mm)
  free %x by(insert_frees)
  free %w by(insert_frees)
  %z = allocate f32[8, 8] from(relu, mul)
  kernel_call @fused(%y, %z) from(relu, mul)
  free %y
  return %z
}

origins {
  place 0: "FILE" 6 "forward"
  place 1: "FILE" 7 "forward"
  place 2: "FILE" 11 "scale" from 1
  mm: aten.mm.default in "layer" at 0
  relu: aten.relu.default in "layer" at 1
  mul: aten.mul.Tensor in "layer" at 2
}
"""


def write_model(folder: Path) -> str:
    """Write the source file, and return the text of the program that came from it."""
    file = folder / "model.py"
    file.write_text(SOURCE)
    return PROGRAM.replace("FILE", str(file))


PAIR = """\
wrapperir 1

program @main(%x: f32[256]) {
  %p = extern_kernel aten.aminmax.default(%x) : (f32[256], f32[128]) from(minmax)
  %a = multi_output %p[0] : f32[256]
  %b = multi_output %p[1] : f32[128]
  free %p
  return %a, %b
}

origins {
  place 0: "model.py" 7 "forward"
  minmax: aten.aminmax.default at 0
}
"""
"""A call of several results."""
