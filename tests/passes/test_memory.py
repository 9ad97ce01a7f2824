"""Passes over memory keep programs valid, their bits the same, and their peak no higher."""

import pytest
from hypothesis import given, settings

from wrapperir.ir.kernel import Language
from wrapperir.ir.program import Program
from wrapperir.passes import MEMORY_PASSES, PASSES
from wrapperir.testing.pass_check import behaviour, pass_faults
from wrapperir.testing.programs import programs
from wrapperir.text import format_program

EXAMPLES = settings(max_examples=60)


def check(program: Program, names: list[str]) -> None:
    """Run passes one after the other, each on what the one before made."""
    for name in names:
        before = behaviour(program)
        after = PASSES[name](program)
        faults = pass_faults(before, behaviour(after, before.symbols))
        assert not faults, "\n".join(
            [name, *faults, format_program(program), format_program(after)]
        )
        program = after


@pytest.mark.parametrize("name", MEMORY_PASSES)
@EXAMPLES
@given(program=programs(languages=()))
def test_a_pass(name: str, program: Program) -> None:
    check(program, [name])


@settings(max_examples=100)
@given(program=programs(languages=()))
def test_all_of_them(program: Program) -> None:
    check(program, list(MEMORY_PASSES))


@settings(max_examples=12)
@given(program=programs(languages=(Language.CPP,), max_steps=10))
def test_with_kernels(program: Program) -> None:
    check(program, list(MEMORY_PASSES))


@EXAMPLES
@given(program=programs(languages=(), max_steps=30))
def test_long_programs(program: Program) -> None:
    check(program, list(MEMORY_PASSES))
