"""Capture of graph regions: what it keeps, what is in a region and what is outside."""

import itertools
import math

import pytest
from hypothesis import given, settings

from bench.sweep.kernel_origins import OriginCount, count_origins
from tests.draws import draws
from tests.passes.captured_regions import body_of, captured, cuda, mm, regions
from wrapperir.analysis import storage_bytes
from wrapperir.emit.graph_report import format_capture
from wrapperir.ir import (
    BodyLine,
    BufferRef,
    GraphRegionLine,
    Language,
    Program,
    Provenance,
    Stream,
    TensorType,
)
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.line_effects import LineEffects
from wrapperir.passes import Captured, capture_graphs, capture_regions
from wrapperir.passes.capture_reasons import Reason
from wrapperir.passes.replay_cost import count_calls
from wrapperir.pipelines import run_passes
from wrapperir.report import explain
from wrapperir.testing.pass_check import behaviour
from wrapperir.testing.programs import programs
from wrapperir.text import format_program, format_with_positions, parse_program
from wrapperir.verify import verify

EXAMPLES = settings(max_examples=draws(100, fuzz=300))


def check(program: Program) -> None:
    """Capture a program; it stays valid and means the same, and regions are maximal."""
    found = captured(program)
    shown = f"{format_program(program)}\n{format_program(found.program)}"
    before = behaviour(program)
    assert not before.faults
    after = behaviour(found.program, before.symbols)
    assert not after.faults, (after.faults, shown)
    assert len(after.values) == len(before.values)
    for old, new in zip(before.values, after.values, strict=True):
        assert repr(old) == repr(new), shown
    assert captured(found.program).program == found.program
    given = set(map(id, program.lines))
    for region in regions(found.program):
        assert id(region) in given or origins_of(region) == {
            name for line in walk_lines(region.body.lines) for name in origins_of(line)
        }
    check_report(program, found, shown)
    # The memory of operands may be allocated earlier and freed later.
    kept = [
        sum(operand_bytes(region, operand) for operand in region.operands)
        for region in regions(found.program)
    ]
    assert after.peaks[0] <= before.peaks[0] + sum(kept), shown


def origins_of(line: BodyLine) -> set[str]:
    return set() if line.provenance is None else {*line.provenance.origins}


def check_report(program: Program, found: Captured, shown: str) -> None:
    report = found.report
    made = [r for r in report.regions if program.lines[r.first] is not r.line]
    inside = {
        index
        for region in made
        for index in range(region.first, region.last + 1)
        if index not in report.outside and calls_of(program.lines[index])
    }
    calls = sum(calls_of(program.lines[index]) for index in inside)
    assert calls == sum(count_calls(region.line) for region in made)
    for index, line in enumerate(program.lines):
        if calls_of(line) and not isinstance(line, GraphRegionLine):
            assert (index in inside) != (index in report.outside), shown
    for first, second in itertools.pairwise(made):
        between = range(first.last + 1, second.first)
        ends = (
            i in report.outside or isinstance(program.lines[i], GraphRegionLine)
            for i in between
        )
        assert any(ends) or streams(first.line) != streams(second.line), shown
    assert format_capture(report).count("\n  line ") == len(report.outside)


def calls_of(line: BodyLine) -> int:
    """Return the most calls that a line makes, those in nested blocks included."""
    effects = LineEffects(None).visit(line)
    inner = (sum(map(calls_of, nested.block.lines)) for nested in effects.blocks)
    return max(inner, default=int(effects.launches))


def streams(line: GraphRegionLine) -> Stream:
    return Stream(line.device, line.stream)


def operand_bytes(region: GraphRegionLine, operand: object) -> int:
    assert isinstance(operand, BufferRef)
    parameter = region.body.parameters[region.operands.index(operand)]
    if not isinstance(parameter.type, TensorType):
        return 0
    size = storage_bytes(parameter.type)
    return -(-size // 64) * 64 if isinstance(size, int) else 10**6


@EXAMPLES
@given(programs(languages=()))
def test_generated_programs(program: Program) -> None:
    check(program)


@pytest.mark.slow
@EXAMPLES
@given(programs(languages=(), pools=False, max_steps=30))
def test_long_programs(program: Program) -> None:
    check(program)


@settings(max_examples=draws(6, fuzz=12))
@given(programs(languages=(Language.CPP,), max_steps=8))
def test_with_kernels(program: Program) -> None:
    check(program)


def test_a_region_has_the_origins_of_its_lines_and_the_pass() -> None:
    program = cuda(
        f"""\
  %a = allocate f32[8, 8]@cuda from(mm)
{mm("%x", "%a")} from(mm)
  %b = allocate f32[8, 8]@cuda from(mm_1)
{mm("%a", "%b")} from(mm_1)
  free %a
  free %x""",
        outputs="%b",
        origins='  mm, mm_1: aten.mm.default in "layers.0"',
    )
    found = run_passes(program, "capture_graphs")
    assert verify(found) == ()
    (region,) = regions(found)
    assert region.provenance == Provenance(
        origins=("mm", "mm_1"), passes=("capture_graphs",)
    )
    assert count_origins(found) == OriginCount(calls=3, unnamed=0, placeless=3)
    assert count_origins(capture_graphs(program)).unnamed == 0
    _, positions = format_with_positions(found)
    explained = explain(found, positions, "mm_1")
    heads = [(x.nodes, x.others) for x in explained.lines if "graph_region" in x.text]
    assert heads == [(("mm_1",), ())]


def test_work_that_does_not_depend_on_a_region_moves_before_it() -> None:
    program = cuda(
        f"""\
  %a = allocate f32[8, 8]@cuda
{mm("%x", "%a")}
  %s = allocate f32[8, 8]@cuda
  extern_kernel aten.rand.out([8, 8], out = %s) writes(%s) @cuda
  %h = extern_kernel aten.neg.default(%c) : f32[1]
  free %c
  symbol_definition n: float = item(%h)
  free %h
  %b = allocate f32[8, 8]@cuda
  extern_kernel aten.add.out(%a, %s, out = %b) writes(%b) @cuda
  free %a
  free %s
{mm("%b", "%x")}
  free %b""",
        outputs="n, %x",
        entry="%x: mutated f32[8, 8]@cuda, %c: f32[1]",
    )
    found = capture_regions(program)
    assert verify(found.program) == ()
    assert (
        body_of(found.program)
        == """\
  %s = allocate f32[8, 8]@cuda
  extern_kernel aten.rand.out([8, 8], out = %s) writes(%s) @cuda
  %h = extern_kernel aten.neg.default(%c) : f32[1]
  free %c
  symbol_definition n: float = item(%h)
  free %h
  graph_region @graph0 (%x, %s) @cuda {
    body (%x_0: f32[8, 8]@cuda, %s_0: f32[8, 8]@cuda) {
      %a = allocate f32[8, 8]@cuda
      extern_kernel aten.mm.out(%x_0, %x_0, out = %a) writes(%a) @cuda
      %b = allocate f32[8, 8]@cuda
      extern_kernel aten.add.out(%a, %s_0, out = %b) writes(%b) @cuda
      free %a
      extern_kernel aten.mm.out(%b, %b, out = %x_0) writes(%x_0) @cuda
      free %b
      return
    }
  }
  free %s
  return n, %x
"""
    )
    assert (
        format_capture(found.report)
        == """\
@main: 1 graph region with 3 calls; replay saves about 18 µs of host time
  @graph0, lines 2 to 13, on cuda: 3 calls, 2 operands, 0 copied results, 18 µs
outside: operator (1), device without graphs (1), host read (1)
  line 4, operator: it draws random numbers; moved before the region
    extern_kernel aten.rand.out([8, 8], out = %s) writes(%s) @cuda
  line 5, device without graphs: there are no graphs for cpu; moved before the region
    %h = extern_kernel aten.neg.default(%c) : f32[1]
  line 7, host read: the host reads %h; moved before the region
    symbol_definition n: float = item(%h)
"""
    )


REFUSED = {
    "device without graphs": "  extern_kernel aten.copy_.default(%c, %e) writes(%c)",
    "host read": "  symbol_definition n: float = item(%e)",
    "operator": "  %r = extern_kernel aten.bernoulli.default(%a) @cuda : f32[8, 8]@cuda\n"
    "  free %r",
    "argument": "  extern_kernel aten.copy_.default(%a, %c) writes(%a) @cuda",
    "result": "  %r = extern_kernel acme.find.default(%a) @cuda : i64[u0, 2]@cuda\n"
    "  symbol_definition u0: int 0..64 = size(%r, 0)\n  free %r",
    "event": "  %r = record_event @cuda",
    "pool": "  %p = allocate_pool pool[256]@cuda\n"
    "  %r = place f32[64]@cuda in %p at 0\n  free %r\n  free %p",
    "symbol": "  symbol_definition n: int = size(%a, 0)",
    "address": "  %r = reinterpret %a as f32[8]@cuda\n  assert_alignment %r 16\n  free %r",
    "nested blocks": "  %r, %s = subgraph_call @f (%a) : f32[8, 8]@cuda, "
    "f32[8, 8]@cuda {\n    body (%q: f32[8, 8]@cuda) {\n"
    "      %o = extern_kernel aten.neg.default(%q) @cuda : f32[8, 8]@cuda\n"
    "      %p = extern_kernel aten.neg.default(%q) @cuda : f32[8, 8]@cuda\n"
    "      return %o, %p\n    }\n  }\n  free %r\n  free %s",
}
"""For each reason, lines that end a region which has written ``%a`` and ``%e``."""


@pytest.mark.parametrize("reason", REFUSED)
def test_lines_that_no_region_may_hold(reason: str) -> None:
    again = mm("%a", "%b")
    program = cuda(
        f"""\
  %a = allocate f32[8, 8]@cuda
  %e = allocate f32[1]@cuda
{mm("%x", "%a")}
  extern_kernel aten.sum.out(%a, [0, 1], out = %e) writes(%e) @cuda
  %b = allocate f32[8, 8]@cuda
{again}
{REFUSED[reason]}
{again}
{again}
  free %a
  free %e
  free %c
  free %x""",
        outputs="%b",
        entry="%x: f32[8, 8]@cuda, %c: mutated f32[1]",
    )
    found = capture_regions(program)
    assert verify(found.program) == ()
    assert [count_calls(line) for line in regions(found.program)] == [3, 2]
    reasons = {why.reason.value for why in found.report.outside.values()}
    assert reason in reasons
    assert reason in format_capture(found.report)
    assert capture_graphs(found.program) == found.program


def test_work_that_does_not_pay_is_left_out() -> None:
    program = cuda(
        f"""\
  %a = allocate f32[8, 8]@cuda
{mm("%x", "%a")}
  free %x""",
        outputs="%a",
    )
    found = capture_regions(program)
    assert found.program == program
    ((index, why),) = found.report.outside.items()
    assert (index, why.reason.value) == (1, "no gain")
    assert "0 graph regions" in format_capture(found.report)


def test_numbers_that_are_read_from_data_are_no_key() -> None:
    program = cuda(
        f"""\
  symbol_definition n: float = item(%c)
  %a = extern_kernel aten.mul.Scalar(%x, n) @cuda : f32[8, 8]@cuda
{mm("%a", "%x")}
{mm("%a", "%x")}
  free %a
  free %c""",
        outputs="%x",
        entry="%x: mutated f32[8, 8]@cuda, %c: f32[1]",
    )
    found = capture_regions(program)
    assert verify(found.program) == ()
    assert [count_calls(line) for line in regions(found.program)] == [2]
    assert "number from data: n is read from data" in format_capture(found.report)


def test_each_stream_and_device_has_regions_of_its_own() -> None:
    def calls(on: str) -> str:
        call = f"  extern_kernel aten.neg_.default(%x{on[-1]}) writes(%x{on[-1]}) {on}\n"
        return call * 3

    program = cuda(
        calls("@cuda:0") + calls("@cuda:1") + calls("@cuda:0"),
        outputs="%x0, %x1",
        entry="%x0: mutated f32[8]@cuda:0, %x1: mutated f32[8]@cuda:1",
    )
    found = capture_graphs(program)
    assert verify(found) == ()
    assert [str(line.device) for line in regions(found)] == ["cuda:0", "cuda:1", "cuda:0"]


def test_arguments_name_devices_and_operators() -> None:
    program = parse_program(
        """\
wrapperir 1

program @main(%x: f32[8]@acme) {
  %y = allocate f32[8]@acme
  extern_kernel aten.neg.out(%x, out = %y) writes(%y) @acme
  %z = allocate f32[8]@acme
  extern_kernel aten.relu.out(%y, out = %z) writes(%z) @acme
  free %x
  return %y, %z
}
"""
    )

    def held(pipeline: str) -> list[int]:
        found = run_passes(program, pipeline)
        return [count_calls(region) for region in regions(found)]

    assert held("capture_graphs(least_gain = -100.0)") == []
    assert held('capture_graphs(devices = "cuda,acme", least_gain = -100.0)') == [2]
    one = 'operators = "aten.relu.out,aten.add.out", least_gain = -100.0'
    assert held(f'capture_graphs(devices = "acme", {one})') == [1]
    assert held('capture_graphs(devices = "acme", operators = "", least_gain = -1.0)') == []
    found = capture_regions(program, None, -math.inf, frozenset())
    assert found.report.outside[1].reason is Reason.OPERATOR
    assert found.report.outside[1].detail == "acme records no calls of aten.neg.out"
