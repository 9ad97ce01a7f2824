"""Integer and scalar expressions: the sizes, strides, grids and conditions of a program.

An expression is an ``int``, a ``float``, a :class:`Symbol` or an :class:`Operation`.
Division and remainder round toward minus infinity, as Python's do.  Building with the
overloaded operators folds constants and nothing else; constructing an
:class:`Operation` folds nothing, so that an expression stays as a file has it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias, Union

from attrs import frozen

from wrapperir.ir.expr_op import COMPARISONS, EVALUATE, ExprOp, Number, accepts_arity


class EvaluationError(ValueError):
    """An expression has no value: an unbound symbol, a division by zero, an overflow."""


class _Arithmetic:
    """Operators shared by symbols and operations; they fold constants."""

    __slots__ = ()

    def __add__(self, other: "Expr") -> "Expr":
        return add(_expr(self), other)

    def __radd__(self, other: "Expr") -> "Expr":
        return add(other, _expr(self))

    def __sub__(self, other: "Expr") -> "Expr":
        return sub(_expr(self), other)

    def __rsub__(self, other: "Expr") -> "Expr":
        return sub(other, _expr(self))

    def __mul__(self, other: "Expr") -> "Expr":
        return mul(_expr(self), other)

    def __rmul__(self, other: "Expr") -> "Expr":
        return mul(other, _expr(self))

    def __floordiv__(self, other: "Expr") -> "Expr":
        return floordiv(_expr(self), other)

    def __rfloordiv__(self, other: "Expr") -> "Expr":
        return floordiv(other, _expr(self))

    def __mod__(self, other: "Expr") -> "Expr":
        return mod(_expr(self), other)

    def __rmod__(self, other: "Expr") -> "Expr":
        return mod(other, _expr(self))

    # Two expressions that are spelled alike are equal, so ``==`` is no expression.
    def __lt__(self, other: "Expr") -> "Expr":
        return compare(ExprOp.LT, _expr(self), other)

    def __le__(self, other: "Expr") -> "Expr":
        return compare(ExprOp.LE, _expr(self), other)

    def __gt__(self, other: "Expr") -> "Expr":
        return compare(ExprOp.GT, _expr(self), other)

    def __ge__(self, other: "Expr") -> "Expr":
        return compare(ExprOp.GE, _expr(self), other)


@frozen(order=False)
class Symbol(_Arithmetic):
    """A named scalar whose value is known when the program runs."""

    name: str


@frozen(order=False)
class Operation(_Arithmetic):
    """An operator applied to expressions; add, mul, min, max, and, or take two or more."""

    op: ExprOp
    args: tuple["Expr", ...]

    def __bool__(self) -> bool:
        """Refuse to be a condition of Python.

        Raises:
            TypeError: it is a comparison, whose value is known when the program runs.
        """
        if self.op in COMPARISONS:
            raise TypeError(
                "a comparison of symbols is an expression of the program, which Python"
                " cannot test; give it to assert_scalar or conditional, for example"
            )
        return True


Expr: TypeAlias = Union[int, float, Symbol, Operation]


def _expr(value: _Arithmetic) -> Expr:
    assert isinstance(value, Symbol | Operation)
    return value


def add(left: Expr, right: Expr) -> Expr:
    """Return ``left + right``, folded where both are numbers or one is zero."""
    if left == 0 and isinstance(left, int):
        return right
    if right == 0 and isinstance(right, int):
        return left
    return _folded(ExprOp.ADD, left, right)


def sub(left: Expr, right: Expr) -> Expr:
    """Return ``left - right``, folded where both are numbers or ``right`` is zero."""
    if right == 0 and isinstance(right, int):
        return left
    return _folded(ExprOp.SUB, left, right)


def mul(left: Expr, right: Expr) -> Expr:
    """Return ``left * right``, folded where both are numbers or one is one or zero."""
    for number, other in ((left, right), (right, left)):
        if isinstance(number, int) and number == 1:
            return other
        if isinstance(number, int) and number == 0:
            return 0
    return _folded(ExprOp.MUL, left, right)


def floordiv(left: Expr, right: Expr) -> Expr:
    """Return ``left // right``, rounded toward minus infinity."""
    if isinstance(right, int) and right == 1:
        return left
    return _folded(ExprOp.FLOORDIV, left, right)


def mod(left: Expr, right: Expr) -> Expr:
    """Return ``left % right``, with the sign of ``right``."""
    return _folded(ExprOp.MOD, left, right)


def ceildiv(left: Expr, right: Expr) -> Expr:
    """Return ``left / right`` rounded up: the launch grid's usual form."""
    if isinstance(right, int) and right == 1:
        return left
    return _folded(ExprOp.CEILDIV, left, right)


def minimum(left: Expr, right: Expr) -> Expr:
    """Return the smaller of the two."""
    return _folded(ExprOp.MIN, left, right)


def maximum(left: Expr, right: Expr) -> Expr:
    """Return the larger of the two."""
    return _folded(ExprOp.MAX, left, right)


def compare(op: ExprOp, left: Expr, right: Expr) -> Expr:
    """Return a comparison (``eq`` … ``ge``); unlike ``==``, it is an expression."""
    return Operation(op, (left, right))


def _folded(op: ExprOp, left: Expr, right: Expr) -> Expr:
    if isinstance(left, int) and isinstance(right, int):
        try:
            return EVALUATE[op]((left, right))
        except (ArithmeticError, ValueError):
            pass  # left unfolded: the error belongs to the run
    return Operation(op, (left, right))


def product(values: tuple[Expr, ...]) -> Expr:
    """Return the product of ``values``, left to right; 1 for none."""
    result: Expr = 1
    for value in values:
        result = mul(result, value)
    return result


def evaluate(expr: Expr, values: Mapping[str, Number]) -> Number:
    """Return the value of ``expr`` with its symbols bound by ``values``.

    Comparisons and logic give a ``bool``.  ``where``, ``and`` and ``or`` evaluate only
    the operands that they need, from the left.

    Raises:
        EvaluationError: a symbol is unbound, or an operation has no value.
    """
    if isinstance(expr, int | float):
        return expr
    if isinstance(expr, Symbol):
        try:
            return values[expr.name]
        except KeyError:
            raise EvaluationError(f"symbol {expr.name} has no value") from None
    lazy = _LAZY.get(expr.op)
    if lazy is not None:
        if not accepts_arity(expr.op, len(expr.args)):
            raise EvaluationError(f"{expr.op.value} takes no {len(expr.args)} arguments")
        return lazy(expr.args, values)
    args = [evaluate(arg, values) for arg in expr.args]
    try:
        return EVALUATE[expr.op](args)
    except (ArithmeticError, ValueError, IndexError) as error:
        raise EvaluationError(f"{expr.op.value}{tuple(args)}: {error}") from None


def _evaluate_where(args: tuple[Expr, ...], values: Mapping[str, Number]) -> Number:
    condition, if_true, if_false = args
    return evaluate(if_true if evaluate(condition, values) else if_false, values)


_LAZY: Mapping[ExprOp, Callable[[tuple[Expr, ...], Mapping[str, Number]], Number]] = {
    ExprOp.AND: lambda args, values: all(evaluate(arg, values) for arg in args),
    ExprOp.OR: lambda args, values: any(evaluate(arg, values) for arg in args),
    ExprOp.WHERE: _evaluate_where,
}


def evaluate_int(expr: Expr, values: Mapping[str, Number]) -> int:
    """Return :func:`evaluate` of ``expr``, which must be a whole number.

    Raises:
        EvaluationError: as :func:`evaluate`, or the value is not a whole number.
    """
    value = evaluate(expr, values)
    if isinstance(value, int):
        return int(value)
    if value.is_integer():
        return int(value)
    raise EvaluationError(f"{value} is not a whole number")


def symbols_in(expr: Expr) -> Iterator[str]:
    """Yield the name of each symbol of ``expr``, left to right, repeats included."""
    if isinstance(expr, Symbol):
        yield expr.name
    elif isinstance(expr, Operation):
        for arg in expr.args:
            yield from symbols_in(arg)


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """Return ``expr`` with symbols replaced; symbols not in ``values`` stay."""
    if isinstance(expr, Symbol):
        return values.get(expr.name, expr)
    if isinstance(expr, Operation):
        return Operation(expr.op, tuple(substitute(arg, values) for arg in expr.args))
    return expr


def quotient(expr: Expr, divisor: int) -> Expr | None:
    """Return an expression divided by a number; ``None`` if it may leave a remainder."""
    if isinstance(expr, int):
        return None if expr % divisor else expr // divisor
    if divisor == 1:
        return expr
    if not isinstance(expr, Operation):
        return None
    if expr.op in (ExprOp.ADD, ExprOp.SUB):
        parts = [quotient(arg, divisor) for arg in expr.args]
        total = parts[0]
        for part in parts[1:]:
            if total is None or part is None:
                return None
            total = add(total, part) if expr.op is ExprOp.ADD else sub(total, part)
        return total
    if expr.op is ExprOp.MUL:
        for place, arg in enumerate(expr.args):
            part = quotient(arg, divisor)
            if part is not None:
                return product((*expr.args[:place], part, *expr.args[place + 1 :]))
    return None


def divided(expr: Expr, divisor: int) -> Expr:
    """Return an expression divided by a number, rounded down."""
    exact = quotient(expr, divisor)
    return floordiv(expr, divisor) if exact is None else exact


def depth(expr: Expr) -> int:
    """Return the height of the tree: 0 for a number or symbol."""
    if isinstance(expr, Operation):
        return 1 + max((depth(arg) for arg in expr.args), default=0)
    return 0


MAX_DEPTH = 100
"""Readers refuse deeper expressions, so that recursion over one is always safe."""
