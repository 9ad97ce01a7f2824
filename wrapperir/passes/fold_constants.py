"""Fold the operations of an expression whose arguments are numbers."""

from wrapperir.ir.expr import EvaluationError, Expr, Operation, evaluate


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
