"""Buffers of collectives get a memory space, whose pools hold nothing else."""

from hypothesis import HealthCheck, given, settings

from tests.draws import draws
from tests.passes.common_faults import faults_of
from wrapperir.ir import AllocateLine, AllocatePoolLine, CollectiveLine, PlaceLine, Program
from wrapperir.passes import (
    MEMORY_PASSES,
    overlap_collectives,
    use_comm_memory,
)
from wrapperir.pipelines import run_passes
from wrapperir.testing import rank_programs
from wrapperir.text import parse_program

SLOW = settings(deadline=None, suppress_health_check=list(HealthCheck))


def spaces(program: Program) -> dict[str, str]:
    """Return the memory space of each buffer that a program allocates or places."""
    return {
        line.result: line.type.space
        for line in program.lines
        if isinstance(line, AllocateLine | PlaceLine)
    }


@settings(SLOW, max_examples=draws(60, fuzz=300))
@given(rank_programs(common=True))
def test_planners_keep_the_space_apart(programs: list[Program]) -> None:
    placed = use_comm_memory(programs[0], devices="cpu,cuda")
    assert faults_of(programs, placed, 1.0) == ()
    assert use_comm_memory(placed, devices="cpu,cuda") == placed
    planned = run_passes(placed, [overlap_collectives, *MEMORY_PASSES])
    assert faults_of(programs, planned, 1.02) == ()
    pools = {
        line.result: line.type.space
        for line in planned.lines
        if isinstance(line, AllocatePoolLine)
    }
    for line in planned.lines:
        if isinstance(line, PlaceLine):
            assert pools[line.pool] == line.type.space


def test_what_is_not_the_blocks_own_stays() -> None:
    program = parse_program("""wrapperir 1

program @main(%x: mutated f32[64]@cuda) {
  group "0" size 2

  %y = allocate f32[128]@cuda
  %v = collective all_gather "0" reads(%x) writes(%y) @cuda
  wait_collective %v reads(%x) writes(%y) @cuda
  %view = reinterpret %y as f32[2, 64]@cuda
  %a = extern_kernel aten.sum.default(%view) @cuda : f32[]@cuda
  free %view
  free %y
  %z = allocate f32[128]@cuda
  %w = collective all_gather "0" reads(%x) writes(%z) @cuda
  wait_collective %w reads(%x) writes(%z) @cuda
  return %a, %z
}
""")
    placed = use_comm_memory(program)
    assert spaces(placed) == {"y": "comm", "z": "global"}
    assert use_comm_memory(program, devices="xpu") == program
    used = [line.writes for line in placed.lines if isinstance(line, CollectiveLine)]
    assert used == [("y",), ("z",)]
