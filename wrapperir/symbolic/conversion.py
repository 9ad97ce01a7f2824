"""Lowering of sympy expressions to ours by structure, and the reverse.

Functions are told apart by class name, so that lowering needs neither sympy nor torch
to be imported.  It handles sympy's functions and ``torch.utils._sympy.functions``.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from wrapperir.diagnostics import Code
from wrapperir.ir import RESERVED_SYMBOLS, Expr, ExprOp, Operation, Symbol, is_identifier

if TYPE_CHECKING:
    import sympy  # pyright: ignore[reportMissingTypeStubs]

    SympyValue: TypeAlias = sympy.Basic | int | float | bool

_Basic: TypeAlias = Any
"""A ``sympy.Basic``; sympy says little of what its attributes are."""


def lower_sympy(expr: "SympyValue") -> Expr:
    """Return ``expr`` as an expression of the same value.

    Numbers of sympy that are not whole become true divisions.  A product or sum is one
    n-ary operation, with integer coefficients after the symbols (``s0 * 64``).  Booleans
    become comparisons or 1 and 0.

    Raises:
        DiagnosticError: WIR600 names a function that expressions lack, WIR601 a symbol
            whose name is not an identifier.
    """
    if isinstance(expr, bool):
        return int(expr)
    if isinstance(expr, int | float):
        return expr
    return _lower(expr)


def lower_size(expr: "SympyValue") -> Expr:
    """Return :func:`lower_sympy` of a value that is known to be whole, as a size is.

    A sum or product of exact fractions, such as ``s0/2``, becomes one floor division,
    which is then exact, so that the value is an integer and not a float.
    """
    if isinstance(expr, int):
        return int(expr)
    return lower_sympy(expr) if isinstance(expr, float) else _lower_whole(expr)


@lru_cache(maxsize=8192)
def _lower_whole(expr: _Basic) -> Expr:
    if not (expr.is_Add or expr.is_Mul):
        return _lower(expr)
    numerator, denominator = expr.as_numer_denom()
    if denominator.is_Integer and denominator == 1:
        return _lower(expr)
    return Operation(ExprOp.FLOORDIV, (lower_sympy(numerator), lower_sympy(denominator)))


@lru_cache(maxsize=8192)
def _lower(expr: _Basic) -> Expr:
    return _handler(expr.__class__)(expr)


@lru_cache(maxsize=256)
def _handler(kind: Any) -> Callable[[_Basic], Expr]:
    """Return the handler of a class: the first of its ancestors' names that has one."""
    for ancestor in kind.__mro__:
        if ancestor.__name__ in _LOWER:
            return _LOWER[ancestor.__name__]
    return _unsupported


def _args(expr: _Basic) -> tuple[Expr, ...]:
    return tuple(lower_sympy(arg) for arg in expr.args)


def _operation(op: ExprOp) -> Callable[[_Basic], Expr]:
    return lambda expr: Operation(op, _args(expr))


def _unsupported(expr: _Basic) -> Expr:
    raise Code.UNSUPPORTED_FUNCTION.error(
        f"no expression for {type(expr).__name__} in {_shown(expr)}",
        hint="rewrite the size in the model with integer arithmetic",
    )


def _shown(expr: _Basic) -> str:
    text = str(expr)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _symbol(expr: _Basic) -> Expr:
    name = str(expr)
    if not is_identifier(name) or name in RESERVED_SYMBOLS:
        raise Code.UNSUPPORTED_SYMBOL_NAME.error(f"{name[:200]!r} cannot name a symbol")
    return Symbol(name)


def _rational(expr: _Basic) -> Expr:
    numerator, denominator = expr.as_numer_denom()
    return Operation(ExprOp.TRUEDIV, (int(numerator), int(denominator)))


def _add(expr: _Basic) -> Expr:
    """Lower a sum: terms with a negative coefficient are subtracted, a number is last."""
    plus: list[Expr] = []
    minus: list[Expr] = []
    for term in sorted(expr.args, key=lambda arg: arg.is_number):
        if plus and term.could_extract_minus_sign() and not term.is_Add:
            minus.append(lower_sympy(-term))
        else:
            plus.append(lower_sympy(term))
    total = _sum(plus)
    return Operation(ExprOp.SUB, (total, _sum(minus))) if minus else total


def _sum(terms: Sequence[Expr]) -> Expr:
    return terms[0] if len(terms) == 1 else Operation(ExprOp.ADD, tuple(terms))


def _mul(expr: _Basic) -> Expr:
    """Lower a product: factors with a negative power divide; the coefficient is last."""
    coefficient, rest = expr.as_coeff_Mul()
    above: list[Expr] = []
    below: list[Expr] = []
    for factor in rest.args if rest.is_Mul else (rest,):
        base, exponent = factor.as_base_exp()
        if exponent.is_Integer and exponent < 0:
            below.append(lower_sympy(base**-exponent))
        else:
            above.append(lower_sympy(factor))
    if coefficient.is_Rational:
        numerator, denominator = (int(part) for part in coefficient.as_numer_denom())
        if denominator != 1 or below:
            parts = (_product(above, numerator), _product(below, denominator))
            return Operation(ExprOp.TRUEDIV, parts)
        return _product(above, numerator)
    return _product([*above, lower_sympy(coefficient)], 1)


def _product(factors: Sequence[Expr], coefficient: int) -> Expr:
    if not factors:
        return coefficient
    if coefficient == -1:
        return Operation(ExprOp.NEG, (_product(factors, 1),))
    flat: list[Expr] = []
    for factor in factors:
        if isinstance(factor, Operation) and factor.op is ExprOp.MUL:
            flat.extend(factor.args)
        else:
            flat.append(factor)
    if coefficient != 1:
        flat.append(coefficient)
    return flat[0] if len(flat) == 1 else Operation(ExprOp.MUL, tuple(flat))


def _pow(expr: _Basic) -> Expr:
    base, exponent = expr.args
    if exponent.is_Integer and exponent < 0:
        return Operation(ExprOp.TRUEDIV, (1, lower_sympy(base**-exponent)))
    if exponent.is_Rational and (exponent.p, exponent.q) == (1, 2):
        return Operation(ExprOp.SQRT, (lower_sympy(base),))
    return Operation(ExprOp.POW, (lower_sympy(base), lower_sympy(exponent)))


def _floor(expr: _Basic) -> Expr:
    """Lower a floor; of a fraction of integers, such as ``s0/2 + 1/2``, as a division."""
    base, divisor = expr.args[0].as_numer_denom()
    if divisor.is_Integer and base.is_integer:
        return _division(base, divisor)
    return Operation(ExprOp.FLOOR, _args(expr))


def _floordiv(expr: _Basic) -> Expr:
    return _division(*expr.args)


def _division(base: _Basic, divisor: _Basic) -> Expr:
    """Lower a floor division; ``(a + d − 1) // d`` is the launch grid's ceiling."""
    if divisor.is_Integer and divisor > 1 and base.is_Add:
        rest = base - (divisor - 1)
        if not rest.is_Add or len(rest.args) < len(base.args):
            return Operation(ExprOp.CEILDIV, (lower_sympy(rest), int(divisor)))
    return Operation(ExprOp.FLOORDIV, (lower_sympy(base), lower_sympy(divisor)))


def _modular_indexing(expr: _Basic) -> Expr:
    base, divisor, modulus = _args(expr)
    if divisor != 1:
        base = Operation(ExprOp.FLOORDIV, (base, divisor))
    return Operation(ExprOp.MOD, (base, modulus))


def _piecewise(expr: _Basic) -> Expr:
    *pairs, (default, last) = expr.args
    if type(last).__name__ != "BooleanTrue":
        return _unsupported(expr)
    result = lower_sympy(default)
    for value, condition in reversed(pairs):
        result = Operation(
            ExprOp.WHERE, (lower_sympy(condition), lower_sympy(value), result)
        )
    return result


def _trunc_to_float(expr: _Basic) -> Expr:
    return Operation(ExprOp.TO_FLOAT, (Operation(ExprOp.TRUNC, _args(expr)),))


_OPERATIONS = {
    "FloorDiv": ExprOp.FLOORDIV,
    "PowByNatural": ExprOp.POW,
    "FloatPow": ExprOp.POW,
    "CeilDiv": ExprOp.CEILDIV,
    "Mod": ExprOp.MOD,
    "PythonMod": ExprOp.MOD,
    "IntTrueDiv": ExprOp.TRUEDIV,
    "FloatTrueDiv": ExprOp.TRUEDIV,
    "Min": ExprOp.MIN,
    "Max": ExprOp.MAX,
    "Abs": ExprOp.ABS,
    "ToFloat": ExprOp.TO_FLOAT,
    "TruncToInt": ExprOp.TRUNC,
    "FloorToInt": ExprOp.FLOOR,
    "CeilToInt": ExprOp.CEIL,
    "RoundToInt": ExprOp.ROUND,
    "floor": ExprOp.FLOOR,
    "ceiling": ExprOp.CEIL,
    "OpaqueUnaryFn_sqrt": ExprOp.SQRT,
    "OpaqueUnaryFn_log2": ExprOp.LOG2,
    "LShift": ExprOp.SHL,
    "RShift": ExprOp.SHR,
    "BitwiseFn_bitwise_and": ExprOp.BITAND,
    "BitwiseFn_bitwise_or": ExprOp.BITOR,
    "BitwiseFn_bitwise_xor": ExprOp.BITXOR,
    "Equality": ExprOp.EQ,
    "Unequality": ExprOp.NE,
    "StrictLessThan": ExprOp.LT,
    "LessThan": ExprOp.LE,
    "StrictGreaterThan": ExprOp.GT,
    "GreaterThan": ExprOp.GE,
    "And": ExprOp.AND,
    "Or": ExprOp.OR,
    "Not": ExprOp.NOT,
    "Where": ExprOp.WHERE,
    "ITE": ExprOp.WHERE,
}
"""The operators of functions that are lowered argument by argument; :func:`to_sympy` uses
the first name of each operator."""

_LOWER: dict[str, Callable[[_Basic], Expr]] = {
    **{name: _operation(op) for name, op in _OPERATIONS.items()},
    "Integer": int,
    "IntInfinity": _unsupported,
    "NegativeIntInfinity": _unsupported,
    "ComplexInfinity": _unsupported,
    "NaN": _unsupported,
    "Infinity": lambda expr: math.inf,
    "NegativeInfinity": lambda expr: -math.inf,
    "Rational": _rational,
    "Float": float,
    "NumberSymbol": float,
    "BooleanTrue": lambda expr: True,
    "BooleanFalse": lambda expr: False,
    "Symbol": _symbol,
    "Identity": lambda expr: lower_sympy(expr.args[0]),
    "Add": _add,
    "Mul": _mul,
    "Pow": _pow,
    "FloorDiv": _floordiv,
    "floor": _floor,
    "ModularIndexing": _modular_indexing,
    "TruncToFloat": _trunc_to_float,
    "Piecewise": _piecewise,
}


def to_sympy(
    expr: Expr,
    symbols: "Mapping[str, sympy.Symbol] | None" = None,
    functions: ModuleType | None = None,
) -> "sympy.Basic":
    """Return ``expr`` as a sympy expression of the same value.

    Functions that :func:`lower_sympy` maps to one operation come back as one function:
    ``CleanDiv`` as ``FloorDiv``, ``ModularIndexing`` as ``Mod`` of ``FloorDiv``, a fraction
    as ``IntTrueDiv``, sympy's ``Max`` as torch's.  Other expressions come back unchanged.

    Args:
        expr: the expression to convert.
        symbols: the sympy symbol of each name; other names become integer symbols.  Pass
            torch's symbols, since symbols with different assumptions are not equal.
        functions: the module with ``FloorDiv`` and similar functions; by default
            ``torch.utils._sympy.functions``, which is then imported.

    Raises:
        ZeroDivisionError: a division by a constant zero.
        ValueError: a shift by a negative constant.
    """
    if functions is None:
        from torch.utils._sympy import functions as torch_functions

        functions = torch_functions
    return _Builder(symbols or {}, functions).build(expr)


class _Builder:
    def __init__(
        self, symbols: "Mapping[str, sympy.Symbol]", functions: ModuleType
    ) -> None:
        import sympy  # pyright: ignore[reportMissingTypeStubs]

        self._sympy: Any = sympy
        self._symbols = symbols
        self._functions: Any = functions

    def build(self, expr: Expr) -> _Basic:
        if isinstance(expr, int):
            return self._sympy.Integer(expr)
        if isinstance(expr, float):
            return self._sympy.Float(expr)
        if isinstance(expr, Symbol):
            known = self._symbols.get(expr.name)
            return known or self._sympy.Symbol(expr.name, integer=True)
        if expr.op in (ExprOp.AND, ExprOp.OR, ExprOp.NOT):
            parts = [self._condition(self.build(arg)) for arg in expr.args]
            return getattr(self._sympy, _FUNCTIONS[expr.op])(*parts)
        if expr.op is ExprOp.WHERE:
            condition, yes, no = (self.build(arg) for arg in expr.args)
            return self._functions.Where(
                self._condition(condition), self._number(yes), self._number(no)
            )
        return self._apply(expr.op, [self._number(self.build(arg)) for arg in expr.args])

    def _condition(self, value: _Basic) -> _Basic:
        return value if _is_condition(value) else self._sympy.Ne(value, 0)

    def _number(self, value: _Basic) -> _Basic:
        if not _is_condition(value):
            return value
        return self._functions.Where(value, self._sympy.S.One, self._sympy.S.Zero)

    def _apply(self, op: ExprOp, args: list[_Basic]) -> _Basic:
        sympy = self._sympy
        match op:
            case ExprOp.ADD:
                return sympy.Add(*args)
            case ExprOp.SUB:
                return args[0] - args[1]
            case ExprOp.MUL:
                return sympy.Mul(*args)
            case ExprOp.NEG:
                return -args[0]
            case ExprOp.ABS:
                return sympy.Abs(args[0])
            case ExprOp.EQ | ExprOp.NE | ExprOp.LT | ExprOp.LE | ExprOp.GT | ExprOp.GE:
                return getattr(sympy, op.value.capitalize())(*args)
            case _:
                return getattr(self._functions, _function(op, args))(*args)


def _is_condition(value: _Basic) -> bool:
    return bool(value.is_Relational or value.is_Boolean)


def _function(op: ExprOp, args: list[_Basic]) -> str:
    """Name the function for ``op``, by what is known of its arguments, as torch does."""
    if op is ExprOp.TRUEDIV:
        return "IntTrueDiv" if all(arg.is_integer for arg in args) else "FloatTrueDiv"
    if op is ExprOp.POW:
        return "PowByNatural" if args[1].is_integer else "FloatPow"
    if op is ExprOp.MOD:
        return "Mod" if all(arg.is_nonnegative for arg in args) else "PythonMod"
    return _FUNCTIONS[op]


_FUNCTIONS = {op: name for name, op in reversed(_OPERATIONS.items())}
