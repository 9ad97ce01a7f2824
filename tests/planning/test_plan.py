import pytest
from hypothesis import given, settings

from tests.planning.drawn_buffers import buffers
from tests.planning.test_instances import PUBLIC
from wrapperir.planning.check import check_plan
from wrapperir.planning.generate import perfect_packing, training_step
from wrapperir.planning.greedy import GreedySolver
from wrapperir.planning.instance import Buffer
from wrapperir.planning.instances import read_instance
from wrapperir.planning.plan import plan


@given(buffers())
def test_a_plan_is_sound_and_no_higher_than_the_greedy_one(
    drawn: tuple[Buffer, ...],
) -> None:
    found = plan(drawn, seconds=60)
    assert check_plan(drawn, found) == ()
    assert found.height <= GreedySolver().solve(drawn, seconds=60).height
    assert plan(drawn, seconds=60) == found


@given(buffers())
@settings(max_examples=30)
def test_it_stops_where_the_height_is_enough(drawn: tuple[Buffer, ...]) -> None:
    greedy = GreedySolver().solve(drawn, seconds=60)
    assert plan(drawn, enough=greedy.height, seconds=60).solver.startswith("greedy")


def test_the_search_makes_lower_what_greedy_leaves_high() -> None:
    packed = perfect_packing(40, 3)
    assert GreedySolver().solve(packed, seconds=60).gap > 0
    assert plan(packed, seconds=60).gap == 0


def test_more_buffers_than_are_searched_are_placed() -> None:
    many = training_step(3000, 2)
    found = plan(many, seconds=60)
    assert check_plan(many, found) == ()
    assert found.gap <= 0.01


@pytest.mark.skipif(not PUBLIC.is_dir(), reason="the public instances are not there")
def test_compilers_programs_come_near_the_lower_bound() -> None:
    for path in sorted(PUBLIC.glob("idealloc/*.csv")):
        assert plan(read_instance(path), seconds=60).gap <= 0.001
