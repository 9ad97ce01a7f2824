"""Every pass keeps generated programs valid and their results the same."""

from collections.abc import Sequence

import pytest
import torch
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from wrapperir.interp import interpret
from wrapperir.ir import Block, BodyLine, FreeLine, Language, MultiKernelLine, Program
from wrapperir.ir.blocks import rewrite_blocks
from wrapperir.passes import PASSES, insert_frees
from wrapperir.pipelines import run_passes
from wrapperir.testing.inputs import example_constants, example_inputs
from wrapperir.testing.programs import programs
from wrapperir.verify import verify

# Kernels take a compiler run each: a few programs have them, most have operators alone.
PROGRAMS = programs(languages=(), collectives=True)
# A new order may be better still with the memory that the last one was allowed to take.
IMPROVING = {"overlap_collectives"}
EXAMPLES = settings(max_examples=draws(30, fuzz=60))


def results(program: Program) -> list[object]:
    """Run a program; return its outputs, then the caller's inputs, then constants.

    Donated inputs are the program's: what they hold afterwards is not said.
    """
    inputs, constants = example_inputs(program), example_constants(program)
    given = [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]
    outputs = interpret(program, given, constants)
    pairs = zip(program.inputs, given, strict=True)
    kept = [x for input, x in pairs if x is not None and not input.donated]
    return [*outputs, *kept, *constants.values()]


def assert_same(before: Program, after: Program) -> None:
    assert verify(after) == ()
    for old, new in zip(results(before), results(after), strict=True):
        if isinstance(old, torch.Tensor):
            assert isinstance(new, torch.Tensor)
            assert old.dtype == new.dtype
            assert old.stride() == new.stride()
            assert torch.equal(old.nan_to_num(), new.nan_to_num())
        else:
            assert old == new


@pytest.mark.parametrize("name", PASSES)
@EXAMPLES
@given(program=PROGRAMS)
def test_a_pass_keeps_the_meaning(name: str, program: Program) -> None:
    after = PASSES[name](program)
    assert_same(program, after)
    if name not in IMPROVING:
        assert PASSES[name](after) == after


@EXAMPLES
@given(program=PROGRAMS, names=st.lists(st.sampled_from(sorted(PASSES)), max_size=4))
def test_passes_in_any_order(program: Program, names: list[str]) -> None:
    assert_same(program, run_passes(program, names))


@settings(max_examples=draws(5, fuzz=8))
@given(program=programs(languages=(Language.CPP,), max_steps=6))
def test_with_kernels(program: Program) -> None:
    assert_same(program, run_passes(program, list(PASSES)))


@settings(max_examples=draws(15, fuzz=30))
@given(program=programs(max_steps=24))
def test_multi_kernels_stay_what_they_are(program: Program) -> None:
    given = multi_kernels(program)
    for name, run in PASSES.items():
        after = run(program)
        assert verify(after) == ()
        assert run(after) == after
        if name != "split_configs":  # the others leave kernels, and how they are picked
            kept = multi_kernels(after)
            assert [line.choices for line in kept] == [line.choices for line in given]
            for new, old in zip(kept, given, strict=True):
                assert type(new.selection) is type(old.selection)


def multi_kernels(program: Program) -> list[MultiKernelLine]:
    return [line for line in program.definitions if isinstance(line, MultiKernelLine)]


def without_frees(lines: Sequence[BodyLine]) -> tuple[BodyLine, ...]:
    def stripped(block: Block) -> Block:
        return evolve(block, lines=without_frees(block.lines))

    kept = [line for line in lines if not isinstance(line, FreeLine)]
    return tuple(rewrite_blocks(line, stripped) for line in kept)


@EXAMPLES
@given(program=PROGRAMS)
def test_frees_are_found_again(program: Program) -> None:
    bare = evolve(program, lines=without_frees(program.lines))
    assert_same(program, insert_frees(bare))
