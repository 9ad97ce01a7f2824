"""Runs programs through the C++ emitter and the interpreter."""

import copy
from collections.abc import Mapping, Sequence

import pytest
import torch

from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import Loaded, Value
from wrapperir.interp import interpret
from wrapperir.ir import Program
from wrapperir.text import parse_program
from wrapperir.verify import verify
from wrapperir_cpp.emitter import CppEmitter


def load(program: Program, constants: Mapping[str, torch.Tensor]) -> Loaded:
    """Return a program, compiled."""
    emitter = CppEmitter()
    return emitter.load(emitter.emit(program), constants)


def parsed(text: str) -> Program:
    """Return the program of a text without its first line; it is valid."""
    program = parse_program("wrapperir 1\n" + text)
    assert verify(program) == ()
    return program


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
            assert type(a) is type(b), (a, b)
            assert a == b or (a != a and b != b)


def run_both(text: str, *inputs: Value) -> tuple[Value, ...]:
    """Run a program both ways; return the outputs, which are the same."""
    program = parsed(text)
    outputs = load(program, {})(list(copy.deepcopy(inputs)))
    assert_same(outputs, interpret(program, inputs, {}))
    return outputs


def refused(text: str, *inputs: Value) -> str:
    """Return what the C++ says of inputs that the interpreter refuses, too."""
    program = parsed(text)
    call = load(program, {})
    with pytest.raises(DiagnosticError):
        interpret(program, inputs, {})
    with pytest.raises(RuntimeError) as caught:
        call(list(inputs))
    return str(caught.value)
