"""Programs beside eager: they agree, and the line of a planted fault is named."""

import pytest
import torch
from attrs import evolve

from tests.trace.captured import captured, exported
from tests.trace.planted import calls, defines, other_constant, source, where
from wrapperir.frontend.eager import run_eagerly
from wrapperir.frontend.lowering.exported import decomposed
from wrapperir.ir import Program
from wrapperir.trace import Agreement, Difference, RunSide, diff_nodes
from wrapperir_python.emitter import PythonEmitter


def beside_eager(kind: str, program: Program) -> Difference | Agreement:
    given = captured(kind)
    graph = exported() if kind == "operators" else decomposed(exported())
    eager = run_eagerly(graph, given.inputs)
    side = RunSide("python", program, PythonEmitter())
    return diff_nodes(eager.values, eager.outputs, side, given.inputs, given.constants)


@pytest.mark.parametrize("kind", ["operators", "kernels", "pools"])
def test_a_right_program_agrees(kind: str) -> None:
    found = beside_eager(kind, captured(kind).program)
    assert isinstance(found, Agreement), found
    assert found.compared >= 20


def test_a_wrong_constant_is_named() -> None:
    program = captured("operators").program
    found = beside_eager("operators", where(defines("mul_1"), other_constant)(program))
    assert isinstance(found, Difference)
    assert found.subject == "%mul_1"


def test_a_miscompiled_kernel_is_named() -> None:
    name = "reduce_mul_softmax_3_and_1_more_1"
    program = source(name, r"0\.35\w*", "0.36f")(captured("kernels").program)
    found = beside_eager("kernels", program)
    assert isinstance(found, Difference)
    line = next(i for i, line in enumerate(program.lines) if calls(name)(line))
    assert found.path == ("lines", line)
    assert found.diagnostic.origin is not None


def test_outputs_are_compared_where_no_line_is() -> None:
    program = captured("operators").program
    lines = tuple(evolve(line, provenance=None) for line in program.lines)
    wrong = where(defines("mul_1"), other_constant)(evolve(program, lines=lines))
    found = beside_eager("operators", wrong)
    assert isinstance(found, Difference)
    assert found.path == ("outputs", 0)


def test_inputs_are_copied() -> None:
    x = torch.randn(2, 8, 16)
    before = x.clone()
    run = run_eagerly(decomposed(exported()), [x])
    assert x.equal(before)
    assert run.outputs[0] is not None
