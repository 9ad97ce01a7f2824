"""Runs programs through the Python emitter and the interpreter."""

import copy
from collections.abc import Mapping, Sequence

import pytest
import torch

from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import Value
from wrapperir.interp import interpret
from wrapperir.ir import Program
from wrapperir.testing.inputs import example_constants, example_inputs
from wrapperir.text import parse_program
from wrapperir.verify import verify
from wrapperir_python.emitter import PythonEmitter


def run_emitted(
    program: Program, inputs: Sequence[Value], constants: Mapping[str, torch.Tensor]
) -> tuple[Value, ...]:
    emitter = PythonEmitter()
    return emitter.load(emitter.emit(program), constants)(list(inputs))


def assert_same(left: Sequence[Value], right: Sequence[Value]) -> None:
    """Assert equality, bit for bit."""
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        if isinstance(a, torch.Tensor):
            assert isinstance(b, torch.Tensor)
            assert (a.dtype, a.shape, a.device) == (b.dtype, b.shape, b.device)
            if a.numel():
                assert all(
                    size == 1 or s == t
                    for size, s, t in zip(a.shape, a.stride(), b.stride(), strict=True)
                )
            torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)
        else:
            assert type(a) is type(b)
            assert a == b or (a != a and b != b)


def assert_runs_as_interpreted(program: Program, seed: int = 0) -> tuple[Value, ...]:
    """Run twice each way, on equal inputs; compare outputs and what was mutated."""
    emitter = PythonEmitter()
    inputs = [example_inputs(program, seed), example_inputs(program, seed)]
    constants = [example_constants(program, seed), example_constants(program, seed)]
    wanted = interpret(program, inputs[0], constants[0])
    given = list(inputs[1])
    call = emitter.load(emitter.emit(program), constants[1])
    outputs = call(given)
    assert given == []
    assert_same(outputs, wanted)
    assert_same(inputs[1], inputs[0])
    assert_same(list(constants[1].values()), list(constants[0].values()))
    assert_same(call(copy.deepcopy(inputs[0])), interpret(program, inputs[0], constants[0]))
    return outputs


def run_both(text: str, *inputs: Value) -> tuple[Value, ...]:
    """Run a program both ways; return the outputs, which are the same."""
    program = parse_program("wrapperir 1\n" + text)
    assert verify(program) == ()
    outputs = run_emitted(program, inputs, {})
    assert_same(outputs, interpret(program, inputs, {}))
    return outputs


def refuse_both(text: str, *inputs: Value) -> str:
    """Return what the Python says of inputs that the interpreter refuses, too."""
    program = parse_program("wrapperir 1\n" + text)
    emitter = PythonEmitter()
    call = emitter.load(emitter.emit(program), {})
    with pytest.raises((RuntimeError, ValueError, TypeError, OverflowError)) as caught:
        call(list(inputs))
    with pytest.raises(DiagnosticError):
        interpret(program, inputs, {})
    return str(caught.value)
