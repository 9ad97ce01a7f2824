"""The sweep of several ranks finds wrong passes, and faults that are not found."""

from collections import Counter
from collections.abc import Mapping

import pytest
from attrs import evolve

from bench.sweep import rank_programs
from bench.sweep.rank_programs import COMMON, OWN, find_fault, format_table
from wrapperir.ir import CollectiveLine, Program, RankReduction
from wrapperir.testing import RANK_FAULTS, RankFault
from wrapperir.text import format_program, parse_program

PROGRAM = parse_program("""\
wrapperir 1

program @main(%x: mutated f32[8]) {
  group "all" size 2

  %a = extern_kernel aten.neg.default(%x) : f32[8]
  %v = collective all_reduce(sum) "all" reads(%x) writes(%x)
  wait_collective %v reads(%x) writes(%x)
  free %v
  %w = collective all_reduce(max) "all" reads(%a) writes(%a)
  wait_collective %w reads(%a) writes(%a)
  free %w
  return %a
}
""")


def other_reduction(program: Program) -> Program:
    lines = [
        evolve(line, reduction=RankReduction.MAXIMUM)
        if isinstance(line, CollectiveLine)
        else line
        for line in program.lines
    ]
    return evolve(program, lines=tuple(lines))


def unwaited(program: Program) -> Program:
    return evolve(program, lines=program.lines[:2] + program.lines[3:])


def failing(program: Program) -> Program:
    raise RecursionError("too deep")


def test_programs_that_are_right_have_no_fault() -> None:
    counts: Counter[str] = Counter()
    assert find_fault([PROGRAM, PROGRAM], counts) is None
    assert counts["collectives"] == 4
    assert counts["all by name"] == 1
    for kind in RANK_FAULTS:
        found = {counts[f"{kind}, {how}"] for how in ("planted", "verified", "run")}
        assert found == {1}, kind


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        pytest.param(other_reduction, "the results of rank 0 differ", id="results"),
        pytest.param(unwaited, "nothing waits for the collective", id="diagnostics"),
        pytest.param(failing, "RecursionError: too deep", id="errors"),
    ],
)
def test_what_a_pass_does_wrong_is_found(
    wrong: object, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_programs, "COMMON", {"wrong": (1.0, (wrong,))})
    found = find_fault([PROGRAM, PROGRAM], Counter())
    assert found is not None
    assert message in found
    assert found.endswith(format_program(PROGRAM))


def test_programs_that_are_not_accepted_are_a_fault_of_the_verifier() -> None:
    found = find_fault([PROGRAM, other_reduction(PROGRAM)], Counter())
    assert found is not None
    assert found.startswith("the verifier\nWIR451")


def test_a_fault_that_is_not_found_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: Mapping[str, RankFault] = {
        "nothing": RankFault(lambda program, rng: program, frozenset())
    }
    monkeypatch.setattr(rank_programs, "RANK_FAULTS", nothing)
    found = find_fault([PROGRAM, PROGRAM], Counter())
    assert found is not None
    assert found.startswith("nothing is not found")


def test_the_table_adds_batches_up() -> None:
    page = format_table(
        [
            {"name": "0", "programs": 200, "compiled": 7, "order, planted": 3},
            {"name": "1", "programs": 100, "order, planted": 2, "order, run": 4},
        ]
    )
    assert "300 sets" in page
    assert "0 faults" in page
    assert "| compiled | 1.02 | 7 |" in page
    assert "| order | 5 | 0 | 4 |" in page
    assert all(name in page for name in (*OWN, *COMMON))
