import pytest
from attrs import evolve
from hypothesis import given, settings

from bench.memory.check_plan import check_plan
from bench.memory.generators import perfect_packing
from tests.draws import draws
from tests.planning.drawn_buffers import buffers
from wrapperir.planning import Buffer, plan

pytest.importorskip("ortools", reason="OR-tools is not installed")

from bench.memory.or_tools import plan_with_or_tools


def test_it_finds_a_known_optimum() -> None:
    packed = perfect_packing(30, 4)
    found = plan_with_or_tools(packed, 60)
    assert check_plan(packed, found) == ()
    assert found.gap == 0


@given(buffers(most=12))
@settings(max_examples=draws(12, fuzz=25))
def test_the_tree_search_agrees(drawn: tuple[Buffer, ...]) -> None:
    small = tuple(evolve(buffer, size=buffer.size % 10) for buffer in drawn)
    found = plan_with_or_tools(small, 20)
    assert check_plan(small, found) == ()
    assert found.height == plan(small, seconds=20).height
