import pytest
from hypothesis import given

from tests.planning.drawn_buffers import buffers
from wrapperir.planning import first_fit
from wrapperir.planning.check import check_plan
from wrapperir.planning.first_fit import CompiledFirstFit
from wrapperir.planning.generate import training_step
from wrapperir.planning.greedy import GreedySolver
from wrapperir.planning.instance import Buffer, Plan
from wrapperir.planning.lower_bound import lower_bound
from wrapperir.planning.native import NoCore
from wrapperir.planning.orders import facts
from wrapperir.planning.slots import Slots


def greedy(drawn: tuple[Buffer, ...], enough: int | None = None) -> Plan:
    return GreedySolver().solve(drawn, enough=enough, seconds=60)


@given(buffers())
def test_plans_are_sound_and_repeatable(drawn: tuple[Buffer, ...]) -> None:
    plan = greedy(drawn)
    assert check_plan(drawn, plan) == ()
    assert plan.lower_bound == lower_bound(drawn)
    assert plan.height >= plan.lower_bound
    assert greedy(drawn) == plan


@given(buffers())
def test_the_lower_bound_is_the_most_bytes_alive(drawn: tuple[Buffer, ...]) -> None:
    alive = [
        sum(buffer.size for buffer in drawn if buffer.begin <= time < buffer.end)
        for time in range(-5, 40)
    ]
    assert lower_bound(drawn) == max(alive)


@given(buffers())
def test_the_order_goes_by_what_is_alive(drawn: tuple[Buffer, ...]) -> None:
    living = [buffer for buffer in drawn if buffer.begin < buffer.end]
    for fact, mine in zip(facts(living), living, strict=True):
        assert fact.conflict == sum(
            other.size
            for other in living
            if other.begin < mine.end and mine.begin < other.end
        )


def test_nested_buffers_need_the_lower_bound() -> None:
    nested = tuple(Buffer(3 * i + 1, i, 100 - i) for i in range(50))
    assert greedy(nested).gap == 0


def test_it_stops_where_the_height_is_enough() -> None:
    many = training_step(300, 1)
    best = greedy(many)
    assert greedy(many, enough=10 * best.height).height >= best.height
    assert greedy(many, enough=10 * best.height).solver == "greedy size-class-begin"


def test_without_a_compiler_the_plan_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    many = training_step(500, 2)
    best = greedy(many)

    def no_core(name: str) -> NoCore:
        return NoCore(f"no compiler for {name}")

    monkeypatch.setattr(first_fit, "load_core", no_core)
    assert CompiledFirstFit.of(Slots.of(many)) is None
    assert greedy(many) == best


def test_a_training_step_is_near_the_lower_bound() -> None:
    assert greedy(training_step(4000, 3)).gap <= 0.01


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Buffer(-1, 0, 1), "buffer 1 has a negative size, -1"),
        (Buffer(1, 2, 1), "buffer 1 ends at 1, before it begins at 2"),
        (Buffer(1, 0, 1, 0), "buffer 1 has alignment 0, which is not positive"),
    ],
)
def test_what_no_plan_can_be_made_for_is_refused(wrong: Buffer, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        greedy((Buffer(1, 0, 1), wrong))
