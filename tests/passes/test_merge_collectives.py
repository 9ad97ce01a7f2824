"""Small collectives become one where they may start together, on all ranks alike."""

from collections import Counter
from functools import partial

import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings

from tests.draws import draws
from tests.passes.common_faults import faults_of
from wrapperir.analysis.machines import CPU, H100
from wrapperir.ir import Collective, CollectiveLine, Program, WaitCollectiveLine
from wrapperir.passes import (
    MEMORY_PASSES,
    merge_collectives,
    merge_lines,
    overlap_collectives,
)
from wrapperir.passes.bucket_lines import MERGED
from wrapperir.passes.overlap_collectives import MEMORY_LIMIT
from wrapperir.pipelines import run_passes
from wrapperir.testing import rank_programs
from wrapperir.text import format_program, parse_program
from wrapperir.verify import verify

SLOW = settings(deadline=None, suppress_health_check=list(HealthCheck))


def starts(program: Program) -> list[tuple[str, ...]]:
    """Return what each collective reads."""
    return [line.reads for line in program.lines if isinstance(line, CollectiveLine)]


@settings(SLOW, max_examples=draws(100, fuzz=400))
@given(rank_programs(common=True))
def test_results_stay_the_same(programs: list[Program]) -> None:
    before, after = programs[0], merge_collectives(programs[0], limit=4.0)
    assert faults_of(programs, after, limit=4.0) == ()
    assert merge_collectives(after) == after
    waits = [line for line in after.lines if isinstance(line, WaitCollectiveLine)]
    assert len(waits) == len(starts(after)) <= len(starts(before))


def test_the_programs_have_something_to_merge() -> None:
    merged: Counter[Collective] = Counter()

    @settings(SLOW, max_examples=draws(100, fuzz=100))
    @given(rank_programs(common=True))
    def count(programs: list[Program]) -> None:
        found = merge_lines(programs[0], CPU, limit=4.0).collectives
        merged.update(each.line.operation for each in found)

    count()
    assert min(merged[operation] for operation in MERGED) > 0


@pytest.mark.slow
@settings(SLOW, max_examples=draws(60, fuzz=300))
@given(rank_programs(common=True))
def test_all_passes_together(programs: list[Program]) -> None:
    after = run_passes(
        programs[0],
        [partial(merge_collectives, limit=4.0), overlap_collectives, *MEMORY_PASSES],
    )
    assert faults_of(programs, after, 4.0 * MEMORY_LIMIT) == ()


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


GATHERS = """wrapperir 1

program @main(%a: f32[4], %b: f32[2, 3]) {
  group "0" size 2

  %p = allocate f32[8]
  %v = collective all_gather "0" reads(%a) writes(%p)
  wait_collective %v reads(%a) writes(%p)
  free %v
  free %a
  %q = allocate f32[4, 3]
  %w = collective all_gather "0" reads(%b) writes(%q)
  wait_collective %w reads(%b) writes(%q)
  free %w
  free %b
  return %p, %q
}
"""

GATHERED = """wrapperir 1

program @main(%a: f32[4], %b: f32[2, 3]) {
  group "0" size 2

  %p = allocate f32[8]
  %q = allocate f32[4, 3]
  %buf0 = allocate f32[10]
  %view0 = reinterpret %buf0 as f32[1, 10]
  %view1 = reinterpret %a as f32[1, 4]
  %view2 = reinterpret %b as f32[1, 6]
  extern_kernel aten.cat.out([%view1, %view2], 1, out = %view0) writes(%view0)
  free %view0
  free %view1
  free %view2
  %buf1 = allocate f32[20]
  %w = collective all_gather "0" reads(%buf0) writes(%buf1)
  wait_collective %w reads(%buf0) writes(%buf1)
  free %buf0
  %view3 = reinterpret %buf1 as f32[2, 10]
  %view4 = reinterpret %p as f32[2, 4]
  %view5 = reinterpret %q as f32[2, 6]
  extern_kernel aten.split_with_sizes_copy.out(%view3, [4, 6], 1, out = [%view4, %view5]) writes(%view4, %view5)
  free %view3
  free %view4
  free %view5
  free %buf1
  free %a
  free %w
  free %b
  return %p, %q
}
"""  # noqa: E501


def test_gathers_are_copied_to_one_buffer_and_out_of_another() -> None:
    program = parse_program(GATHERS)
    found = merge_lines(program, CPU, limit=8.0)
    assert found.program == parse_program(GATHERED)
    assert found.collectives[0].seconds < 0.9 * found.collectives[0].seconds_before


@pytest.mark.parametrize(
    ("old", "new", "limit"),
    [
        pytest.param("", "", 1.02, id="there is no memory for copies"),
        pytest.param("f32[4]", "f32[1048576]", 8.0, id="copies take longer"),
        pytest.param("size 2", "size 2 rank 1", 8.0, id="a program for one rank"),
    ],
)
def test_other_gathers_stay(old: str, new: str, limit: float) -> None:
    text = GATHERS.replace(old, new) if old else GATHERS
    if "1048576" in text:
        text = text.replace("%p = allocate f32[8]", "%p = allocate f32[2097152]")
    program = parse_program(text)
    assert verify(program) == ()
    assert merge_lines(program, CPU, limit).program == program


def test_sums_are_merged_where_there_is_no_memory_for_copies() -> None:
    head, _, tail = GATHERS.partition("  return")
    both = sums().lines
    lines = format_program(evolve(sums(), lines=both)).split("\n\n")[2].split("  return")[0]
    lines = lines.replace("%v", "%t").replace("%w", "%u").replace("%a", "%c")
    text = head + lines.replace("%b", "%d") + "  return" + tail
    text = text.replace("(%a:", "(%c: mutated f32[64], %d: mutated f32[64], %a:")
    program = parse_program(text)
    assert [x.line.operation for x in merge_lines(program, CPU, 1.0).collectives] == [
        Collective.ALL_REDUCE
    ]
    assert len(merge_lines(program, CPU, 8.0).collectives) == 2


def test_sizes_that_are_not_constant_stay() -> None:
    text = GATHERS.replace("f32[4]", "f32[s]").replace("f32[8]", "f32[2 * s]")
    text = text.replace("  group", "  symbol s: int 1..8 = size(%a, 0)\n  group")
    program = parse_program(text)
    assert verify(program) == ()
    assert merge_lines(program, CPU, 8.0).program == program


def test_work_between_is_not_waited_for() -> None:
    long = sums(between="%y = extern_kernel aten.mm.default(%x, %x) : f32[64, 64]")
    assert merge_lines(long, H100).collectives
    wide = SUMS.replace("SIZE", "64").replace("[64, 64]", "[4096, 4096]")
    line = "%y = extern_kernel aten.mm.default(%x, %x) : f32[4096, 4096]"
    assert not merge_lines(parse_program(wide.replace("BETWEEN", line)), H100).collectives
