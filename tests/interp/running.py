"""Run programs written as text."""

import textwrap
from collections.abc import Mapping, Sequence

import pytest
import torch

from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.emit import Value
from wrapperir.interp import interpret
from wrapperir.ir import Program
from wrapperir.text import parse_program


def read(text: str) -> Program:
    return parse_program("wrapperir 1\n" + textwrap.dedent(text))


def run(
    text: str, *inputs: Value, constants: Mapping[str, torch.Tensor] | None = None
) -> tuple[Value, ...]:
    return interpret(read(text), inputs, constants or {})


def fault(
    text: str, *inputs: Value, constants: Mapping[str, torch.Tensor] | None = None
) -> Diagnostic:
    """Return the one diagnostic of a program that must fault."""
    return fault_of(read(text), inputs, constants or {})


def fault_of(
    program: Program,
    inputs: Sequence[Value] = (),
    constants: Mapping[str, torch.Tensor] | None = None,
) -> Diagnostic:
    with pytest.raises(DiagnosticError) as caught:
        interpret(program, inputs, constants or {})
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.path is not None
    return diagnostic


def code(text: str, *inputs: Value) -> Code:
    return fault(text, *inputs).code
