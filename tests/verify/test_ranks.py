"""Programs of several ranks: accepted ones run, and planted faults are found."""

from random import Random

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.draws import draws
from wrapperir.diagnostics import Code, DiagnosticError, Note
from wrapperir.interp import interpret_ranks
from wrapperir.ir import Program
from wrapperir.passes import MEMORY_PASSES
from wrapperir.pipelines import run_passes
from wrapperir.testing import RANK_FAULTS, rank_programs
from wrapperir.testing.rank_check import (
    rank_behaviour,
    rank_codes,
    rank_pass_faults,
    run_together,
)
from wrapperir.text import parse_program
from wrapperir.verify import verify_ranks

SLOW = settings(deadline=None, suppress_health_check=list(HealthCheck))


@settings(SLOW, max_examples=draws(60, fuzz=300))
@given(rank_programs())
def test_accepted_programs_run_without_a_fault(programs: list[Program]) -> None:
    assert rank_codes(programs) == set()
    run_together(programs)


@settings(SLOW, max_examples=draws(20, fuzz=100))
@given(rank_programs())
def test_memory_passes_keep_the_results(programs: list[Program]) -> None:
    planned = [run_passes(program, MEMORY_PASSES) for program in programs]
    assert rank_pass_faults(rank_behaviour(programs), rank_behaviour(planned)) == ()


@pytest.mark.parametrize("kind", RANK_FAULTS)
def test_a_planted_fault_is_found(kind: str) -> None:
    fault = RANK_FAULTS[kind]
    planted = 0

    @settings(SLOW, max_examples=draws(40, fuzz=300))
    @given(rank_programs(), st.integers(0, 999))
    def check(programs: list[Program], seed: int) -> None:
        nonlocal planted
        rng = Random(seed)
        index = rng.randrange(len(programs))
        changed = fault.plant(programs[index], rng)
        if changed is None:
            return
        planted += 1
        faulty = [*programs[:index], changed, *programs[index + 1 :]]
        assert rank_codes(faulty) & fault.codes
        with pytest.raises(DiagnosticError):
            run_together(faulty)

    check()
    assert planted > 5


PAIR = """wrapperir 1

program @main(%x: mutated f32[4]) {
  group "a" size 2
  group "b" size 2

  %v = collective all_reduce(sum) "a" reads(%x) writes(%x)
  wait_collective %v reads(%x) writes(%x)
  %w = collective all_reduce(sum) "b" reads(%x) writes(%x)
  wait_collective %w reads(%x) writes(%x)
  return %x
}
"""


def test_groups_in_another_order_are_a_deadlock_with_both_places() -> None:
    other = PAIR.replace('"a" reads', '"c" reads').replace('"b" reads', '"a" reads')
    programs = [parse_program(PAIR), parse_program(other.replace('"c"', '"b"'))]
    first, second = verify_ranks(programs)
    assert [d.code for d in (*first, *second)] == [Code.RANKS_DEADLOCK] * 2
    assert first[0].path == second[0].path == ("lines", 0)
    assert "does not start on rank 1 before a wait there" in first[0].message
    assert first[0].notes == (
        Note(message="rank 1 of group 'b' waits for this", path=("lines", 0), program=1),
    )
    with pytest.raises(DiagnosticError) as caught:
        run_together(programs)
    (found,) = caught.value.diagnostics
    assert found.code is Code.RUN_DEADLOCK
    assert found.path == ("lines", 0)
    assert found.notes[0].path == ("lines", 0)


def test_one_program_for_all_ranks_has_the_ranks_in_order() -> None:
    text = """wrapperir 1

program @main(%x: mutated f32[4], %y: mutated f32[8]) {
  group "a" size 2

  %v = collective all_gather "a" reads(%x) writes(%y)
  wait_collective %v reads(%x) writes(%y)
  return %y
}
"""
    program = parse_program(text)
    assert verify_ranks([program, program]) == ((), ())
    inputs = [[torch.full((4,), float(rank)), torch.zeros(8)] for rank in range(2)]
    for (gathered,) in interpret_ranks([program] * 2, inputs, [{}, {}]):
        assert isinstance(gathered, torch.Tensor)
        assert gathered.tolist() == [0.0] * 4 + [1.0] * 4


@pytest.mark.parametrize(
    ("first", "second"),
    [("size 2", "size 3"), ("size 2 rank 0", "size 2 rank 0"), ("size 3", "size 3")],
)
def test_groups_that_differ(first: str, second: str) -> None:
    programs = [parse_program(PAIR.replace("size 2", each)) for each in (first, second)]
    found = {d.code for each in verify_ranks(programs) for d in each}
    assert found == {Code.RANK_GROUPS}


def test_a_collective_that_a_rank_never_starts_says_so() -> None:
    head, _, tail = PAIR.partition('  %v = collective all_reduce(sum) "a"')
    without = head + "  return %x\n}\n"
    assert tail
    first, second = verify_ranks([parse_program(PAIR), parse_program(without)])
    (found,) = first
    assert found.code is Code.RANKS_DEADLOCK
    assert found.message.endswith("which never starts on rank 1")
    assert (found.notes, second) == ((), ())


def test_different_collectives_name_the_line_of_the_other_rank() -> None:
    other = parse_program(PAIR.replace('(sum) "a"', '(max) "a"'))
    first, (found,) = verify_ranks([parse_program(PAIR), other])
    assert first == ()
    assert found.code is Code.RANKS_DIFFER
    assert found.notes == (
        Note(message="rank 0 starts this", path=("lines", 0), program=0),
    )
