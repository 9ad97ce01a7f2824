"""Expressions divided by a number, such as bytes by the size of an element."""

from wrapperir.ir.expr import Expr, ExprOp, Operation, add, floordiv, product, sub


def quotient(expr: Expr, divisor: int) -> Expr | None:
    """Return an expression divided by a number; ``None`` if that may leave a rest."""
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
    """Return an expression divided by a number, rounded down where that leaves a rest."""
    exact = quotient(expr, divisor)
    return floordiv(expr, divisor) if exact is None else exact
