"""Programs in C over a driver: memory, errors, and what the loader keeps."""

import gc
from pathlib import Path

import pytest
import torch
from attrs import evolve

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import Support, compile_program
from wrapperir.emit.c.emitter import CEmitter
from wrapperir.emit.c.lines import COPY, CLines
from wrapperir.emit.partial_lines import declared_lines
from wrapperir.ir import Language, MultiKernelLine
from wrapperir.plugin.templates.write import render_plugin
from wrapperir.text import parse_program


def emitter_over(header: str, folder: Path, device: str = "cpu") -> CEmitter:
    """Return an emitter without kernels over the driver of new plugins, and a header."""
    text = render_plugin("tiny", "c")["wrapperir_tiny/tiny.h"]
    path = folder / "tiny.h"
    path.write_text(text if device == "cpu" else text.replace("IS_HOST 1", "IS_HOST 0"))
    path.write_text(path.read_text().replace("{ return r != NULL; }", header))

    class Lines(CLines):
        pass

    Lines.driver, Lines.device = path, device

    class TinyEmitter(CEmitter):
        name = "tiny"
        lines = Lines
        support = Support(
            lines=declared_lines(Lines),
            languages=frozenset(),
            devices=frozenset({"cpu", "tiny"}),
            operators=frozenset({COPY}),
            hosted=frozenset({"tiny"}),
        )

    return TinyEmitter()


OPENS = "{ return r != NULL; }"
BOTH = """\
wrapperir 1

program @main(%x: f32[6], %first: bool) {
  constant %c: f32[6] = "c"
  symbol b0: bool = value(%first)
  %here = allocate f32[6]@AT
  extern_kernel aten.copy_.default(%here, %x) writes(%here)@PLACE
  %a, %b = conditional b0 (%here) : f32[6]@AT, f32[2; offset 4]@AT {
    true(%p: f32[6]@AT) {
      %q = allocate f32[6]@AT
      extern_kernel aten.copy_.default(%q, %p) writes(%q)@PLACE
      %v = reinterpret %q as f32[2; offset 4]@AT
      return %q, %v
    }
    false(%t: f32[6]@AT) {
      %u = allocate f32[6]@AT
      extern_kernel aten.copy_.default(%u, %c) writes(%u)@PLACE
      %w = allocate f32[2; offset 4]@AT workspace(zero_on_call)
      return %u, %w
    }
  }
  free %here
  %view = reinterpret %a as f32[2, 2; stride 1, 2; offset 1]@AT
  return %view, %b, %a
}
"""


@pytest.mark.parametrize("device", ["cpu", "tiny"])
def test_results_of_blocks_may_share_memory(device: str, tmp_path: Path) -> None:
    emitter = emitter_over(OPENS, tmp_path, device)
    text = BOTH.replace("@AT", "" if device == "cpu" else "@tiny:0")
    text = text.replace("@PLACE", "" if device == "cpu" else " @tiny:0")
    program = parse_program(text)
    c = torch.arange(10.0, 16.0)
    gc.collect()
    before = emitter.live_bytes("tiny")  # programs of other tests may be alive
    call = compile_program(program, emitter=emitter, constants={"c": c})
    x = torch.arange(6.0)
    for first, memory, b in ((True, x, x[4:]), (False, c, torch.zeros(2))):
        view, other, a = call([x, first])
        assert isinstance(view, torch.Tensor)
        assert isinstance(a, torch.Tensor)
        assert isinstance(other, torch.Tensor)
        assert torch.equal(a, memory)
        assert torch.equal(other, b)
        assert torch.equal(view, memory[1:5].view(2, 2).t())
        assert view.data_ptr() == a.data_ptr() + 4
        assert (other.data_ptr() == a.data_ptr() + 16) is first
    assert emitter.live_bytes("tiny") == before
    assert (before is None) == (device == "cpu")
    del call
    gc.collect()  # outputs outlive the program
    assert torch.equal(a, c)  # type: ignore[arg-type]


def test_a_driver_that_does_not_open_is_reported(tmp_path: Path) -> None:
    emitter = emitter_over('{ return wir_fail(r, "no %s", "device"); }', tmp_path)
    with pytest.raises(DiagnosticError, match="no device") as caught:
        compile_program(
            parse_program("wrapperir 1\n\nprogram @main() {\n  return\n}\n"),
            emitter=emitter,
        )
    assert caught.value.diagnostics[0].code is Code.KERNEL_BUILD_FAILED


def test_a_constant_that_is_missing_is_reported(tmp_path: Path) -> None:
    text = BOTH.replace("@AT", "").replace("@PLACE", "")
    with pytest.raises(DiagnosticError, match="'c'") as caught:
        compile_program(parse_program(text), emitter=emitter_over(OPENS, tmp_path))
    assert caught.value.diagnostics[0].code is Code.MISSING_CONSTANT


def test_memory_that_is_not_there_is_an_error_of_the_program(tmp_path: Path) -> None:
    text = """\
wrapperir 1

program @main(%n: i64) {
  symbol s0: int 0..1152921504606846976 = value(%n)
  %a = allocate f32[s0]
  free %a
  return s0 * 16
}
"""
    call = compile_program(parse_program(text), emitter=emitter_over(OPENS, tmp_path))
    assert call([5]) == (80,)
    with pytest.raises(RuntimeError, match="there is no memory"):
        call([2**59])
    with pytest.raises(RuntimeError, match="Expected s0 >= 0 and s0 <= "):
        call([-1])
    assert call([2]) == (32,)


CHOSEN = """\
wrapperir 1

kernel_definition @one cpp(x: write f32*) {
  entry = one
  source {
    | extern "C" void one(float *x) { *x = 1; }
  }
}

multi_kernel @either(x: write f32*) {
  choice @one(0)
  choice @one(0)
  select benchmark
}

program @main() {
  %out = allocate f32[1]
  kernel_call @either(%out)
  return %out
}
"""


def test_a_choice_that_lines_do_not_make_is_refused(tmp_path: Path) -> None:
    emitter = emitter_over(OPENS, tmp_path)
    support = type(emitter).support
    type(emitter).support = evolve(
        support,
        lines=support.lines | {MultiKernelLine},
        languages=frozenset({Language.CPP}),
        choosing=True,
    )
    type(emitter).lines.emit_kernel = lambda *_: None  # type: ignore[method-assign]
    type(emitter).lines.visit_multi_kernel = lambda *_: None  # type: ignore[method-assign]
    with pytest.raises(
        DiagnosticError, match="kernels that are chosen in a call"
    ) as caught:
        emitter.emit(parse_program(CHOSEN))
    assert caught.value.diagnostics[0].code is Code.UNSUPPORTED_FEATURE
