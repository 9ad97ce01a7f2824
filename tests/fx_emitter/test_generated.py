"""Generated programs: their graphs run as interpreted, whole or cut, with every line."""

from collections import Counter

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.fx import GraphModule

from tests.draws import draws
from tests.fx_emitter.running import lines_of, without_dead_code
from tests.torch_release import BEFORE_2_13
from wrapperir.ir import Language, Program
from wrapperir.ir.blocks import blocks_of, walk_lines
from wrapperir.passes import MEMORY_PASSES, PASSES
from wrapperir.testing import Case, Outcome, check_case, programs
from wrapperir_fx.emitter import FxEmitter
from wrapperir_fx.graph_module import build_graph_module

SEEDS = st.integers(0, 2**16)
TRITON = (Language.TRITON,)
quick = settings(
    max_examples=draws(30, fuzz=80),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
slow = settings(quick, max_examples=draws(12, fuzz=30))


def check(program: Program, seed: int) -> None:
    case = Case("generated", program, seeds=(seed,))
    assert check_case(FxEmitter(), case) is Outcome.PASSED


@quick
@given(programs(languages=(), max_steps=40), SEEDS)
def test_graphs_run_as_interpreted(program: Program, seed: int) -> None:
    check(program, seed)


@slow
@given(programs(languages=TRITON, max_steps=40), SEEDS)
def test_graphs_with_triton_kernels_run_as_interpreted(program: Program, seed: int) -> None:
    check(program, seed)


@pytest.mark.skipif(
    BEFORE_2_13, reason="FX of torch 2.11 takes launches of Triton kernels for unused"
)
@slow
@given(programs(languages=TRITON, max_steps=40), SEEDS)
def test_graphs_without_dead_code_run_as_interpreted(program: Program, seed: int) -> None:
    case = Case("generated", program, seeds=(seed,))
    assert check_case(FxEmitter(compile_graph=without_dead_code), case) is Outcome.PASSED


@slow
@given(programs(languages=(), max_steps=40), SEEDS)
def test_graphs_of_planned_memory_run_as_interpreted(program: Program, seed: int) -> None:
    for name in MEMORY_PASSES:
        program = PASSES[name](program)
    check(program, seed)


@quick
@given(programs(languages=(), max_steps=40))
def test_every_line_is_in_its_graph_once_and_in_order(program: Program) -> None:
    constants = {item.key: torch.empty(0) for item in program.constants}
    module = build_graph_module(program, constants)
    graphs = [owner for owner in module.modules() if isinstance(owner, GraphModule)]
    assert graphs[0] is module
    assert lines_of(module) == program.lines
    blocks = [
        block.lines for line in walk_lines(program.lines) for block in blocks_of(line)
    ]
    wanted = Counter(tuple(map(id, lines)) for lines in blocks)
    assert Counter(tuple(map(id, lines_of(graph))) for graph in graphs[1:]) == wanted
