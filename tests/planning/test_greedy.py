import pytest
from hypothesis import given

from bench.memory.check_plan import check_plan
from bench.memory.generators import training_step
from tests.planning.drawn_buffers import buffers
from wrapperir.planning import Buffer, Sections, cores, lower_bound, plan_greedily
from wrapperir.planning.cores import NoCore, compile_first_fit
from wrapperir.planning.greedy import order_facts


@given(buffers())
def test_plans_are_sound_and_repeatable(drawn: tuple[Buffer, ...]) -> None:
    plan = plan_greedily(drawn)
    assert check_plan(drawn, plan) == ()
    assert plan.lower_bound == lower_bound(drawn)
    assert plan.height >= plan.lower_bound
    assert plan_greedily(drawn) == plan


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
    for fact, mine in zip(order_facts(living), living, strict=True):
        assert fact.conflict == sum(
            other.size
            for other in living
            if other.begin < mine.end and mine.begin < other.end
        )


def test_nested_buffers_need_the_lower_bound() -> None:
    nested = tuple(Buffer(3 * i + 1, i, 100 - i) for i in range(50))
    assert plan_greedily(nested).gap == 0


def test_it_stops_within_the_capacity() -> None:
    many = training_step(300, 1)
    best = plan_greedily(many)
    assert plan_greedily(many, capacity=10 * best.height).height >= best.height
    assert (
        plan_greedily(many, capacity=10 * best.height).solver == "greedy size-class-begin"
    )


def test_without_a_compiler_the_plan_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    many = training_step(500, 2)
    best = plan_greedily(many)

    def no_core(name: str) -> NoCore:
        return NoCore(f"no compiler for {name}")

    monkeypatch.setattr(cores, "load_core", no_core)
    assert compile_first_fit(Sections.of(many)) is None
    assert plan_greedily(many) == best


def test_a_training_step_is_near_the_lower_bound() -> None:
    assert plan_greedily(training_step(4000, 3)).gap <= 0.01


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Buffer(-1, 0, 1), "buffer 1 has a negative size, -1"),
        (Buffer(1, 2, 1), "buffer 1 ends at 1, before it begins at 2"),
        (Buffer(1, 0, 1, 0), "buffer 1 has alignment 0, which is not positive"),
    ],
)
def test_buffers_without_a_plan_are_refused(wrong: Buffer, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan_greedily((Buffer(1, 0, 1), wrong))


def test_a_size_that_is_not_an_int_is_refused() -> None:
    wrong = Buffer(1.5, 0, 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"the size of buffer 1 is 1\.5, not an int"):
        plan_greedily((Buffer(1, 0, 1), wrong))
