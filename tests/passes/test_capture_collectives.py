"""Capture of graph regions: work of several ranks."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings

from tests.draws import draws
from tests.passes.captured_regions import body_of, captured, cuda, mm, regions
from wrapperir.ir import CollectiveLine, Program
from wrapperir.passes import capture_graphs, capture_regions
from wrapperir.passes.capture_reasons import Reason
from wrapperir.testing.rank_check import rank_behaviour, rank_pass_faults
from wrapperir.testing.rank_programs import rank_programs
from wrapperir.verify import verify

EXAMPLES = settings(max_examples=draws(100, fuzz=300))


@EXAMPLES
@given(rank_programs())
def test_programs_of_several_ranks(programs: Sequence[Program]) -> None:
    """Ranks whose collectives are in regions do what they did."""
    after = [captured(program).program for program in programs]
    assert rank_pass_faults(rank_behaviour(programs), rank_behaviour(after), math.inf) == ()


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
