from collections.abc import Sequence

import pytest
from attrs import evolve
from hypothesis import given, settings

from bench.memory.check_plan import check_plan
from bench.memory.generators import perfect_packing, training_step
from bench.memory.instances import read_instance
from tests.bench.test_instances import PUBLIC
from tests.planning.drawn_buffers import buffers
from tests.planning.optimum import optimum
from wrapperir.planning import (
    Buffer,
    Plan,
    cores,
    lower_bound,
    plan,
    plan_greedily,
    planner,
)
from wrapperir.planning.cores import NoCore

LONG = 1e9
SHORT = 0.02
BUDGETS = pytest.mark.parametrize("seconds", [None, LONG], ids=["short", "long"])

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


def sound(drawn: Sequence[Buffer], found: Plan) -> Plan:
    assert check_plan(drawn, found) == ()
    assert found.lower_bound == lower_bound(drawn)
    return found


@given(buffers())
def test_a_plan_is_sound_and_no_higher_than_the_greedy_one(
    drawn: tuple[Buffer, ...],
) -> None:
    found = sound(drawn, plan(drawn))
    assert found.height <= plan_greedily(drawn).height
    assert plan(drawn) == found


@settings(max_examples=30)
@given(buffers())
def test_time_never_makes_a_plan_higher(drawn: tuple[Buffer, ...]) -> None:
    found = sound(drawn, plan(drawn, seconds=SHORT))
    assert found.height <= plan_greedily(drawn).height


@given(buffers(most=6))
def test_with_time_the_plan_is_the_lowest_and_proven(mixed: tuple[Buffer, ...]) -> None:
    # A huge size among odd alignments leaves too many heights to refute in a test.
    drawn = tuple(evolve(buffer, size=buffer.size % 10) for buffer in mixed)
    found = sound(drawn, plan(drawn, seconds=LONG))
    assert found.optimal
    assert found.height == found.proven == optimum(drawn)


def test_the_least_height_may_be_above_the_lower_bound() -> None:
    found = sound(NO_TIGHT_PLAN, plan(NO_TIGHT_PLAN, seconds=LONG))
    assert (found.lower_bound, found.height, found.proven) == (4, 5, 5)


@given(buffers())
@settings(max_examples=30)
def test_it_stops_within_the_capacity(drawn: tuple[Buffer, ...]) -> None:
    greedy = plan_greedily(drawn)
    for seconds in (None, LONG):
        assert plan(drawn, capacity=greedy.height, seconds=seconds) == greedy


@BUDGETS
def test_it_searches_until_the_plan_is_within_the_capacity(seconds: float | None) -> None:
    drawn = perfect_packing(100, 1)
    capacity = lower_bound(drawn) * 6 // 5
    assert plan_greedily(drawn).height > capacity
    assert sound(drawn, plan(drawn, capacity=capacity, seconds=seconds)).height <= capacity


@BUDGETS
@pytest.mark.parametrize("seed", range(5))
def test_perfect_packings_are_found_again(seed: int, seconds: float | None) -> None:
    drawn = perfect_packing(60, seed)
    assert plan_greedily(drawn).gap > 0
    found = sound(drawn, plan(drawn, seconds=seconds))
    assert (found.gap, found.solver) == (0, "tree")
    assert plan(drawn, seconds=seconds) == found


@BUDGETS
def test_without_a_compiler_the_plan_is_the_same(
    seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = perfect_packing(40, 2)
    found = plan(drawn, seconds=seconds)
    monkeypatch.setattr(cores, "load_core", lambda name: NoCore(f"no {name}"))
    assert plan(drawn, seconds=seconds) == found


def test_without_time_it_is_the_greedy_plan() -> None:
    drawn = perfect_packing(100, 1)
    assert plan(drawn, seconds=0) == plan_greedily(drawn, seconds=0)


@pytest.mark.parametrize(
    "wrong", [Buffer(-1, 0, 1), Buffer(1, 2, 1), Buffer(1, 0, 1, 0)], ids=repr
)
def test_buffers_without_a_plan_are_refused(wrong: Buffer) -> None:
    with pytest.raises(ValueError, match="buffer 0"):
        plan([wrong])


@BUDGETS
@pytest.mark.parametrize("drawn", [(), (Buffer(0, 0, 5), Buffer(7, 3, 3))])
def test_no_bytes_need_no_pool(drawn: tuple[Buffer, ...], seconds: float | None) -> None:
    found = plan(drawn, seconds=seconds)
    assert (found.height, found.offsets) == (0, (0,) * len(drawn))
    assert found.optimal


@BUDGETS
def test_too_many_buffers_have_the_greedy_plan(
    seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner, "_MOST_SEARCHED", 99)
    monkeypatch.setattr(planner, "_MOST_BUDGETED", 99)
    drawn = perfect_packing(100, 1)
    found = plan(drawn, seconds=seconds)
    assert found == plan_greedily(drawn)
    assert not found.optimal


def test_more_buffers_than_are_searched_are_placed() -> None:
    many = training_step(3000, 2)
    assert sound(many, plan(many)).gap <= 0.01


@pytest.mark.skipif(not PUBLIC.is_dir(), reason="the public instances are not there")
def test_compilers_programs_come_near_the_lower_bound() -> None:
    for path in sorted(PUBLIC.glob("idealloc/*.csv")):
        assert plan(read_instance(path)).gap <= 0.001


@pytest.mark.skipif(not PUBLIC.is_dir(), reason="the public instances are not there")
def test_minimallocs_instances_fit_their_capacity() -> None:
    for path in sorted(PUBLIC.glob("minimalloc/*.csv")):
        drawn = read_instance(path)
        capacity = int(path.name.split(".")[1])
        assert sound(drawn, plan(drawn, capacity=capacity)).height <= capacity
