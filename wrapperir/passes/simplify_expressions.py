"""Simplify the expressions of a program: sizes, strides, arguments, conditions."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from attrs import evolve

from wrapperir.analysis.arithmetic import CONDITIONS
from wrapperir.ir import (
    EvaluationError,
    Expr,
    ExprOp,
    Operation,
    Program,
    Symbol,
    SymbolDefinitionLine,
    SymbolKind,
    evaluate,
    symbols_in,
)
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.rewriting import rewrite_but_definitions, rewrite_expressions

if TYPE_CHECKING:
    import sympy  # pyright: ignore[reportMissingTypeStubs]


_INTEGER_OPS = frozenset(ExprOp) - {
    *(ExprOp.TRUEDIV, ExprOp.ABS, ExprOp.TO_FLOAT, ExprOp.FLOOR, ExprOp.CEIL),
    *(ExprOp.TRUNC, ExprOp.ROUND, ExprOp.SQRT, ExprOp.LOG2),
}
"""Operations that sympy may rewrite: its rules for integers do not hold for floats."""

_MAX_NODES = 200
"""Larger expressions are only folded, since sympy's time may grow faster than linear."""


def simplify_expressions(program: Program) -> Program:
    """Return the program with shorter expressions of the same value.

    Before::

        program @main(%x: f32[s0, 64]) {
          symbol s0: int 1.. = size(%x, 0)

          %view0 = reinterpret %x as f32[s0 * 64 // 64, 2 * 32]
          return %view0
        }

    After::

        program @main(%x: f32[s0, 64]) {
          symbol s0: int 1.. = size(%x, 0)

          %view0 = reinterpret %x as f32[s0, 64]
          return %view0
        }

    Operations on numbers are folded everywhere but in kernels' own metadata.  Integer
    expressions go through sympy, with the bounds of the symbols, and are replaced where
    that makes them shorter.  A division that faults when the program runs may go when
    its value is not needed.
    """
    lines = walk_lines((*program.symbols, *program.lines))
    simplifier = _Simplifier(x for x in lines if isinstance(x, SymbolDefinitionLine))
    simplified = rewrite_but_definitions(program, simplifier.simplify)
    folded = rewrite_expressions(program.definitions, fold_constants)
    return evolve(simplified, definitions=folded)


def fold_constants(expr: Expr) -> Expr:
    """Return ``expr`` with each operation on numbers replaced by its value.

    An operation without a value, such as a division by zero, stays: the error belongs to
    the run.  Whole numbers stay ints and other numbers floats.
    """
    if not isinstance(expr, Operation):
        return expr
    args = tuple(fold_constants(arg) for arg in expr.args)
    same = all(new is old for new, old in zip(args, expr.args, strict=True))
    folded = expr if same else Operation(expr.op, args)
    if all(isinstance(arg, int | float) for arg in args):
        try:
            return evaluate(folded, {})
        except EvaluationError:
            pass
    return folded


class _Simplifier:
    def __init__(self, definitions: Iterable[SymbolDefinitionLine]) -> None:
        self._definitions = {line.symbol: line for line in definitions}
        self._symbols: dict[str, sympy.Symbol] = {}
        self._done: dict[Operation, Expr] = {}

    def simplify(self, expr: Symbol | Operation) -> Expr:
        folded = fold_constants(expr)
        # Checked before the look-up, where 1 and 1.0 are one key.
        if not isinstance(folded, Operation) or not self._is_integer(folded):
            return folded
        done = self._done.get(folded)
        if done is None:
            done = self._done[folded] = self._shorten(folded)
        return done

    def _shorten(self, expr: Expr) -> Expr:
        while 1 < (nodes := _count_nodes(expr)) <= _MAX_NODES:
            candidate = self._through_sympy(expr)
            if _count_nodes(candidate) >= nodes:
                break
            expr = candidate
        return expr

    def _through_sympy(self, expr: Expr) -> Expr:
        from wrapperir.symbolic import integer_functions, lower_sympy, to_sympy

        for name in symbols_in(expr):
            if name not in self._symbols:
                self._symbols[name] = _sympy_symbol(name, self._definitions[name].lower)
        return fold_constants(lower_sympy(to_sympy(expr, self._symbols, integer_functions)))

    def _is_integer(self, expr: Expr) -> bool:
        if isinstance(expr, Symbol):
            definition = self._definitions.get(expr.name)
            return definition is not None and definition.kind is not SymbolKind.FLOAT
        if not isinstance(expr, Operation):
            return isinstance(expr, int)
        if expr.op is ExprOp.POW:
            exponent = expr.args[1]
            if not isinstance(exponent, int) or exponent < 0:
                return False
        if expr.op not in CONDITIONS:
            # To sympy a bool used as a number is an int, so the kind could change.
            values = expr.args[1:] if expr.op is ExprOp.WHERE else expr.args
            if any(map(self._is_condition, values)):
                return False
        return expr.op in _INTEGER_OPS and all(map(self._is_integer, expr.args))

    def _is_condition(self, expr: Expr) -> bool:
        if isinstance(expr, Symbol):
            definition = self._definitions.get(expr.name)
            return definition is not None and definition.kind is SymbolKind.BOOL
        if isinstance(expr, Operation):
            return expr.op in CONDITIONS
        return isinstance(expr, bool)


def _sympy_symbol(name: str, lower: int | None) -> "sympy.Symbol":
    import sympy  # pyright: ignore[reportMissingTypeStubs]

    positive = True if lower is not None and lower >= 1 else None
    nonnegative = True if lower is not None and lower >= 0 else None
    return sympy.Symbol(name, integer=True, positive=positive, nonnegative=nonnegative)


def _count_nodes(expr: Expr) -> int:
    """Return how many numbers, symbols and operations ``expr`` is made of."""
    if isinstance(expr, Operation):
        return 1 + sum(map(_count_nodes, expr.args))
    return 1
