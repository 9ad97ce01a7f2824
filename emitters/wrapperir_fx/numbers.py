"""Scalar expressions as nodes: one for each operation that a graph computes."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false, reportPrivateUsage=false

import math
import operator
from collections.abc import Callable, Mapping, Sequence

import torch

from wrapperir.emit.number_kinds import NumberKinds
from wrapperir.ir.expr import Expr, ExprOp, Operation, Symbol, symbols_in
from wrapperir.ir.line import SymbolKind
from wrapperir.text import format_expr
from wrapperir_fx import functions
from wrapperir_fx.fake_values import FakeValues
from wrapperir_fx.nodes import GraphNodes, Number

_CALLS: Mapping[ExprOp, Callable[..., object]] = {
    ExprOp.SUB: operator.sub,
    ExprOp.TRUEDIV: operator.truediv,
    ExprOp.FLOORDIV: operator.floordiv,
    ExprOp.MOD: operator.mod,
    ExprOp.POW: functions.power,
    ExprOp.NEG: operator.neg,
    ExprOp.CEILDIV: functions.ceildiv,
    ExprOp.ABS: operator.abs,
    ExprOp.EQ: operator.eq,
    ExprOp.NE: operator.ne,
    ExprOp.LT: operator.lt,
    ExprOp.LE: operator.le,
    ExprOp.GT: operator.gt,
    ExprOp.GE: operator.ge,
    ExprOp.AND: functions.every,
    ExprOp.OR: functions.some,
    ExprOp.NOT: operator.not_,
    ExprOp.WHERE: functions.choose,
    ExprOp.SHL: functions.shift_left,
    ExprOp.SHR: functions.shift_right,
    ExprOp.BITAND: functions.bit_and,
    ExprOp.BITOR: functions.bit_or,
    ExprOp.BITXOR: functions.bit_xor,
    ExprOp.TO_FLOAT: functions.real,
    ExprOp.FLOOR: math.floor,
    ExprOp.CEIL: math.ceil,
    ExprOp.TRUNC: math.trunc,
    ExprOp.ROUND: round,
    ExprOp.SQRT: math.sqrt,
    ExprOp.LOG2: math.log2,
}
_LEFT_TO_RIGHT: Mapping[ExprOp, Callable[..., object]] = {
    ExprOp.ADD: operator.add,
    ExprOp.MUL: operator.mul,
}
_EXTREMES: Mapping[ExprOp, tuple[Callable[..., object], Callable[..., object]]] = {
    ExprOp.MIN: (torch.sym_min, min),
    ExprOp.MAX: (torch.sym_max, max),
}
_LAZY = frozenset({ExprOp.WHERE, ExprOp.AND, ExprOp.OR})
_NEVER_FAULT = frozenset(
    {
        *(ExprOp.ADD, ExprOp.SUB, ExprOp.MUL, ExprOp.NEG, ExprOp.ABS),
        *(ExprOp.MIN, ExprOp.MAX, ExprOp.NOT, *_LAZY),
        *(ExprOp.EQ, ExprOp.NE, ExprOp.LT, ExprOp.LE, ExprOp.GT, ExprOp.GE),
    }
)


class Numbers:
    """Numbers of one graph; ``symbols`` has those of the program that it knows."""

    def __init__(self, nodes: GraphNodes, fakes: FakeValues, kinds: NumberKinds) -> None:
        """Start with no symbols."""
        self.symbols: dict[str, Number] = {}
        self._nodes = nodes
        self._fakes = fakes
        self._kinds = kinds
        self._made: dict[tuple[Callable[..., object] | None, Expr], Number] = {}

    def value(self, expr: Expr) -> Number:
        """Return the value of ``expr``; that of a condition is a ``bool``."""
        if isinstance(expr, Symbol):
            return self.symbols[expr.name]
        if not isinstance(expr, Operation):
            return expr
        key = (None, expr)
        known = self._made.get(key)
        if known is None:
            known = self._made[key] = self._operation(expr)
        return known

    def index(self, expr: Expr) -> Number:
        """Return the value of ``expr`` as an int; the graph faults where it is not whole."""
        if isinstance(expr, bool | int):
            return int(expr)
        if self._kinds.may_be_float(expr) or self._kinds.may_be_bool(expr):
            return self.converted(functions.whole, expr)
        return self.value(expr)

    def indices(self, exprs: Sequence[Expr]) -> tuple[Number, ...]:
        """Return ints, such as a size."""
        return tuple([e if type(e) is int else self.index(e) for e in exprs])

    def of_kind(self, expr: Expr, kind: SymbolKind) -> Number:
        """Return the value of ``expr`` as a number of a kind."""
        match kind:
            case SymbolKind.INT:
                return self.index(expr)
            case SymbolKind.FLOAT:
                if isinstance(expr, int | float):
                    return float(expr)
                return self.converted(functions.real, expr)
            case SymbolKind.BOOL:
                return self.condition(expr)

    def condition(self, expr: Expr) -> Number:
        """Return whether ``expr`` is not zero, as a ``bool``."""
        if isinstance(expr, int | float):
            return bool(expr)
        if self._kinds.is_bool(expr):
            return self.value(expr)
        return self.converted(functions.truth, expr)

    def converted(self, function: Callable[..., object], expr: Expr) -> Number:
        """Return what ``function`` makes of the value of ``expr``."""
        key = (function, expr)
        known = self._made.get(key)
        if known is None:
            val = self._fakes.converted(function, expr)
            known = self._nodes.call(function, (self.value(expr),), val=val)
            self._made[key] = known
        return known

    def _operation(self, expr: Operation) -> Number:
        op = expr.op
        if op in _LAZY and any(map(_may_fault, expr.args[1:])):
            symbols = {name: self.symbols[name] for name in symbols_in(expr)}
            text = format_expr(expr)
            val = self._fakes.number(expr)
            return self._nodes.call(functions.evaluate, (text,), symbols, val=val)
        args = [self.value(arg) for arg in expr.args]
        if op in _LEFT_TO_RIGHT:
            total, function = args[0], _LEFT_TO_RIGHT[op]
            for count, arg in enumerate(args[1:], start=2):
                partial = Operation(op, expr.args[:count])
                val = self._fakes.number(partial)
                total = self._nodes.call(function, (total, arg), val=val)
            return total
        val = self._fakes.number(expr)
        if op in _EXTREMES:
            of_ints, of_any = _EXTREMES[op]
            kinds = self._kinds
            plain = not any(kinds.may_be_float(a) or kinds.may_be_bool(a) for a in expr.args)
            if not plain or len(args) != 2:
                return self._nodes.call(of_any, tuple(args), val=val)
            return self._nodes.call(of_ints, tuple(args), val=val)
        return self._nodes.call(_CALLS[op], tuple(args), val=val)


def _may_fault(expr: Expr) -> bool:
    """Say whether evaluating ``expr`` may have no value."""
    if not isinstance(expr, Operation):
        return False
    if expr.op not in _NEVER_FAULT:
        divides = expr.op in (ExprOp.FLOORDIV, ExprOp.MOD, ExprOp.CEILDIV)
        if not divides or not isinstance(expr.args[1], int) or expr.args[1] == 0:
            return True
    return any(map(_may_fault, expr.args))
