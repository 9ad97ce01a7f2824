"""Models whose parameters Inductor freezes."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._inductor import config

from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit.constants import write_with_constants
from wrapperir.emit.contract import Artifact
from wrapperir.frontend.inductor import capture
from wrapperir.text import parse_program
from wrapperir_cpp.emitter import CppEmitter

onednn: Any = torch.backends.mkldnn


@pytest.mark.skipif(not onednn.is_available(), reason="this PyTorch has no oneDNN")
def test_constants_in_the_layout_of_onednn_are_captured() -> None:
    """They have no storage that Python can copy."""
    torch._dynamo.reset()
    model = nn.Conv2d(3, 4, 3).eval()
    with config.patch(freezing=True), torch.no_grad():
        (lowered,) = capture(model, (torch.randn(2, 3, 8, 8),))
    assert any(constant.is_mkldnn for constant in lowered.constants.values())


@pytest.mark.skipif(not onednn.is_available(), reason="this PyTorch has no oneDNN")
def test_cpp_takes_constants_in_the_layout_of_onednn() -> None:
    torch._dynamo.reset()
    x, model = torch.randn(2, 3, 8, 8), nn.Conv2d(3, 4, 3).eval()
    with config.patch(freezing=True), torch.no_grad():
        (lowered,) = capture(model, (x,))
        artifact = CppEmitter().emit(lowered.program)
        run = CppEmitter().load(artifact, lowered.constants)
        torch.testing.assert_close(run([x])[0], model(x))
        strided = {key: value.to_dense() for key, value in lowered.constants.items()}
        with pytest.raises(DiagnosticError, match="needs a tensor _mkldnn, not strided"):
            CppEmitter().load(artifact, strided)


def test_kernels_cannot_read_what_onednn_laid_out() -> None:
    program = parse_program("""
        wrapperir 1
        kernel_definition @k cpp(p: read f32*, q: write f32*) {
          entry = kernel
          source {
            | extern "C" void kernel(const float* p, float* q) { *q = *p; }
          }
        }
        program @main() {
          constant %w: f32[4] {layout = torch.mkldnn} = "w"
          %r = allocate f32[4]
          kernel_call @k(%w, %r)
          return %r
        }
    """)
    with pytest.raises(DiagnosticError, match="only oneDNN's operators can use %w"):
        CppEmitter().emit(program)


@pytest.mark.skipif(not onednn.is_available(), reason="this PyTorch has no oneDNN")
def test_files_do_not_have_what_onednn_laid_out(tmp_path: Path) -> None:
    program = parse_program("""
        wrapperir 1
        program @main() {
          constant %w: f32[4, 4] {layout = torch.mkldnn} = "w"
          return %w
        }
    """)
    constants = {"w": torch.randn(4, 4).to_mkldnn()}
    with pytest.raises(DiagnosticError, match="which no file can have"):
        write_with_constants(program, Artifact("python", {}, ""), constants, tmp_path)
