"""The search for a plan within a given height, in Python and compiled."""

from collections.abc import Sequence
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.memory.check_plan import check_plan
from bench.memory.generators import perfect_packing
from tests.planning.drawn_buffers import buffers, plan_of
from tests.planning.optimum import optimum
from wrapperir.planning import Buffer, Sections, lower_bound
from wrapperir.planning.cores import TreeSearch, compile_tree_search
from wrapperir.planning.tree_search import (
    Attempt,
    SearchOutcome,
    branching_orders,
    search_tree,
)

LONG = 1e9


def python_tree(drawn: Sequence[Buffer]) -> TreeSearch:
    sections = Sections.of(drawn)
    return partial(search_tree, sections, branching_orders(sections, drawn))


def compiled_tree(drawn: Sequence[Buffer]) -> TreeSearch:
    sections = Sections.of(drawn)
    compiled = compile_tree_search(sections, branching_orders(sections, drawn))
    if compiled is None:
        pytest.skip("no C++ compiler")
    return compiled


def attempt(
    search: TreeSearch,
    drawn: Sequence[Buffer],
    capacity: int,
    steps: int = 1 << 20,
    seconds: float = LONG,
) -> Attempt:
    found = search(capacity=capacity, steps=steps, seconds=seconds)
    if found.outcome is SearchOutcome.FOUND:
        sections = Sections.of(drawn)
        kept = [drawn[index] for index in sections.buffers]
        plan = plan_of(kept, found.offsets)
        assert check_plan(kept, plan) == ()
        assert plan.height <= capacity
        assert all(top % sections.unit == 0 for top in [plan.height, *found.offsets])
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
        assert attempt(search, drawn, best).outcome is SearchOutcome.FOUND
        assert attempt(search, drawn, best + 1).outcome is SearchOutcome.FOUND
        if best:
            assert attempt(search, drawn, best - 1).outcome is SearchOutcome.INFEASIBLE


@given(buffers(most=20), st.floats(0.9, 1.3), st.integers(0, 200))
def test_the_compiled_tree_search_is_the_same(
    drawn: tuple[Buffer, ...], room: float, steps: int
) -> None:
    capacity = int(lower_bound(drawn) * room)
    python = attempt(python_tree(drawn), drawn, capacity, steps)
    assert same(attempt(compiled_tree(drawn), drawn, capacity, steps), python)
    assert python.steps <= steps


@pytest.mark.parametrize("seed", range(3))
def test_the_compiled_search_is_the_same_on_a_perfect_packing(seed: int) -> None:
    drawn = perfect_packing(60, seed)
    height = lower_bound(drawn)
    python = attempt(python_tree(drawn), drawn, height, 2000)
    assert same(attempt(compiled_tree(drawn), drawn, height, 2000), python)


@pytest.mark.parametrize("count", [30, 100, 300])
def test_the_tree_search_finds_perfect_packings(count: int) -> None:
    drawn = perfect_packing(count, 1)
    found = attempt(compiled_tree(drawn), drawn, lower_bound(drawn), 20 * count)
    assert found.outcome is SearchOutcome.FOUND


def test_no_time_is_no_step() -> None:
    drawn = perfect_packing(40, 1)
    for search in (python_tree(drawn), compiled_tree(drawn)):
        found = attempt(search, drawn, lower_bound(drawn), seconds=0)
        assert (found.outcome, found.steps) == (SearchOutcome.UNDECIDED, 0)


def test_sizes_beyond_the_machine_word_stay_in_python() -> None:
    huge = (Buffer(1 << 62, 0, 2), Buffer(1 << 70, 1, 3, 3), Buffer(9, 2, 4, 1 << 63))
    sections = Sections.of(huge)
    assert compile_tree_search(sections, branching_orders(sections, huge)) is None
    best = optimum(huge)
    assert attempt(python_tree(huge), huge, best).outcome is SearchOutcome.FOUND
    assert attempt(python_tree(huge), huge, best - 1).outcome is SearchOutcome.INFEASIBLE


@given(buffers())
def test_sections_keep_who_meets_whom(drawn: tuple[Buffer, ...]) -> None:
    sections = Sections.of(drawn)
    kept = [i for i, b in enumerate(drawn) if b.size and b.begin < b.end]
    assert sorted(sections.buffers) == kept
    assert [*sections.first] == sorted(sections.first)
    for i, one in enumerate(sections.buffers):
        assert 0 <= sections.first[i] < sections.stop[i] <= sections.count
        for j, other in enumerate(sections.buffers):
            meet = (
                drawn[one].begin < drawn[other].end and drawn[other].begin < drawn[one].end
            )
            spans = [(sections.first[k], sections.stop[k]) for k in (i, j)]
            assert meet == (spans[0][0] < spans[1][1] and spans[1][0] < spans[0][1])
