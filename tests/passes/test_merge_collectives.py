"""Small collectives become one where they may start together, on all ranks alike."""

import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings

from tests.draws import draws
from tests.passes.common_faults import faults_of
from wrapperir.analysis.machines import CPU, H100
from wrapperir.ir import CollectiveLine, Program, WaitCollectiveLine
from wrapperir.passes import (
    MEMORY_PASSES,
    merge_collectives,
    merge_lines,
    overlap_collectives,
)
from wrapperir.passes.overlap_collectives import MEMORY_LIMIT
from wrapperir.pipelines import run_passes
from wrapperir.testing import rank_programs
from wrapperir.text import parse_program
from wrapperir.verify import verify

SLOW = settings(deadline=None, suppress_health_check=list(HealthCheck))


def starts(program: Program) -> list[tuple[str, ...]]:
    """Return what each collective reads."""
    return [line.reads for line in program.lines if isinstance(line, CollectiveLine)]


@settings(SLOW, max_examples=draws(100, fuzz=400))
@given(rank_programs(common=True))
def test_results_stay_the_same(programs: list[Program]) -> None:
    before, after = programs[0], merge_collectives(programs[0])
    assert faults_of(programs, after, limit=1.0) == ()
    assert merge_collectives(after) == after
    waits = [line for line in after.lines if isinstance(line, WaitCollectiveLine)]
    assert len(waits) == len(starts(after)) <= len(starts(before))


def test_the_programs_have_something_to_merge() -> None:
    merged = 0

    @settings(SLOW, max_examples=draws(100, fuzz=100))
    @given(rank_programs(common=True))
    def count(programs: list[Program]) -> None:
        nonlocal merged
        merged += len(merge_lines(programs[0], CPU).collectives)

    count()
    assert merged > 5


@settings(SLOW, max_examples=draws(60, fuzz=300))
@given(rank_programs(common=True))
def test_all_passes_together(programs: list[Program]) -> None:
    after = run_passes(
        programs[0], [merge_collectives, overlap_collectives, *MEMORY_PASSES]
    )
    assert faults_of(programs, after, MEMORY_LIMIT) == ()


SUMS = """wrapperir 1

program @main(%a: mutated f32[SIZE], %b: mutated f32[SIZE], %x: f32[64, 64]) {
  group "0" size 2

  %v = collective all_reduce(sum) "0" reads(%a) writes(%a)
  wait_collective %v reads(%a) writes(%a)
  BETWEEN
  %w = collective all_reduce(sum) "0" reads(%b) writes(%b)
  wait_collective %w reads(%b) writes(%b)
  return
}
"""
NOTHING = 'comment "nothing"'


def sums(size: int = 64, between: str = NOTHING) -> Program:
    return parse_program(SUMS.replace("SIZE", str(size)).replace("BETWEEN", between))


def test_two_small_sums_are_one() -> None:
    found = merge_lines(sums(), H100)
    assert starts(found.program) == [("a", "b")]
    (merged,) = found.collectives
    assert merged.count == 2
    assert merged.bytes == 512
    assert merged.seconds < 0.6 * merged.seconds_before


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(sums(1 << 26), id="long ones, whose latency is little"),
        pytest.param(
            sums(between="extern_kernel aten.add_.Tensor(%b, %a) writes(%b)"),
            id="the second needs the first",
        ),
        pytest.param(
            sums(between="extern_kernel aten.neg_.default(%a) writes(%a)"),
            id="the first is written in between",
        ),
        pytest.param(
            parse_program(
                SUMS.replace("SIZE", "64")
                .replace("BETWEEN", NOTHING)
                .replace('all_reduce(sum) "0" reads(%b)', 'all_reduce(max) "0" reads(%b)')
            ),
            id="another reduction",
        ),
        pytest.param(
            evolve(sums(), groups=(evolve(sums().groups[0], rank=0),)),
            id="a program for one rank",
        ),
        pytest.param(
            parse_program(
                SUMS.replace("%b: mutated f32", "%b: mutated f64")
                .replace("SIZE", "64")
                .replace("BETWEEN", NOTHING)
            ),
            id="another dtype",
        ),
    ],
)
def test_others_stay(program: Program) -> None:
    assert merge_lines(program, H100).program == program


def test_views_of_results_and_checks_of_them_may_come_before() -> None:
    between = """assert_size_stride %a (64) (1)
  %view = reinterpret %a as f32[8, 8]
  free %a"""
    text = SUMS.replace("SIZE", "64").replace("BETWEEN", between)
    text = text.replace("%a: mutated", "%a: donated").replace(
        "  return", "  free %view\n  return"
    )
    program = parse_program(text)
    after = merge_lines(program, H100).program
    assert starts(after) == [("a", "b")]
    assert verify(after) == ()


def test_work_between_is_not_waited_for() -> None:
    long = sums(between="%y = extern_kernel aten.mm.default(%x, %x) : f32[64, 64]")
    assert merge_lines(long, H100).collectives
    wide = SUMS.replace("SIZE", "64").replace("[64, 64]", "[4096, 4096]")
    line = "%y = extern_kernel aten.mm.default(%x, %x) : f32[4096, 4096]"
    assert not merge_lines(parse_program(wide.replace("BETWEEN", line)), H100).collectives
