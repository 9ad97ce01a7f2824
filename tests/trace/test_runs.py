"""Traces: which values are observed, how often, and as what."""

import pytest
import torch

from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import Emitter
from wrapperir.text import parse_program
from wrapperir.trace import (
    Agreement,
    PointRole,
    RunSide,
    diff_runs,
    points_of,
    summarize,
    trace_program,
)
from wrapperir.trace.observation import with_observations
from wrapperir.verify import verify
from wrapperir_fx.emitter import FxEmitter
from wrapperir_python.emitter import PythonEmitter

LOOP = """\
wrapperir 1

program @main(%x: f32[s0], %n: i64[]) {
  symbol s0: int 2..9 = size(%x, 0)

  symbol_definition u0: int 0..5 = item(%n)
  %buf = allocate f32[s0 * 2]
  %v = reinterpret %buf as f32[s0]
  %w = reinterpret %buf as f32[s0; offset s0]
  extern_kernel aten.sin.out(%x, out = %v) writes(%v)
  extern_kernel aten.cos.out(%x, out = %w) writes(%w)
  %z = extern_kernel aten.nonzero.default(%x) : i64[u1, 1]
  symbol_definition u1: int 0.. = size(%z, 0)
  free %z
  free %v
  free %w
  %r, %count = while_loop (%buf, 0) () : f32[s0 * 2], i64 {
    condition (%a: f32[s0 * 2], %i: i64) {
      symbol_definition k: int = value(%i)
      return k < u0
    }
    body (%a1: f32[s0 * 2], %i1: i64) {
      symbol_definition k1: int = value(%i1)
      %c = extern_kernel aten.mul.Tensor(%a1, 2.0) : f32[s0 * 2]
      return %c, k1 + 1
    }
  }
  free %buf
  %view = reinterpret %r as f32[s0; offset s0]
  free %r
  return %view
}
"""
INPUTS = [torch.tensor([1.0, 2.0, 0.0]), torch.tensor(2)]


@pytest.mark.parametrize("emitter", [None, PythonEmitter(), FxEmitter()])
def test_lines_of_a_loop_are_observed_each_time(emitter: Emitter | None) -> None:
    trace = trace_program(parse_program(LOOP), INPUTS, {}, emitter=emitter)
    assert trace.failure is None
    seen = [(event.point.name, event.occurrence) for event in trace.events]
    assert sorted(seen) == sorted(
        [
            ("s0", 0),
            ("u0", 0),
            ("v", 0),
            ("buf", 0),
            ("w", 0),
            ("buf", 0),
            ("z", 0),
            ("u1", 0),
            *[("k", time) for time in range(3)],
            *[("k1", time) for time in range(2)],
            *[("c", time) for time in range(2)],
            ("r", 0),
            ("view", 0),
        ]
    )
    last = {event.point.name: event.summary for event in trace.events}
    assert (last["u0"].number, last["u1"].number) == (2, 2)
    expected = torch.cat([INPUTS[0].sin(), INPUTS[0].cos()]) * 4
    assert last["r"] == summarize(expected)
    assert last["view"] == summarize(trace.outputs[0])


def test_the_interpreter_tells_what_is_not_written() -> None:
    events = trace_program(parse_program(LOOP), INPUTS, {}).events
    partly = [event for event in events if event.point.name == "buf"]
    assert [event.summary.unwritten for event in partly] == [3, 0]
    assert {event.point.role for event in partly} == {PointRole.STORAGE}
    assert str(partly[0].summary).endswith("3 not written")


def test_a_program_with_observations_is_valid_and_keeps_its_outputs() -> None:
    program = parse_program(LOOP)
    observed = with_observations(program, points_of(program))
    # The verifier finds the reads of what is not written yet, and nothing else.
    assert {each.code.value for each in verify(observed)} <= {"WIR216"}
    assert observed.outputs == program.outputs


def test_inputs_and_constants_stay_as_they_are() -> None:
    program = parse_program("""\
wrapperir 1

program @main(%x: mutated f32[2]) {
  constant %w: mutated f32[2] = "w"

  extern_kernel aten.add_.Tensor(%x, 1) writes(%x)
  extern_kernel aten.add_.Tensor(%w, 1) writes(%w)
  return
}
""")
    x, w = torch.zeros(2), torch.zeros(2)
    for emitter in (None, PythonEmitter()):
        trace = trace_program(program, [x], {"w": w}, emitter=emitter)
        means = [event.summary.mean for event in trace.events]
        assert means == [1.0, 1.0]
    assert not x.any()
    assert not w.any()


def test_a_fault_ends_the_trace() -> None:
    program = parse_program("""\
wrapperir 1

program @main(%x: f32[2]) {
  %a = extern_kernel aten.exp.default(%x) : f32[2]
  assert_scalar 0 "no"
  %b = extern_kernel aten.sin.default(%a) : f32[2]
  free %a
  return %b
}
""")
    for emitter in (None, PythonEmitter()):
        trace = trace_program(program, [torch.ones(2)], {}, emitter=emitter)
        assert [event.point.name for event in trace.events] == ["a"]
        assert trace.failure is not None
        assert isinstance(trace.failure, DiagnosticError) == (emitter is None)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            torch.tensor([1.0, torch.nan, torch.inf]),
            "float32[3] min 1, max 1, mean 1, 1 NaN, 1 inf",
        ),
        (torch.empty(0, 3), "float32[0, 3] no elements"),
        (torch.tensor(True), "bool[] True"),
        (torch.tensor([3 + 4j, 0j]), "complex64[2] min 0, max 5, mean 2.5"),
        (7, "7"),
        (None, "None"),
    ],
)
def test_a_summary_is_a_line(value: object, text: str) -> None:
    assert str(summarize(value)) == text


def test_a_digest_follows_from_the_elements() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    digest = summarize(x).digest
    assert summarize(x.t().contiguous().t()).digest == digest
    assert summarize(x + 1).digest != digest
    assert summarize(-x + 0.0).digest != summarize(x.neg()).digest  # of a negative zero


CHOICES = """\
wrapperir 1

kernel_definition @scaled cpp(x: read f32*, ws: write f32*, y: write f32*) {
  entry = scaled
  source {
    | extern "C" void scaled(const float* x, float* ws, float* y) {
    |   for (int i = 0; i < 4; ++i) { ws[i] = 2 * x[i]; y[i] = ws[i]; }
    | }
  }
}

multi_kernel @either(x: read f32*, ws: write f32*, y: write f32*, other: write f32*) {
  choice @scaled(0, 1, 2) workspace(ws, 4, uninitialized)
  choice @scaled(0, 3, 2) workspace(other, 4, uninitialized)
  select forced(1)
}

program @main(%x: f32[4]) {
  %ws = allocate f32[4] workspace(uninitialized)
  %other = allocate f32[4] workspace(uninitialized)
  %y = allocate f32[4]
  kernel_call @either(%x, %ws, %y, %other)
  free %ws
  free %other
  return %y
}
"""


def test_workspaces_of_choices_are_not_observed() -> None:
    """Runs that choose differently write different ones."""
    program = parse_program(CHOICES)
    assert verify(program) == ()
    assert [point.name for point in points_of(program)] == ["y"]
    other = parse_program(CHOICES.replace("forced(1)", "forced(0)"))
    inputs = [torch.ones(4)]
    found = diff_runs(RunSide("second", program), RunSide("first", other), inputs, {})
    assert isinstance(found, Agreement)
