"""Generated programs are valid, of every line kind, and shrink."""

import contextlib

import pytest
import torch
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from tests.draws import draws
from tests.verify.lines_of import all_lines
from wrapperir.interp import interpret
from wrapperir.ir import (
    LINES,
    AnyLine,
    KernelCallLine,
    Language,
    Program,
    ReuseLine,
    keyword,
)
from wrapperir.testing.inputs import example_constants, example_inputs
from wrapperir.testing.programs import programs
from wrapperir.verify import verify

SLOW = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


@settings(SLOW, max_examples=draws(50, fuzz=100))
@given(programs(collectives=True))
def test_generated_programs_have_no_faults(program: Program) -> None:
    assert verify(program) == ()


@settings(SLOW, max_examples=draws(20, fuzz=40))
@given(programs(languages=(Language.TRITON,), collectives=True), st.integers(0, 1000))
def test_generated_programs_run_on_their_example_inputs(
    program: Program, seed: int
) -> None:
    outputs = interpret(
        program, example_inputs(program, seed), example_constants(program, seed)
    )
    assert len(outputs) == len(program.outputs)
    again = interpret(
        program, example_inputs(program, seed), example_constants(program, seed)
    )
    for one, other in zip(outputs, again, strict=True):
        if isinstance(one, torch.Tensor):
            assert isinstance(other, torch.Tensor)
            assert torch.equal(one, other)
        else:
            assert one == other


def test_every_line_kind_is_generated() -> None:
    seen: set[type[AnyLine]] = set()

    def is_last(program: Program) -> bool:
        seen.update(type(line) for line in all_lines(program))
        return seen == set(LINES)

    generate = settings(
        SLOW,
        max_examples=400,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
    )
    with contextlib.suppress(NoSuchExample):
        find(programs(collectives=True), is_last, settings=generate)
    assert seen == set(LINES)


@pytest.mark.parametrize("kind", [ReuseLine, KernelCallLine], ids=keyword)
def test_generated_programs_shrink(kind: type[AnyLine]) -> None:
    # Explaining a failure traces every line that Python executes.
    phases = [Phase.generate, Phase.shrink]
    smallest = find(
        programs(max_steps=draws(8, fuzz=16)),
        lambda program: any(isinstance(line, kind) for line in all_lines(program)),
        settings=settings(
            SLOW, max_examples=400, database=None, derandomize=True, phases=phases
        ),
    )
    assert len([line for line in all_lines(smallest) if keyword(line) != "free"]) <= 10


def test_languages_are_those_asked_for() -> None:
    for wanted in ((), (Language.CPP,), (Language.TRITON,)):
        check_languages(wanted)


def check_languages(wanted: tuple[Language, ...]) -> None:
    @settings(SLOW, max_examples=draws(20, fuzz=40))
    @given(programs(languages=wanted))
    def check(program: Program) -> None:
        found = {getattr(line, "language", None) for line in program.definitions}
        assert found - {None} <= set(wanted)

    check()
