"""Programs with marks: valid, with the same memory and results, and each mark reached."""

import pytest
import torch
from hypothesis import given, settings

from wrapperir.analysis import analyze_memory
from wrapperir.emit import Emitter, emit_program
from wrapperir.emit.pipeline import load_artifact
from wrapperir.ir import Program
from wrapperir.passes import open_graph_regions
from wrapperir.profiling.marks import START_MARKS, marking, with_marks
from wrapperir.testing import behaviour, example_symbols, pass_faults, programs
from wrapperir.text import parse_program
from wrapperir.verify import verify
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_fx.emitter import FxEmitter
from wrapperir_python.emitter import PythonEmitter

LOOP = """\
wrapperir 1

program @main(%x: f32[s0], %n: i64[]) {
  symbol s0: int 2..9 = size(%x, 0)

  symbol_definition u0: int 0..5 = item(%n)
  comment "takes no time"
  %z = extern_kernel aten.nonzero.default(%x) : i64[u1, 1]
  symbol_definition u1: int 0.. = size(%z, 0)
  free %z
  %pair = extern_kernel aten.topk.default(%x, 1) : (f32[1], i64[1])
  %best = multi_output %pair[0] : f32[1]
  free %pair
  free %best
  %r, %count = while_loop (%x, 0) () : f32[s0], i64 {
    condition (%a: f32[s0], %i: i64) {
      symbol_definition k: int = value(%i)
      return k < u0
    }
    body (%a1: f32[s0], %i1: i64) {
      symbol_definition k1: int = value(%i1)
      %c = extern_kernel aten.mul.Tensor(%a1, 2.0) : f32[s0]
      return %c, k1 + 1
    }
  }
  return %r
}
"""


@settings(max_examples=30)
@given(programs())
def test_marks_change_neither_validity_nor_memory_nor_results(program: Program) -> None:
    program = open_graph_regions(program)
    marked = with_marks(program).program
    assert verify(marked) == ()
    symbols = example_symbols(program)
    assert analyze_memory(marked, symbols).peak == analyze_memory(program, symbols).peak
    assert pass_faults(behaviour(program), behaviour(marked)) == ()


@pytest.mark.parametrize(
    "emitter", [PythonEmitter(), FxEmitter(), CppEmitter()], ids=lambda each: each.name
)
def test_marks_are_reached_in_order_each_time(emitter: Emitter) -> None:
    marked = with_marks(parse_program(LOOP))
    call = load_artifact(marked.program, emit_program(marked.program, emitter), emitter, {})
    seen: list[tuple[object, object]] = []
    with marking(lambda number, value: seen.append((marked.marks[number].path, value))):
        (result,) = call([torch.tensor([1.0, 0.0, 2.0]), torch.tensor(2)])
    assert isinstance(result, torch.Tensor)
    assert result.tolist() == [4.0, 0.0, 8.0]
    loop = ("lines", 9)
    condition, body = (*loop, "condition"), (*loop, "body")
    turn = [(loop, None), ((*condition, "lines", 0), None)]
    again = [
        (loop, None),
        ((*body, "lines", 0), None),
        ((*body, "lines", 1), None),
    ]
    assert [path for path, _ in seen] == [
        *[None] * (START_MARKS + 1),
        *[("lines", n) for n in (0, 2, 3, 4, 5, 7, 8)],
        *[path for path, _ in [*turn, *again, *turn, *again, *turn]],
        loop,
    ]
    assert [value for _, value in seen if value is not None] == [3, 2, 2, 0, 0, 1, 1, 2]
