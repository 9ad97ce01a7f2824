"""The searches for a plan within a given height, in Python and compiled."""

from collections.abc import Sequence
from itertools import accumulate
from math import lcm

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.planning.drawn_buffers import buffers, plan_of
from tests.planning.optimum import optimum
from wrapperir.planning.attempt import Attempt, Outcome
from wrapperir.planning.check import check_plan
from wrapperir.planning.generate import perfect_packing
from wrapperir.planning.instance import Buffer
from wrapperir.planning.lower_bound import lower_bound
from wrapperir.planning.searches import (
    CompiledEjections,
    CompiledTree,
    PythonEjections,
    PythonTree,
    Search,
)
from wrapperir.planning.sections import sections, static_orders, unit
from wrapperir.planning.slots import Slots

LONG = 1e9


def python_tree(drawn: Sequence[Buffer]) -> PythonTree:
    slots = sections(Slots.of(drawn))
    return PythonTree(slots, static_orders(slots, drawn))


def compiled_tree(drawn: Sequence[Buffer]) -> CompiledTree:
    slots = sections(Slots.of(drawn))
    compiled = CompiledTree.of(slots, static_orders(slots, drawn))
    if compiled is None:
        pytest.skip("no C++ compiler")
    return compiled


def both_ejections(drawn: Sequence[Buffer]) -> tuple[Search, Search]:
    slots = sections(Slots.of(drawn))
    compiled = CompiledEjections.of(slots)
    if compiled is None:
        pytest.skip("no C++ compiler")
    return PythonEjections(slots), compiled


def stacked(drawn: Sequence[Buffer]) -> list[int]:
    """Return a plan, for a search to start with, that puts each buffer above the last."""
    slots = sections(Slots.of(drawn))
    room = lcm(*slots.alignments)
    rooms = [-(-size // room) * room for size in slots.sizes]
    return [*accumulate(rooms, initial=0)][: len(rooms)]


def attempt(
    search: Search,
    drawn: Sequence[Buffer],
    capacity: int,
    steps: int = 1 << 20,
    seconds: float = LONG,
) -> Attempt:
    found = search.attempt(
        stacked(drawn), capacity=capacity, seed=3, steps=steps, seconds=seconds
    )
    if found.outcome is Outcome.FOUND:
        slots = sections(Slots.of(drawn))
        kept = [drawn[index] for index in slots.buffers]
        plan = plan_of(kept, found.offsets)
        assert check_plan(kept, plan) == ()
        assert plan.height <= capacity
        assert all(top % unit(slots) == 0 for top in [plan.height, *found.offsets])
    return found


def same(one: Attempt, other: Attempt) -> bool:
    return (one.outcome, [*one.offsets], one.steps) == (
        other.outcome,
        [*other.offsets],
        other.steps,
    )


@given(buffers(most=6))
def test_the_tree_search_finds_a_plan_if_and_only_if_there_is_one(
    drawn: tuple[Buffer, ...],
) -> None:
    best = optimum(drawn)
    for search in (python_tree(drawn), compiled_tree(drawn)):
        assert attempt(search, drawn, best).outcome is Outcome.FOUND
        assert attempt(search, drawn, best + 1).outcome is Outcome.FOUND
        if best:
            assert attempt(search, drawn, best - 1).outcome is Outcome.INFEASIBLE


@given(buffers(most=20), st.floats(0.9, 1.3), st.integers(0, 200))
def test_the_compiled_tree_search_is_the_same(
    drawn: tuple[Buffer, ...], room: float, steps: int
) -> None:
    capacity = int(lower_bound(drawn) * room)
    python = attempt(python_tree(drawn), drawn, capacity, steps)
    assert same(attempt(compiled_tree(drawn), drawn, capacity, steps), python)
    assert python.steps <= steps


@given(buffers(most=20), st.floats(1, 1.3), st.integers(0, 100))
def test_the_compiled_local_search_is_the_same(
    drawn: tuple[Buffer, ...], room: float, steps: int
) -> None:
    capacity = int(lower_bound(drawn) * room)
    python, compiled = both_ejections(drawn)
    found = attempt(python, drawn, capacity, steps)
    assert same(attempt(compiled, drawn, capacity, steps), found)
    assert found.outcome is not Outcome.INFEASIBLE
    assert found.steps <= steps


@pytest.mark.parametrize("seed", range(3))
def test_the_searches_are_the_same_on_a_perfect_packing(seed: int) -> None:
    drawn = perfect_packing(60, seed)
    height = lower_bound(drawn)
    python = attempt(python_tree(drawn), drawn, height, 2000)
    assert same(attempt(compiled_tree(drawn), drawn, height, 2000), python)
    local, compiled = both_ejections(drawn)
    found = attempt(local, drawn, height * 9 // 8, 500)
    assert same(attempt(compiled, drawn, height * 9 // 8, 500), found)


@pytest.mark.parametrize("count", [30, 100, 300])
def test_the_tree_search_finds_perfect_packings(count: int) -> None:
    drawn = perfect_packing(count, 1)
    found = attempt(compiled_tree(drawn), drawn, lower_bound(drawn), 20 * count)
    assert found.outcome is Outcome.FOUND


@pytest.mark.parametrize("seed", range(4))
def test_the_local_search_lowers_a_plan(seed: int) -> None:
    drawn = perfect_packing(50, seed)
    _, compiled = both_ejections(drawn)
    found = attempt(compiled, drawn, lower_bound(drawn) * 5 // 4, 20_000)
    assert found.outcome is Outcome.FOUND


def test_no_time_is_no_step() -> None:
    drawn = perfect_packing(40, 1)
    searches = (*both_ejections(drawn), python_tree(drawn), compiled_tree(drawn))
    for search in searches:
        found = attempt(search, drawn, lower_bound(drawn), seconds=0)
        assert (found.outcome, found.steps) == (Outcome.UNDECIDED, 0)


def test_sizes_beyond_the_machine_word_stay_in_python() -> None:
    huge = (Buffer(1 << 62, 0, 2), Buffer(1 << 70, 1, 3, 3), Buffer(9, 2, 4, 1 << 63))
    slots = sections(Slots.of(huge))
    ranks = static_orders(slots, huge)
    assert CompiledTree.of(slots, ranks) is None
    assert CompiledEjections.of(slots) is None
    best = optimum(huge)
    for search in (PythonTree(slots, ranks), PythonEjections(slots)):
        assert attempt(search, huge, best).outcome is Outcome.FOUND
    below = attempt(PythonTree(slots, ranks), huge, best - 1)
    assert below.outcome is Outcome.INFEASIBLE


@given(buffers())
def test_sections_keep_who_meets_whom(drawn: tuple[Buffer, ...]) -> None:
    slots = sections(Slots.of(drawn))
    assert sorted(slots.buffers) == sorted(Slots.of(drawn).buffers)
    assert [*slots.first] == sorted(slots.first)
    for i, one in enumerate(slots.buffers):
        assert 0 <= slots.first[i] < slots.stop[i] <= slots.count
        for j, other in enumerate(slots.buffers):
            meet = (
                drawn[one].begin < drawn[other].end and drawn[other].begin < drawn[one].end
            )
            assert meet == (
                slots.first[i] < slots.stop[j] and slots.first[j] < slots.stop[i]
            )
