"""The pass ``delay_frees``: no memory is given away while a stream uses it."""

from importlib import import_module
from random import Random

import pytest
import torch
from hypothesis import Phase, find, given, settings

from stream_programs import stream_programs
from unsafe_frees import unsafe_frees
from wrapperir import run_passes
from wrapperir.frontend.inductor import capture
from wrapperir.ir import Program
from wrapperir.testing import programs
from wrapperir.testing.generator import BOOLEANS
from wrapperir.testing.inputs import difference
from wrapperir.testing.pass_check import behaviour
from wrapperir.testing.stream_assignment import assign_streams
from wrapperir.text import format_program, parse_program
from wrapperir.verify import verify
from wrapperir_memory_passes import delay_frees

MODULE = import_module("wrapperir_memory_passes.delay_frees")


def faults(before: Program) -> list[object]:
    """Return what is wrong with the result of the pass."""
    old = behaviour(before)
    after = delay_frees(before)
    new = behaviour(after, old.symbols)
    if new.faults:
        return [*new.faults]
    values = zip(old.values, new.values, strict=True)
    wrong = [found for a, b in values if (found := difference(b, a)) is not None]
    return [*wrong, *unsafe_frees(after, old.symbols)]


@settings(max_examples=60, deadline=None)
@given(stream_programs())
def test_programs_with_streams(program: Program) -> None:
    assert faults(program) == []
    after = delay_frees(program)
    assert delay_frees(after) == after


@settings(max_examples=25, deadline=None)
@given(programs(languages=()))
def test_programs_of_every_line_kind(program: Program) -> None:
    assert faults(program) == []


def test_a_free_that_does_not_wait_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "_homes", lambda *_: ())
    find(
        stream_programs(),
        lambda program: bool(faults(program)),
        settings=settings(max_examples=500, deadline=None, phases=[Phase.generate]),
    )


TWO_STREAMS = """\
wrapperir 1

program @main(%x: f32[4, 4]) {
  %a = extern_kernel aten.neg.default(%x) : f32[4, 4]
  %ready = record_event
  wait_event %ready stream(1)
  %side = extern_kernel aten.exp.default(%a) stream(1) : f32[4, 4]
  free %a
  %b = extern_kernel aten.sin.default(%x) : f32[4, 4]
  free %x
  %done = record_event stream(1)
  wait_event %done
  %y = extern_kernel aten.add.Tensor(%b, %side) : f32[4, 4]
  free %b
  free %side
  return %y
}
"""


def test_a_free_moves_behind_the_work_before_the_wait() -> None:
    program = parse_program(TWO_STREAMS)
    moved = "  %b = extern_kernel aten.sin.default(%x) : f32[4, 4]\n"
    wanted = TWO_STREAMS.replace("  free %a\n", "").replace(moved, f"{moved}  free %a\n")
    assert format_program(delay_frees(program)) == wanted


IN_A_REGION = """\
wrapperir 1

program @main(%x: f32[4, 4]) {
  %y = graph_region @region (%x) stream(1) : f32[4, 4] {
    body (%p: f32[4, 4]) {
      %a = extern_kernel aten.neg.default(%p) stream(1) : f32[4, 4]
      %ready = record_event stream(1)
      wait_event %ready stream(2)
      %side = extern_kernel aten.exp.default(%a) stream(2) : f32[4, 4]
      free %a
      %b = extern_kernel aten.sin.default(%p) stream(1) : f32[4, 4]
      %done = record_event stream(2)
      wait_event %done stream(1)
      %z = extern_kernel aten.add.Tensor(%b, %side) stream(1) : f32[4, 4]
      free %b
      free %side
      return %z
    }
  }
  free %x
  return %y
}
"""


def test_a_free_moves_within_a_graph_region() -> None:
    program = parse_program(IN_A_REGION)
    assert verify(program) == ()
    assert unsafe_frees(program, {}) != set()
    moved = "      %b = extern_kernel aten.sin.default(%p) stream(1) : f32[4, 4]\n"
    wanted = IN_A_REGION.replace("      free %a\n", "").replace(
        moved, f"{moved}      free %a\n"
    )
    assert format_program(delay_frees(program)) == wanted
    assert faults(program) == []


def test_a_program_on_one_stream_stays_as_it_is() -> None:
    lines = TWO_STREAMS.splitlines(keepends=True)
    one = "".join(line for line in lines if "event" not in line).replace(" stream(1)", "")
    program = parse_program(one)
    assert delay_frees(program) == program


IN_A_POOL = """\
wrapperir 1

program @main(%x: f32[4, 4]) {
  %pool = allocate_pool pool[64]
  %p = place f32[4, 4] in %pool at 0
  extern_kernel aten.neg.out(%x, out = %p) writes(%p)
  %c = extern_kernel aten.contiguous.default(%p) aliases(%p) : f32[4, 4]
  free %p
  %ready = record_event
  wait_event %ready stream(1)
  %side = extern_kernel aten.exp.default(%c) stream(1) : f32[4, 4]
  free %c
  %q = place f32[4, 4] in %pool at 0
  free %pool
  %other = extern_kernel aten.neg.default(%x) : f32[4, 4]
  free %x
  %done = record_event stream(1)
  wait_event %done
  extern_kernel aten.mul.out(%side, %other, out = %q) writes(%q)
  free %side
  free %other
  %y = extern_kernel aten.neg.default(%q) : f32[4, 4]
  free %q
  return %y
}
"""


def test_a_buffer_in_a_pool_ends_where_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    program = parse_program(IN_A_POOL)
    wait = "  %event0 = record_event stream(1)\n  wait_event %event0\n"
    wanted = IN_A_POOL.replace("  free %c\n", f"{wait}  free %c\n")
    assert format_program(delay_frees(program)) == wanted
    assert faults(program) == []
    monkeypatch.setattr(MODULE, "_is_in_living_pool", lambda *_: False)
    refused, fault = map(str, faults(program))  # %q overlaps
    assert "WIR213" in refused
    assert "WIR839" in fault


def heads(x: torch.Tensor) -> torch.Tensor:
    rows = [torch.softmax(x @ x.T / scale, 1) @ x for scale in (1, 2, 4)]
    return torch.layer_norm(rows[0] @ rows[1].T @ rows[2], (32,))


@pytest.fixture(scope="module")
def captured() -> Program:
    (lowered,) = capture(heads, (torch.rand(16, 32),))
    return run_passes(lowered.program, ["insert_frees", "free_early", "use_out_variants"])


def test_a_captured_function(captured: Program) -> None:
    changed = 0
    for seed in range(4):
        rng = Random(seed)  # noqa: S311 - repeatable
        program = assign_streams(lambda s: s is BOOLEANS or rng.randrange(3), captured)  # noqa: B023
        assert faults(program) == []
        changed += delay_frees(program) != program
    assert changed >= 2
