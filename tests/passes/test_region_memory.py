"""Regions end where memory is to be given back."""

import math

import pytest
from hypothesis import HealthCheck, given, settings

from tests.draws import draws
from wrapperir.analysis import analyze_memory
from wrapperir.ir import FreeLine, MultiOutputLine, Program
from wrapperir.passes import capture_regions, region_memory
from wrapperir.passes.capture_survey import survey_lines
from wrapperir.passes.region_memory import MOST_PARTS, RunSplitter
from wrapperir.testing.pass_check import behaviour
from wrapperir.testing.programs import programs
from wrapperir.text import format_program, parse_program
from wrapperir.verify import verify


def backward(layers: int, size: int) -> Program:
    """Return a program that is given a tensor a layer, and frees each after its use."""
    on = f"f32[{size}, {size}]@cuda"
    given = ", ".join(f"%s{i}: donated {on}" for i in range(layers))
    lines = [
        f"  %g = allocate {on}",
        "  extern_kernel aten.zero_.default(%g) writes(%g) @cuda",
    ]
    for i in reversed(range(layers)):
        lines += [
            f"  %w{i} = allocate {on}",
            f"  extern_kernel aten.mm.out(%s{i}, %g, out = %w{i}) writes(%w{i}) @cuda",
            f"  extern_kernel aten.mul.out(%s{i}, %g, out = %g) writes(%g) @cuda",
            f"  free %s{i}",
            f"  %t{i} = extern_kernel aten.sum.default(%w{i}) @cuda : f32[]@cuda",
            f"  free %t{i}",
        ]
    lines += ["  free %g", "  return " + ", ".join(f"%w{i}" for i in range(layers))]
    body = "\n".join(lines)
    return parse_program(
        f"wrapperir 1\n\nprogram @main(%x: {on}, {given}) {{\n{body}\n}}\n"
    )


@pytest.mark.parametrize("size", [512, 2048])
def test_a_backward_pass_is_cut_so_that_its_peak_stays(size: int) -> None:
    program = backward(100, size)
    assert not verify(program)
    found = capture_regions(program)
    assert not verify(found.program)
    before = analyze_memory(program, {}).peak
    after = analyze_memory(found.program, {}).peak
    whole = region_memory.RunSplitter.of_program(program, survey_lines(program, {"cuda"}))
    (run,) = whole.survey.runs
    assert 2 <= len(found.report.regions) <= MOST_PARTS
    assert before < after < before + (whole._peak(run.start, run.stop) - before) / 2
    calls = sum(region.last - region.first for region in found.report.regions)
    assert calls > 400


def test_a_program_of_little_memory_is_one_region() -> None:
    (region,) = capture_regions(backward(100, 16)).report.regions
    frees = [line for line in region.line.body.lines if isinstance(line, FreeLine)]
    assert len(frees) == 101


@settings(
    max_examples=draws(60, fuzz=200),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(program=programs(languages=(), pools=False, max_steps=30))
def test_regions_of_one_call_each(
    monkeypatch: pytest.MonkeyPatch, program: Program
) -> None:
    monkeypatch.setattr(region_memory, "LEAST_CALLS", 1)
    monkeypatch.setattr(region_memory, "MOST_PARTS", 1 << 30)
    monkeypatch.setattr(region_memory, "FREE_BYTES", -1 << 60)
    monkeypatch.setattr(region_memory, "MOST_MEMORY", 0)
    survey = survey_lines(program, None)
    splitter = RunSplitter.of_program(program, survey)
    for run in survey.runs:
        parts = list(splitter.split(run))
        assert [index for part in parts for index in part] == list(run)
    found = capture_regions(program, None, -math.inf).program
    shown = f"{format_program(program)}\n{format_program(found)}"
    assert not verify(found), shown
    before = behaviour(program)
    after = behaviour(found, before.symbols)
    assert not after.faults, (after.faults, shown)
    assert repr(after.values) == repr(before.values), shown


def test_results_of_several_tensors_are_taken_in_the_region_of_their_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "".join(
        f"  %p{i} = extern_kernel aten.max.dim(%x, 0) @cuda"
        " : (f32[4096]@cuda, i64[4096]@cuda)\n"
        f"  %a{i} = multi_output %p{i}[0] : f32[4096]@cuda\n"
        f"  %b{i} = multi_output %p{i}[1] : i64[4096]@cuda\n"
        f"  free %p{i}\n"
        for i in range(60)
    )
    names = ", ".join(f"%a{i}, %b{i}" for i in range(60))
    program = parse_program(
        "wrapperir 1\n\nprogram @main(%x: f32[4096, 4096]@cuda) {\n"
        f"{text}  return {names}\n}}\n"
    )
    survey = survey_lines(program, {"cuda"})
    splitter = RunSplitter.of_program(program, survey)
    splitter.most = 0
    monkeypatch.setattr(region_memory, "MOST_PARTS", 1 << 30)
    parts = [part for run in survey.runs for part in splitter.split(run)]
    assert len(parts) > 10
    for part in parts:
        assert not isinstance(program.lines[part.start], MultiOutputLine)
    assert not verify(capture_regions(program).program)


ALIASES = """\
  %a = extern_kernel aten.split.Tensor(%x, 4) aliases(%x) @cuda : \
(f32[4, 8]@cuda, f32[4, 8; offset 32]@cuda)
  %b = multi_output %a[1] : f32[4, 8; offset 32]@cuda
  free %a
"""
ON_THE_HOST = """\
  %a = extern_kernel acme.attention.default(%x) @cuda : (f32[4, 8]@cuda, i64[])
  %b = multi_output %a[1] : i64[]
  free %a
"""


@pytest.mark.parametrize("made", [ALIASES, ON_THE_HOST])
def test_what_a_region_cannot_return_is_used_in_it(
    monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    monkeypatch.setattr(region_memory, "LEAST_CALLS", 1)
    monkeypatch.setattr(region_memory, "MOST_PARTS", 1 << 30)
    monkeypatch.setattr(region_memory, "FREE_BYTES", -1 << 60)
    monkeypatch.setattr(region_memory, "MOST_MEMORY", 0)
    other = "  %{0} = extern_kernel aten.neg.default(%x) @cuda : f32[8, 8]@cuda\n"
    size = "(4, 8) (8, 1)" if made is ALIASES else "() ()"
    program = parse_program(
        "wrapperir 1\n\nprogram @main(%x: f32[8, 8]@cuda) {\n"
        f"{made}{other.format('c')}{other.format('d')}  assert_size_stride %b {size}\n"
        f"{other.format('e')}  free %b\n  free %x\n  return %c, %d, %e\n}}\n"
    )
    assert not verify(program)
    found = capture_regions(program, least_gain=-math.inf)
    assert not verify(found.program)
    assert len(found.report.regions) > 1
