"""Capture of graph regions: what is in a region, what is around it, and what is outside."""

import itertools
import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings

from bench.sweep.kernel_origins import OriginCount, count_origins
from tests.draws import draws
from wrapperir.analysis import storage_bytes
from wrapperir.emit.graph_report import format_capture
from wrapperir.ir import (
    BodyLine,
    BufferRef,
    CollectiveLine,
    ConditionalLine,
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
from wrapperir.passes.replay_cost import count_calls, replay_gain
from wrapperir.pipelines import run_passes
from wrapperir.report import explain
from wrapperir.testing.pass_check import behaviour
from wrapperir.testing.programs import programs
from wrapperir.testing.rank_check import rank_behaviour, rank_pass_faults
from wrapperir.testing.rank_programs import rank_programs
from wrapperir.text import format_program, format_with_positions, parse_program
from wrapperir.verify import verify

EXAMPLES = settings(max_examples=draws(100, fuzz=300))


def captured(program: Program) -> Captured:
    """Capture on any device, whatever a replay costs."""
    return capture_regions(program, None, -math.inf, collectives=True)


def regions(program: Program) -> list[GraphRegionLine]:
    return [line for line in program.lines if isinstance(line, GraphRegionLine)]


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


@EXAMPLES
@given(programs(languages=(), pools=False, max_steps=30))
def test_long_programs(program: Program) -> None:
    check(program)


@settings(max_examples=draws(6, fuzz=12))
@given(programs(languages=(Language.CPP,), max_steps=8))
def test_with_kernels(program: Program) -> None:
    check(program)


@EXAMPLES
@given(rank_programs())
def test_programs_of_several_ranks(programs: Sequence[Program]) -> None:
    """Ranks whose collectives are in regions do what they did."""
    after = [captured(program).program for program in programs]
    assert rank_pass_faults(rank_behaviour(programs), rank_behaviour(after), math.inf) == ()


def cuda(
    lines: str,
    *,
    outputs: str = "",
    entry: str = "%x: f32[8, 8]@cuda",
    origins: str = "",
) -> Program:
    """Return a program with these lines, which is valid."""
    program = parse_program(f"""\
wrapperir 1

program @main({entry}) {{
{lines}
  return {outputs}
}}

origins {{
{origins}
}}
""")
    assert verify(program) == ()
    return program


def body_of(program: Program) -> str:
    """Return the text of a program's lines and outputs."""
    text = format_program(program)
    return text[text.index("{\n") + 2 : text.rindex("}")]


CALL = "extern_kernel aten.mm.out({0}, {0}, out = {1}) writes({1}) @cuda"


def mm(source: str, target: str) -> str:
    """Return a call that reads one tensor and writes another."""
    return f"  {CALL.format(source, target)}"


def test_a_buffer_that_outlives_a_region_is_allocated_before_it() -> None:
    program = cuda(
        f"""\
  %a = allocate f32[8, 8]@cuda
{mm("%x", "%a")}
  free %x
  %b = allocate f32[8, 8]@cuda
{mm("%a", "%b")}
  free %a
  %v = reinterpret %b as f32[64]@cuda
  free %b""",
        outputs="%v",
    )
    found = capture_graphs(program)
    assert verify(found) == ()
    assert (
        body_of(found)
        == """\
  %b = allocate f32[8, 8]@cuda
  graph_region @graph0 (%x, %b) @cuda {
    body (%x_0: f32[8, 8]@cuda, %b_0: f32[8, 8]@cuda) {
      %a = allocate f32[8, 8]@cuda
      extern_kernel aten.mm.out(%x_0, %x_0, out = %a) writes(%a) @cuda
      extern_kernel aten.mm.out(%a, %a, out = %b_0) writes(%b_0) @cuda
      free %a
      return
    }
  }
  free %x
  %v = reinterpret %b as f32[64]@cuda
  free %b
  return %v
"""
    )


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


def test_reuse_across_the_border_is_a_view_in_the_region() -> None:
    program = cuda(
        f"""\
  %a = allocate f32[8, 8]@cuda
{mm("%x", "%a")}
  %r = reuse %a as f32[8, 8]@cuda
{mm("%x", "%r")}
  %s = reuse %r as f32[64]@cuda
  free %x""",
        outputs="%s",
    )
    found = capture_graphs(program)
    assert verify(found) == ()
    assert (
        body_of(found)
        == """\
  %a = allocate f32[8, 8]@cuda
  graph_region @graph0 (%x, %a) @cuda {
    body (%x_0: f32[8, 8]@cuda, %a_0: f32[8, 8]@cuda) {
      extern_kernel aten.mm.out(%x_0, %x_0, out = %a_0) writes(%a_0) @cuda
      %r_0 = reinterpret %a_0 as f32[8, 8]@cuda
      extern_kernel aten.mm.out(%x_0, %x_0, out = %r_0) writes(%r_0) @cuda
      free %r_0
      return
    }
  }
  %r = reuse %a as f32[8, 8]@cuda
  %s = reuse %r as f32[64]@cuda
  free %x
  return %s
"""
    )


def test_what_operators_return_are_results_of_the_region() -> None:
    program = cuda(
        """\
  %t = extern_kernel aten.max.dim(%x, 0) @cuda : (f32[8]@cuda, i64[8]@cuda)
  %m = multi_output %t[0] : f32[8]@cuda
  %i = multi_output %t[1] : i64[8]@cuda
  free %t
  %n = extern_kernel aten.neg.default(%m) @cuda : f32[8]@cuda
  %v = reinterpret %n as f32[4]@cuda
  free %n
  %w = reinterpret %v as f32[2]@cuda
  %y = extern_kernel aten.abs.default(%w) @cuda : f32[2]@cuda
  free %w
  free %y
  free %m
  free %x""",
        outputs="%v, %i",
    )
    found = capture_graphs(program)
    assert verify(found) == ()
    assert (
        body_of(found)
        == """\
  %i, %n = graph_region @graph0 (%x) @cuda : i64[8]@cuda, f32[8]@cuda {
    body (%x_0: f32[8, 8]@cuda) {
      %t = extern_kernel aten.max.dim(%x_0, 0) @cuda : (f32[8]@cuda, i64[8]@cuda)
      %m = multi_output %t[0] : f32[8]@cuda
      %i_0 = multi_output %t[1] : i64[8]@cuda
      free %t
      %n_0 = extern_kernel aten.neg.default(%m) @cuda : f32[8]@cuda
      %v_0 = reinterpret %n_0 as f32[4]@cuda
      %w_0 = reinterpret %v_0 as f32[2]@cuda
      %y = extern_kernel aten.abs.default(%w_0) @cuda : f32[2]@cuda
      free %w_0
      free %y
      free %m
      free %v_0
      return %i_0, %n_0
    }
  }
  %v = reinterpret %n as f32[4]@cuda
  free %n
  free %x
  return %v, %i
"""
    )


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


BRANCH = """\
  %b = conditional {predicate} (%a) : f32[8, 8]@cuda {{
    true (%p: f32[8, 8]@cuda) {{
      {true}
      return %o
    }}
    false (%q: f32[8, 8]@cuda) {{
      %r = extern_kernel aten.neg.default(%q) @cuda : f32[8, 8]@cuda
      extern_kernel aten.relu_.default(%r) writes(%r) @cuda
      return %r
    }}
  }}"""
MADE = "%o = extern_kernel aten.neg.default(%p) @cuda : f32[8, 8]@cuda"


def branched(predicate: str, true: str = MADE, symbols: str = "") -> Captured:
    """Capture a conditional between products."""
    entry = "%x: f32[8, 8]@cuda, %n: i64, %f: f32[1]"
    branch = BRANCH.format(predicate=predicate, true=true)
    lines = f"""\
{symbols}
  %a = allocate f32[8, 8]@cuda
{mm("%x", "%a")}
{mm("%x", "%a")}
{branch}
  free %a
  %c = allocate f32[8, 8]@cuda
{mm("%x", "%b")}
{mm("%b", "%c")}
  free %b
  free %x
  free %f"""
    found = capture_regions(cuda(lines, outputs="%c", entry=entry))
    assert verify(found.program) == ()
    return found


NUMBER = "  symbol_definition n: int = value(%n)"


@pytest.mark.parametrize(
    "true",
    [
        MADE,
        "%o = allocate f32[8, 8]@cuda\n"
        "      extern_kernel aten.neg.out(%p, out = %o) writes(%o) @cuda",
        f"{MADE}\n      assert_size_stride %o (8, 8) (8, 1)",
        "%o = subgraph_call @f (%p) : f32[8, 8]@cuda {\nbody (%i: f32[8, 8]@cuda) {\n"
        "%j = extern_kernel aten.neg.default(%i) @cuda : f32[8, 8]@cuda\nreturn %j\n}\n}",
    ],
)
def test_a_branch_on_a_number_is_in_the_region(true: str) -> None:
    found = branched("n < 4", true, NUMBER)
    (region,) = regions(found.program)
    assert any(isinstance(line, ConditionalLine) for line in region.body.lines)
    assert count_calls(region) == 6  # two in the longer branch
    assert capture_graphs(found.program) == found.program
    # Of the branch, the one call with an operand that is not of the region's own.
    plain = branched("n < 4", MADE, NUMBER).report.regions[0].line
    assert replay_gain(region) == replay_gain(plain)


@pytest.mark.parametrize(
    ("predicate", "true", "symbols", "reason"),
    [
        ("m < 4.0", MADE, "  symbol_definition m: float = item(%f)", Reason.DATA),
        (
            "n < 4",
            f"%w = allocate f32[8, 8]@cuda {{space = comm}}\n      free %w\n      {MADE}",
            NUMBER,
            Reason.BLOCKS,
        ),
        (
            "n < 4",
            "symbol_definition u: int = size(%p, 0)\n      assert_scalar u > 2\n      "
            + MADE,
            NUMBER,
            Reason.SYMBOL,
        ),
        ("n < 4", f"assert_alignment %p 16\n      {MADE}", NUMBER, Reason.ADDRESS),
        ("n < 4", f"assert_not_nan %p\n      {MADE}", NUMBER, Reason.HOST_READ),
        (
            "n < 4",
            "%o = extern_kernel aten.bernoulli.default(%p) @cuda : f32[8, 8]@cuda",
            NUMBER,
            Reason.OPERATOR,
        ),
    ],
)
def test_a_branch_is_outside(
    predicate: str, true: str, symbols: str, reason: Reason
) -> None:
    found = branched(predicate, true, symbols)
    assert len(regions(found.program)) == 2
    assert not any(
        isinstance(line, ConditionalLine)
        for region in regions(found.program)
        for line in region.body.lines
    )
    assert reason in {why.reason for why in found.report.outside.values()}


def test_frees_at_the_end_of_a_program_are_in_the_region() -> None:
    program = cuda(
        f"""\
  %a = allocate f32[8, 8]@cuda
{mm("%x", "%a")}
  %b = extern_kernel aten.neg.default(%a) @cuda : f32[8, 8]@cuda
{mm("%b", "%x")}
  extern_kernel aten.copy_.default(%c, %x) writes(%c)
  free %a
  free %b""",
        outputs="%x",
        entry="%x: mutated f32[8, 8]@cuda, %c: mutated f32[8, 8]",
    )
    found = capture_graphs(program)
    assert verify(found) == ()
    (region,) = regions(found)
    assert region.operands == (BufferRef("x"),)
    assert format_program(found).count("free") == 2
    assert len(found.lines) == 2


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


def test_a_result_that_is_dear_to_copy_stays_outside() -> None:
    program = cuda(
        """\
  %a = extern_kernel aten.neg.default(%x) @cuda : f32[8, 8]@cuda
  %b = extern_kernel aten.neg.default(%a) @cuda : f32[8, 8]@cuda
  %y = extern_kernel aten.repeat.default(%b, [4096, 256]) @cuda : f32[32768, 2048]@cuda
  %c = extern_kernel aten.neg.default(%b) @cuda : f32[8, 8]@cuda
  %d = extern_kernel aten.neg.default(%c) @cuda : f32[8, 8]@cuda
  free %a
  free %b
  free %c
  free %x""",
        outputs="%y, %d",
    )
    found = capture_regions(program)
    assert verify(found.program) == ()
    assert [count_calls(line) for line in regions(found.program)] == [2, 2]
    ((_, why),) = found.report.outside.items()
    assert why.reason.value == "no gain"
    assert "would take longer" in why.detail


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


def test_views_that_an_operator_may_return_do_not_leave_a_region() -> None:
    inner = f"""\
{mm("%x", "%x")}
  %v = extern_kernel aten.reshape.default(%x, [64]) aliases(%x) @cuda : f32[64]@cuda
  extern_kernel aten.neg_.default(%v) writes(%v) @cuda
"""
    entry = "%x: mutated f32[8, 8]@cuda"
    program = cuda(f"{inner}  free %v", outputs="%x", entry=entry)
    found = capture_graphs(program)
    assert verify(found) == ()
    assert [count_calls(line) for line in regions(found)] == [3]
    program = cuda(f"{inner}  free %x\n", outputs="%v", entry=entry)
    captured = capture_regions(program)
    assert captured.program == program
    assert "cannot return it" in format_capture(captured.report)


def test_numbers_and_host_tensors_beside_results_stay_in_the_region() -> None:
    program = cuda(
        """\
  %t = extern_kernel acme.attention.default(%x) @cuda : (f32[8, 8]@cuda, i64[], i64, opaque)
  %o = multi_output %t[0] : f32[8, 8]@cuda
  %seed = multi_output %t[1] : i64[]
  free %t
  free %seed
  %y = extern_kernel aten.neg.default(%o) @cuda : f32[8, 8]@cuda
  free %o
  free %x""",
        outputs="%y",
    )
    found = capture_graphs(program)
    assert verify(found) == ()
    assert [count_calls(line) for line in regions(found)] == [2]
    text = (
        format_program(program)
        .replace("free %seed\n", "")
        .replace("return %y", "return %y, %seed")
    )
    assert regions(capture_graphs(parse_program(text))) == []


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


WORKSPACES = """\
wrapperir 1

kernel_definition @count opaque(x: read f32*, ws: read_write i32*) {
  entry = count
  source {
    | count
  }
}

program @main(%x: f32[8]@cuda) {
  %kept = allocate i32[4]@cuda workspace(zero_per_program)
  kernel_call @count(%x, %kept) @cuda
  %zeroed = allocate i32[4]@cuda workspace(zero_on_call)
  kernel_call @count(%x, %zeroed) @cuda
  free %zeroed
  return %x
}
"""


def test_workspaces_of_the_program_are_allocated_outside() -> None:
    program = parse_program(WORKSPACES)
    assert verify(program) == ()
    found = capture_regions(program, least_gain=-math.inf).program
    assert verify(found) == ()
    (region,) = regions(found)
    assert region.operands == (BufferRef("x"), BufferRef("kept"))
    assert found.lines[0] == program.lines[0]
    assert "workspace(zero_on_call)" in format_program(found).partition("graph_region")[2]


REUSED = """wrapperir 1

program @main(%x: f32[8, 8]@cuda, %m: donated f32[64]@cuda) {
  assert_size_stride %m (64) (1) "input"
  %a = extern_kernel aten.sin.default(%x) @cuda : f32[8, 8]@cuda
  %b = extern_kernel aten.cos.default(%a) @cuda : f32[8, 8]@cuda
  free %a
  %r = reuse %m as f32[8, 8]@cuda
  extern_kernel aten.uniform_.default(%r) writes(%r) @cuda
  %c = extern_kernel aten.exp.default(%b) @cuda : f32[8, 8]@cuda
  free %b
  free %x
  return %c, %r
}
"""


def test_an_assert_of_memory_that_a_moved_line_uses_moves_too() -> None:
    program = parse_program(REUSED)
    assert verify(program) == ()
    found = captured(program)
    (region,) = regions(found.program)
    assert count_calls(region) == 3
    assert verify(found.program) == ()


DONATED = """wrapperir 1

program @main(%x: donated f32[64, 64]@cuda, %w: f32[64, 64]@cuda) {
  %a = allocate f32[64, 64]@cuda
  extern_kernel aten.mm.out(%x, %w, out = %a) writes(%a) @cuda
  %b = reuse %x as f32[64, 64]@cuda
  extern_kernel aten.mul.out(%b, %a, out = %b) writes(%b) @cuda
  free %a
  %c = allocate f32[64, 64]@cuda
  extern_kernel aten.mm.out(%b, %w, out = %c) writes(%c) @cuda
  free %b
  free %w
  return %c
}
"""


def test_a_region_writes_a_donated_input_that_is_reused() -> None:
    program = parse_program(DONATED)
    assert verify(program) == ()
    found = capture_graphs(program)
    assert verify(found) == ()
    text = format_program(found)
    assert "%b_0 = reinterpret %x_0 as f32[64, 64]@cuda\n" in text
    assert "aten.mul.out(%b_0, %a, out = %b_0) writes(%b_0)" in text
    assert text.count(" = allocate ") == 2


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


GROUP = '  group "0" size 2\n\n'


def reduced(name: str, work: str, between: str = "") -> str:
    """Return a sum of a buffer over the ranks, with lines before its wait."""
    return f"""\
  %{work} = collective all_reduce(sum) "0" reads(%{name}) writes(%{name}) @cuda
{between}  wait_collective %{work} reads(%{name}) writes(%{name}) @cuda
  free %{work}
"""


SUMS = f"""\
{GROUP}  %a = allocate f32[8, 8]@cuda
{mm("%x", "%a")}
{reduced("a", "w")}  %b = allocate f32[8, 8]@cuda
{mm("%a", "%b")}
  free %a
{reduced("b", "v")}  free %x"""


def test_collectives_end_regions_unless_they_may_be_in_them() -> None:
    program = cuda(SUMS, outputs="%b")
    outside = capture_regions(program).report.outside
    assert [why.reason for why in outside.values()].count(Reason.RANKS) == 4
    found = capture_graphs(program, collectives=True)
    assert verify(found) == ()
    assert (
        body_of(found)
        == f"""\
{GROUP}  %b = allocate f32[8, 8]@cuda
  graph_region @graph0 (%x, %b) @cuda {{
    body (%x_0: f32[8, 8]@cuda, %b_0: f32[8, 8]@cuda) {{
      %a = allocate f32[8, 8]@cuda
      extern_kernel aten.mm.out(%x_0, %x_0, out = %a) writes(%a) @cuda
      %w = collective all_reduce(sum) "0" reads(%a) writes(%a) @cuda
      wait_collective %w reads(%a) writes(%a) @cuda
      free %w
      extern_kernel aten.mm.out(%a, %a, out = %b_0) writes(%b_0) @cuda
      free %a
      %v = collective all_reduce(sum) "0" reads(%b_0) writes(%b_0) @cuda
      wait_collective %v reads(%b_0) writes(%b_0) @cuda
      free %v
      return
    }}
  }}
  free %x
  return %b
"""
    )


def test_a_start_and_its_wait_are_in_one_region_or_in_none() -> None:
    """The second collective ends the region that has the wait of the first one."""
    random = "  extern_kernel aten.bernoulli_.float(%x, 0.5) writes(%x) @cuda\n"
    inner = reduced("b", "v", f"{random}{mm('%x', '%x')}\n")
    lines = f"""\
{GROUP}  %a = allocate f32[8, 8]@cuda
{mm("%x", "%a")}
  %b = allocate f32[8, 8]@cuda
{mm("%x", "%b")}
  %w = collective all_reduce(sum) "0" reads(%a) writes(%a) @cuda
  wait_collective %w reads(%a) writes(%a) @cuda
  free %w
{inner}  free %x"""
    program = cuda(lines, outputs="%a, %b", entry="%x: mutated f32[8, 8]@cuda")
    found = capture_regions(program, least_gain=-math.inf, collectives=True)
    assert verify(found.program) == ()
    made = [line for region in regions(found.program) for line in region.body.lines]
    assert len([line for line in made if isinstance(line, CollectiveLine)]) == 1
    assert {why.detail for why in found.report.outside.values()} == {
        "it draws random numbers",
        "a line before its wait is in no region",
    }


def test_collectives_of_large_tensors_of_outside_stay_outside() -> None:
    """A replay would copy them."""
    lines = f"{GROUP}{mm('%x', '%x')}\n{reduced('x', 'w')}"
    for size, inside in ((8, True), (8192, False)):
        entry = f"%x: mutated f32[{size}, {size}]@cuda"
        program = cuda(lines, outputs="", entry=entry)
        found = capture_regions(program, least_gain=-math.inf, collectives=True)
        made = [line for region in regions(found.program) for line in region.body.lines]
        assert any(isinstance(line, CollectiveLine) for line in made) == inside


@pytest.mark.parametrize("collectives", [False, True])
def test_calls_of_other_ranks_that_are_no_lines_stay_outside(collectives: bool) -> None:
    call = '_c10d_functional.all_reduce_.default(%x, "sum", "0") writes(%x) @cuda'
    lines = f"{GROUP}{mm('%x', '%x')}\n  extern_kernel {call}\n{mm('%x', '%x')}"
    program = cuda(lines, entry="%x: mutated f32[8, 8]@cuda")
    found = capture_regions(program, least_gain=-math.inf, collectives=collectives)
    assert len(regions(found.program)) == 2
    assert [why.reason for why in found.report.outside.values()] == [Reason.RANKS]
