"""The passes over memory that a backend runs by itself."""

import pytest
from hypothesis import given

from wrapperir.ir import (
    LINES,
    AllocatePoolLine,
    BodyLine,
    FreeLine,
    Line,
    PlaceLine,
    Program,
    ReuseLine,
)
from wrapperir.ir.blocks import blocks_of
from wrapperir.passes import MEMORY_PASSES, PASSES, memory_passes
from wrapperir.pipelines import run_passes
from wrapperir.testing.programs import programs

FREES = {FreeLine}
"""What every emitter has to have, or names could not be dropped."""


def test_an_emitter_of_all_lines_gets_all_of_them() -> None:
    assert memory_passes(LINES) == MEMORY_PASSES
    assert set(MEMORY_PASSES) <= set(PASSES)


@pytest.mark.parametrize(
    ("kind", "left_out"),
    [
        (AllocatePoolLine, {"plan_memory"}),
        (PlaceLine, {"plan_memory"}),
        (ReuseLine, {"remove_copies", "update_in_place", "reuse_buffers"}),
    ],
)
def test_a_pass_that_makes_what_an_emitter_lacks_is_left_out(
    kind: type[Line], left_out: set[str]
) -> None:
    lines = [line for line in LINES if line is not kind]
    assert memory_passes(lines) == tuple(n for n in MEMORY_PASSES if n not in left_out)


def kinds(lines: tuple[BodyLine, ...]) -> set[type[Line]]:
    nested = [kinds(block.lines) for line in lines for block in blocks_of(line)]
    return {type(line) for line in lines}.union(*nested)


@given(programs(languages=()))
def test_no_pass_makes_a_line_of_another_kind(program: Program) -> None:
    for name in MEMORY_PASSES:
        lacking = [line for line in LINES if name not in memory_passes(set(LINES) - {line})]
        made = kinds(run_passes(program, (name,)).lines) - kinds(program.lines)
        assert made <= {*lacking, *FREES}
