"""The operators of expressions over numbers that PyTorch knows only by symbols."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch

from wrapperir.ir.expr import ExprOp, Operation, evaluate
from wrapperir.ir.line import SymbolKind

FakeNumber: TypeAlias = int | float | bool | torch.SymInt | torch.SymFloat | torch.SymBool
"""A number that is known, or what stands for one that only the run knows."""

_LARGEST_POWER = 16
_sym: Any = torch  # it has no types for these functions


def apply(op: ExprOp, args: Sequence[FakeNumber]) -> FakeNumber:
    """Return what an operator makes of numbers, of two where it takes two or more.

    Raises:
        EvaluationError: the numbers are known, and the operation has no value.
        Exception: PyTorch cannot say without knowing more, or has no such operation.
    """
    known = [arg for arg in args if isinstance(arg, int | float)]
    if len(known) == len(args):
        return evaluate(Operation(op, tuple(known)), {})
    logic = _LOGIC.get(op)
    if logic is not None:
        return logic(args)
    counted = [_counted(arg) for arg in args]
    result: FakeNumber = _ARITHMETIC[op](*counted)
    return result


def kind_of_result(op: ExprOp, args: Sequence[FakeNumber]) -> SymbolKind:
    """Return what an operator makes of numbers: an int, a float or a bool."""
    if op in _MAKE_BOOLS:
        return SymbolKind.BOOL
    if op in _MAKE_INTS:
        return SymbolKind.INT
    floats = any(isinstance(arg, float | torch.SymFloat) for arg in args)
    return SymbolKind.FLOAT if floats or op in _MAKE_FLOATS else SymbolKind.INT


def convert(number: FakeNumber, kind: SymbolKind) -> FakeNumber:
    """Return a number as an int, a float or a bool.

    Raises:
        ValueError: an int is wanted, and the number is known not to be whole.
        Exception: as :func:`apply`.
    """
    match kind:
        case SymbolKind.FLOAT:
            result: FakeNumber = _sym.sym_float(_counted(number))
        case SymbolKind.BOOL:
            result = _truth(number)
        case SymbolKind.INT:
            if isinstance(number, float) and not number.is_integer():
                raise ValueError(f"{number} is not a whole number")
            result = _sym.sym_int(_counted(number))
    return result


def _truth(number: FakeNumber) -> FakeNumber:
    return number if isinstance(number, bool | torch.SymBool) else number != 0


def _counted(number: FakeNumber) -> Any:
    """Return a number to compute with: a bool is 0 or 1."""
    if isinstance(number, bool):
        return int(number)
    return _sym.sym_ite(number, 1, 0) if isinstance(number, torch.SymBool) else number


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(exponent, int) and abs(exponent) <= _LARGEST_POWER:
        return base**exponent
    raise OverflowError("what it comes to is large, and PyTorch computes it")


def _choose(args: Sequence[FakeNumber]) -> FakeNumber:
    condition = _truth(args[0])
    if isinstance(condition, bool):
        return args[1] if condition else args[2]
    raise TypeError("only the run knows which")


_LOGIC: Mapping[ExprOp, Callable[[Sequence[FakeNumber]], FakeNumber]] = {
    ExprOp.AND: lambda args: operator.and_(*map(_truth, args)),
    ExprOp.OR: lambda args: operator.or_(*map(_truth, args)),
    ExprOp.NOT: lambda args: _sym.sym_not(_truth(args[0])),
    ExprOp.WHERE: _choose,
}
_ARITHMETIC: Mapping[ExprOp, Callable[..., Any]] = {
    ExprOp.ADD: operator.add,
    ExprOp.MUL: operator.mul,
    ExprOp.MIN: _sym.sym_min,
    ExprOp.MAX: _sym.sym_max,
    ExprOp.SUB: operator.sub,
    ExprOp.TRUEDIV: operator.truediv,
    ExprOp.FLOORDIV: operator.floordiv,
    ExprOp.MOD: operator.mod,
    ExprOp.POW: _power,
    ExprOp.NEG: operator.neg,
    ExprOp.CEILDIV: lambda left, right: -(-left // right),
    ExprOp.ABS: operator.abs,
    ExprOp.EQ: operator.eq,
    ExprOp.NE: operator.ne,
    ExprOp.LT: operator.lt,
    ExprOp.LE: operator.le,
    ExprOp.GT: operator.gt,
    ExprOp.GE: operator.ge,
    ExprOp.SHL: operator.lshift,
    ExprOp.SHR: operator.rshift,
    ExprOp.BITAND: operator.and_,
    ExprOp.BITOR: operator.or_,
    ExprOp.BITXOR: operator.xor,
    ExprOp.TO_FLOAT: _sym.sym_float,
    ExprOp.FLOOR: math.floor,
    ExprOp.CEIL: math.ceil,
    ExprOp.TRUNC: math.trunc,
    ExprOp.ROUND: round,
    ExprOp.SQRT: _sym.sym_sqrt,
    ExprOp.LOG2: _sym._sym_log2,
}
_MAKE_BOOLS = frozenset(
    {
        *(ExprOp.EQ, ExprOp.NE, ExprOp.LT, ExprOp.LE, ExprOp.GT, ExprOp.GE),
        *(ExprOp.AND, ExprOp.OR, ExprOp.NOT),
    }
)
_MAKE_INTS = frozenset(
    {
        *(ExprOp.FLOOR, ExprOp.CEIL, ExprOp.TRUNC, ExprOp.ROUND),
        *(ExprOp.SHL, ExprOp.SHR, ExprOp.BITAND, ExprOp.BITOR, ExprOp.BITXOR),
    }
)
_MAKE_FLOATS = frozenset({ExprOp.TRUEDIV, ExprOp.TO_FLOAT, ExprOp.SQRT, ExprOp.LOG2})
