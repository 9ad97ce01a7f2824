"""Results whose types mention symbols that the lines directly after them define."""

import pytest
import torch

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.interp import interpret
from wrapperir.ir import Expr, Program, SizeOf, Symbol, tensor
from wrapperir.ir.builder import ProgramBuilder

U0 = Symbol("u0")


def program(last: Expr) -> Program:
    b = ProgramBuilder()
    x = b.input(tensor("f32", (4,)), name="x")
    type = tensor("i64", (U0, last), (1, U0))
    y = b.extern("aten.nonzero.default", x, type=type, name="y")
    b.define_symbol("u0", SizeOf(y.name, 0))
    return b.build(y, U0)


def test_the_result_is_compared_once_the_symbol_has_its_value() -> None:
    y, size = interpret(program(1), [torch.tensor([0.0, 1.0, 0.0, 2.0])], {})
    assert size == 2
    assert isinstance(y, torch.Tensor)
    assert y.tolist() == [[1], [3]]


def test_a_wrong_size_is_found_then() -> None:
    with pytest.raises(DiagnosticError) as raised:
        interpret(program(U0), [torch.tensor([0.0, 1.0, 0.0, 2.0])], {})
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.code is Code.RUN_RESULT_MISMATCH
    assert diagnostic.path == ("lines", 0)
