"""The exact and the anytime tier."""

from collections.abc import Sequence

import pytest
from attrs import evolve
from hypothesis import given, settings

from tests.planning.drawn_buffers import buffers
from tests.planning.optimum import optimum
from wrapperir.planning import exact, searches
from wrapperir.planning.anytime import AnytimeSolver
from wrapperir.planning.check import check_plan
from wrapperir.planning.exact import ExactSolver
from wrapperir.planning.generate import perfect_packing
from wrapperir.planning.greedy import GreedySolver
from wrapperir.planning.instance import Buffer, Solver
from wrapperir.planning.lower_bound import lower_bound
from wrapperir.planning.native import NoCore

LONG = 1e9
SHORT = 0.02
SOLVERS: Sequence[Solver] = (ExactSolver(), AnytimeSolver())

# Never more than 4 bytes are alive.  Within 4, those of the middle that begin together
# would have to lie side by side, and so would those that end together.
NO_TIGHT_PLAN = (
    Buffer(2, 0, 1),
    Buffer(2, 0, 2),
    Buffer(1, 1, 3),
    Buffer(1, 1, 4),
    Buffer(1, 2, 3),
    Buffer(1, 2, 4),
    Buffer(2, 3, 5),
    Buffer(2, 4, 5),
)


@given(buffers(most=6))
def test_the_exact_plan_is_the_lowest_and_proven(mixed: tuple[Buffer, ...]) -> None:
    # A huge size among odd alignments leaves too many heights to refute in a test.
    drawn = tuple(evolve(buffer, size=buffer.size % 10) for buffer in mixed)
    proof = ExactSolver().prove(drawn, seconds=LONG)
    assert check_plan(drawn, proof.plan) == ()
    assert proof.plan.lower_bound == lower_bound(drawn)
    assert proof.optimal
    assert proof.plan.height == proof.bound == optimum(drawn)
    assert ExactSolver().solve(drawn, seconds=LONG) == proof.plan


def test_the_least_height_may_be_above_the_lower_bound() -> None:
    proof = ExactSolver().prove(NO_TIGHT_PLAN, seconds=LONG)
    assert check_plan(NO_TIGHT_PLAN, proof.plan) == ()
    assert (proof.plan.lower_bound, proof.plan.height, proof.bound) == (4, 5, 5)
    assert AnytimeSolver().solve(NO_TIGHT_PLAN, seconds=LONG).height == 5


@settings(max_examples=30)
@given(buffers())
def test_plans_are_sound_and_no_higher_than_the_greedy_plan(
    drawn: tuple[Buffer, ...],
) -> None:
    greedy = GreedySolver().solve(drawn, seconds=LONG)
    for solver in SOLVERS:
        plan = solver.solve(drawn, seconds=SHORT)
        assert check_plan(drawn, plan) == ()
        assert plan.height <= greedy.height


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
def test_perfect_packings_are_found_again(solver: Solver) -> None:
    for seed in range(5):
        drawn = perfect_packing(60, seed)
        plan = solver.solve(drawn, seconds=LONG)
        assert check_plan(drawn, plan) == ()
        assert plan.gap == 0
        assert plan.solver == "tree"
        assert solver.solve(drawn, seconds=LONG) == plan


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
def test_it_stops_at_what_is_enough(solver: Solver) -> None:
    drawn = perfect_packing(100, 1)
    enough = lower_bound(drawn) * 6 // 5
    greedy = GreedySolver().solve(drawn, seconds=LONG)
    assert greedy.height > enough
    plan = solver.solve(drawn, enough=enough, seconds=LONG)
    assert check_plan(drawn, plan) == ()
    assert plan.height <= enough
    assert solver.solve(drawn, enough=greedy.height, seconds=LONG) == greedy


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
def test_without_a_compiler_the_plan_is_the_same(
    solver: Solver, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = perfect_packing(40, 2)
    plan = solver.solve(drawn, seconds=LONG)
    monkeypatch.setattr(searches, "load_core", lambda name: NoCore(f"no {name}"))
    assert solver.solve(drawn, seconds=LONG) == plan


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
def test_without_time_it_is_the_greedy_plan(solver: Solver) -> None:
    drawn = perfect_packing(100, 1)
    plan = solver.solve(drawn, seconds=0)
    assert plan == GreedySolver().solve(drawn, seconds=0)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
@pytest.mark.parametrize(
    "wrong", [Buffer(-1, 0, 1), Buffer(1, 2, 1), Buffer(1, 0, 1, 0)], ids=repr
)
def test_what_cannot_be_planned_is_refused(solver: Solver, wrong: Buffer) -> None:
    with pytest.raises(ValueError, match="buffer 0"):
        solver.solve([wrong], seconds=LONG)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
def test_nothing_takes_no_room(solver: Solver) -> None:
    nothing = (Buffer(0, 0, 5), Buffer(7, 3, 3))
    for drawn in ((), nothing):
        plan = solver.solve(drawn, seconds=LONG)
        assert (plan.height, plan.offsets) == (0, (0,) * len(drawn))


def test_of_too_many_buffers_the_exact_plan_is_the_greedy_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exact, "MOST_TREE_BUFFERS", 99)
    drawn = perfect_packing(100, 1)
    proof = ExactSolver().prove(drawn, seconds=LONG)
    assert proof.plan == GreedySolver().solve(drawn, seconds=LONG)
    assert not proof.optimal
