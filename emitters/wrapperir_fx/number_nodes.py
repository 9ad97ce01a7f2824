"""Scalar expressions as nodes, one for each distinct operation."""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import torch
from torch.fx import Node
from torch.fx.node import Argument

from wrapperir.emit.number_kinds import NumberKinds
from wrapperir.fx import functions
from wrapperir.ir import VARIADIC, Expr, ExprOp, Operation, Symbol, SymbolKind, symbols_in
from wrapperir.text import format_expr
from wrapperir_fx.fake_values import FakeValues
from wrapperir_fx.nodes import GraphNodes, GraphNumber
from wrapperir_fx.symbolic_arithmetic import ARITHMETIC, LARGEST_POWER, SymbolicNumber

_sym: Any = torch  # it has no types for these functions
_NumberFunction: TypeAlias = Callable[..., Any]

CONVERSIONS: Mapping[SymbolKind, _NumberFunction] = {
    SymbolKind.INT: functions.whole,
    SymbolKind.FLOAT: functions.real,
    SymbolKind.BOOL: functions.truth,
}
"""The function that converts a number to a kind."""
_CALLS: Mapping[ExprOp, _NumberFunction] = {
    **ARITHMETIC,
    ExprOp.POW: functions.power,
    ExprOp.CEILDIV: functions.ceildiv,
    ExprOp.NOT: _sym.sym_not,
    ExprOp.WHERE: functions.choose,
    ExprOp.SHL: functions.shift_left,
    ExprOp.SHR: functions.shift_right,
    ExprOp.BITAND: functions.bit_and,
    ExprOp.BITOR: functions.bit_or,
    ExprOp.BITXOR: functions.bit_xor,
    ExprOp.SQRT: math.sqrt,
    ExprOp.LOG2: math.log2,
    ExprOp.MIN: min,
    ExprOp.MAX: max,
    ExprOp.AND: operator.and_,
    ExprOp.OR: operator.or_,
}
# Operators whose arithmetic on ints a tracer follows better than the function called
# otherwise; that of other numbers has another value or type.
_OF_INTS = frozenset(
    {
        *(ExprOp.MIN, ExprOp.MAX, ExprOp.SHR),
        *(ExprOp.BITAND, ExprOp.BITOR, ExprOp.BITXOR),
    }
)
_LOGIC = frozenset({ExprOp.AND, ExprOp.OR})
_LAZY = frozenset({ExprOp.WHERE, *_LOGIC})
_DIVISIONS = frozenset({ExprOp.TRUEDIV, ExprOp.FLOORDIV, ExprOp.MOD, ExprOp.CEILDIV})
_NEVER_FAULT = frozenset(
    {
        *(ExprOp.ADD, ExprOp.SUB, ExprOp.MUL, ExprOp.NEG, ExprOp.ABS, ExprOp.TO_FLOAT),
        *(ExprOp.MIN, ExprOp.MAX, ExprOp.NOT, *_LAZY),
        *(ExprOp.EQ, ExprOp.NE, ExprOp.LT, ExprOp.LE, ExprOp.GT, ExprOp.GE),
    }
)


class NumberNodes:
    """Expressions as numbers of one graph; ``symbols`` maps each symbol to its number."""

    def __init__(self, nodes: GraphNodes, fakes: FakeValues, kinds: NumberKinds) -> None:
        """Start with no symbols."""
        self.symbols: dict[str, GraphNumber] = {}
        self._nodes = nodes
        self._fakes = fakes
        self._kinds = kinds
        self._made: dict[tuple[object, ...], Node] = {}

    def value(self, expr: Expr) -> GraphNumber:
        """Return the value of ``expr``; that of a condition is a ``bool``."""
        if isinstance(expr, Symbol):
            return self.symbols[expr.name]
        if not isinstance(expr, Operation):
            return expr
        if expr.op in _LAZY and any(map(_may_fault, expr.args[1:])):
            return self._evaluated(expr)
        target = self._target(expr)
        if expr.op in VARIADIC:
            return self._chain(target, expr)
        args = tuple(map(self.value, expr.args))
        return self._computed(target, args, expr.op)

    def index(self, expr: Expr) -> GraphNumber:
        """Return the value of ``expr`` as an int; a value that is not whole is a fault."""
        if isinstance(expr, int) or (isinstance(expr, float) and expr.is_integer()):
            return int(expr)
        if self._kinds.may_be_float(expr) or self._kinds.may_be_bool(expr):
            return self._converted(SymbolKind.INT, expr)
        return self.value(expr)

    def indices(self, exprs: Sequence[Expr]) -> tuple[GraphNumber, ...]:
        """Return ints, such as a size."""
        return tuple([e if type(e) is int else self.index(e) for e in exprs])

    def of_kind(self, expr: Expr, kind: SymbolKind) -> GraphNumber:
        """Return the value of ``expr`` as a number of a kind."""
        match kind:
            case SymbolKind.INT:
                return self.index(expr)
            case SymbolKind.FLOAT:
                if isinstance(expr, int | float):
                    return float(expr)
                return self._converted(SymbolKind.FLOAT, expr)
            case SymbolKind.BOOL:
                return self.condition(expr)

    def complex(self, real: float, imaginary: float) -> Argument:
        """Return a complex number."""
        number = complex(real, imaginary)
        if math.isfinite(real) and math.isfinite(imaginary) and real and imaginary:
            return number
        # Python's repr is not exact for these: -0.0 becomes 0.0, and infj is a name.
        return self._nodes.call(complex, (real, imaginary), val=number)

    def condition(self, expr: Expr) -> GraphNumber:
        """Return whether ``expr`` is not zero, as a ``bool``."""
        if isinstance(expr, int | float):
            return bool(expr)
        if self._kinds.is_bool(expr):
            return self.value(expr)
        return self._converted(SymbolKind.BOOL, expr)

    def _target(self, expr: Operation) -> _NumberFunction:
        """Return the function of two or more numbers that an operation calls."""
        kinds, op = self._kinds, expr.op
        if op in _OF_INTS and not any(
            kinds.may_be_float(arg) or kinds.may_be_bool(arg) for arg in expr.args
        ):
            return ARITHMETIC[op]
        if op is ExprOp.POW:
            base, exponent = expr.args
            is_small = isinstance(exponent, int) and 0 <= exponent <= LARGEST_POWER
            # Code of graphs has no parentheses around a negative base that is a literal.
            if is_small and not isinstance(base, int | float):
                return operator.pow
        return _CALLS[op]

    def _chain(self, target: _NumberFunction, expr: Operation) -> GraphNumber:
        """Return the result of a variadic operation, by twos from the left."""
        of = self.condition if expr.op in _LOGIC else self.value
        total = of(expr.args[0])
        for arg in expr.args[1:]:
            total = self._computed(target, (total, of(arg)), expr.op)
        return total

    def _evaluated(self, expr: Operation) -> Node:
        """Return the value of an expression with an operand that must not be evaluated."""
        values = {name: self.symbols[name] for name in symbols_in(expr)}
        text = format_expr(expr)
        key = (functions.evaluate, text)  # a graph has one value of a symbol
        known = self._made.get(key)
        if known is None:
            args: tuple[Argument, ...] = (text, values)
            val = self._fakes.number(expr)
            known = self._nodes.call(functions.evaluate, args, val=val)
            self._made[key] = known
        return known

    def _converted(self, kind: SymbolKind, expr: Expr) -> Node:
        """Return the value of ``expr`` as a number of a kind."""
        value, target = self.value(expr), CONVERSIONS[kind]
        key = (target, _exact(value))
        known = self._made.get(key)
        if known is None:
            val = self._fakes.converted(_look(value), kind)
            known = self._made[key] = self._nodes.call(target, (value,), val=val)
        return known

    def _computed(
        self, target: _NumberFunction, args: tuple[GraphNumber, ...], op: ExprOp
    ) -> Node:
        key = (target, *map(_exact, args))
        known = self._made.get(key)
        if known is None:
            val = self._fakes.computed(op, [_look(arg) for arg in args])
            known = self._made[key] = self._nodes.call(target, args, val=val)
        return known


def _look(number: GraphNumber) -> SymbolicNumber:
    """Return a number's symbolic value; each node of a number has a ``val``."""
    return cast(SymbolicNumber, number.meta["val"]) if isinstance(number, Node) else number


def _exact(number: GraphNumber) -> object:
    """Return a key that differs for 1, 1.0 and True, and for 0.0 and -0.0."""
    return number if isinstance(number, Node) else (type(number), repr(number))


def _may_fault(expr: Expr) -> bool:
    """Return whether ``expr`` may have no value."""
    if not isinstance(expr, Operation):
        return False
    if expr.op in _DIVISIONS:
        divisor = expr.args[1]
        if not isinstance(divisor, int | float) or divisor == 0:
            return True
    elif expr.op not in _NEVER_FAULT:
        return True
    return any(map(_may_fault, expr.args))
