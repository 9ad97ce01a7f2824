import pytest
from attrs import evolve
from hypothesis import given, settings

from tests.draws import draws
from tests.planning.drawn_buffers import buffers
from wrapperir.planning.check import check_plan
from wrapperir.planning.exact import ExactSolver
from wrapperir.planning.generate import perfect_packing
from wrapperir.planning.instance import Buffer
from wrapperir.planning.oracle import OrToolsSolver

pytest.importorskip("ortools", reason="OR-tools is not installed")


def test_it_finds_a_known_optimum() -> None:
    packed = perfect_packing(30, 4)
    found = OrToolsSolver().solve(packed, seconds=60)
    assert check_plan(packed, found) == ()
    assert found.gap == 0


@given(buffers(most=12))
@settings(max_examples=draws(12, fuzz=25))
def test_the_exact_search_agrees(drawn: tuple[Buffer, ...]) -> None:
    small = tuple(evolve(buffer, size=buffer.size % 10) for buffer in drawn)
    found = OrToolsSolver().solve(small, seconds=20)
    assert check_plan(small, found) == ()
    assert found.height == ExactSolver().solve(small, seconds=20).height
