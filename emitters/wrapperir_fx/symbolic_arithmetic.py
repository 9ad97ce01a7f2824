"""Operators of expressions, applied to numbers and to PyTorch's symbolic numbers."""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch

from wrapperir.emit.number_kinds import ALWAYS_BOOL, ALWAYS_FLOAT, ALWAYS_WHOLE
from wrapperir.ir import ExprOp, Operation, SymbolKind, evaluate

SymbolicNumber: TypeAlias = (
    int | float | bool | torch.SymInt | torch.SymFloat | torch.SymBool
)
"""A known number, or PyTorch's symbol for one that is known at run time."""

LARGEST_POWER = 16
"""Exponents up to which ``**`` is quick, whatever the base."""
_sym: Any = torch  # it has no types for these functions


def apply(op: ExprOp, args: Sequence[SymbolicNumber]) -> SymbolicNumber:
    """Return the result of an operator; one that is variadic is given two numbers.

    Raises:
        EvaluationError: the numbers are known, and the operation has no value.
        Exception: PyTorch cannot compute it from symbols, or has no such operation.
    """
    known = [arg for arg in args if isinstance(arg, int | float)]
    if len(known) == len(args):
        return evaluate(Operation(op, tuple(known)), {})
    logic = _LOGIC.get(op)
    if logic is not None:
        return logic(args)
    counted = [_counted(arg) for arg in args]
    result: SymbolicNumber = ARITHMETIC[op](*counted)
    return result


def kind_of_result(op: ExprOp, args: Sequence[SymbolicNumber]) -> SymbolKind:
    """Return the kind of an operator's result: an int, a float or a bool."""
    if op in ALWAYS_BOOL:
        return SymbolKind.BOOL
    if op in ALWAYS_WHOLE:
        return SymbolKind.INT
    floats = any(isinstance(arg, float | torch.SymFloat) for arg in args)
    return SymbolKind.FLOAT if floats or op in ALWAYS_FLOAT else SymbolKind.INT


def convert(number: SymbolicNumber, kind: SymbolKind) -> SymbolicNumber:
    """Return a number as an int, a float or a bool.

    Raises:
        ValueError: an int is wanted, and the number is known not to be whole.
        Exception: as :func:`apply`.
    """
    match kind:
        case SymbolKind.FLOAT:
            result: SymbolicNumber = _sym.sym_float(_counted(number))
        case SymbolKind.BOOL:
            result = _truth(number)
        case SymbolKind.INT:
            if isinstance(number, float) and not number.is_integer():
                raise ValueError(f"{number} is not a whole number")
            result = _sym.sym_int(_counted(number))
    return result


def _truth(number: SymbolicNumber) -> SymbolicNumber:
    return number if isinstance(number, bool | torch.SymBool) else number != 0


def _counted(number: SymbolicNumber) -> Any:
    """Return a number with a bool turned into 0 or 1."""
    if isinstance(number, bool):
        return int(number)
    return _sym.sym_ite(number, 1, 0) if isinstance(number, torch.SymBool) else number


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(exponent, int) and abs(exponent) <= LARGEST_POWER:
        return base**exponent
    raise OverflowError("the power is large, and PyTorch would compute it")


def _choose(args: Sequence[SymbolicNumber]) -> SymbolicNumber:
    condition = _truth(args[0])
    if isinstance(condition, bool):
        return args[1] if condition else args[2]
    raise TypeError("the condition is known at run time only")


_LOGIC: Mapping[ExprOp, Callable[[Sequence[SymbolicNumber]], SymbolicNumber]] = {
    ExprOp.AND: lambda args: operator.and_(*map(_truth, args)),
    ExprOp.OR: lambda args: operator.or_(*map(_truth, args)),
    ExprOp.NOT: lambda args: _sym.sym_not(_truth(args[0])),
    ExprOp.WHERE: _choose,
}
ARITHMETIC: Mapping[ExprOp, Callable[..., Any]] = {
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
