"""Index expressions as C++ of 64-bit whole numbers."""

from wrapperir.analysis.arithmetic import UNBOUNDED, Interval, interval_of
from wrapperir.ir import Expr, ExprOp, Operation, Symbol
from wrapperir.lowering.source_parts import SIGNS

_INFIX = {**SIGNS, ExprOp.AND: "&&", ExprOp.OR: "||"}


class IndexFormatter:
    """Writes expressions over axes, sizes and values.

    ``names`` gives the C++ name of each symbol; ``ranges`` the values that axes and sizes
    may have, so that division of numbers that are not negative is the processor's own.
    """

    def __init__(self) -> None:
        """Begin without symbols."""
        self.names: dict[str, str] = {}
        self.ranges: dict[str, Interval] = {}

    def format(self, expr: Expr) -> str:
        """Return the C++ of an expression, in parentheses where it is not one term."""
        if isinstance(expr, bool):
            return str(int(expr))
        if isinstance(expr, int):
            return str(expr) if expr >= 0 else f"({expr})"
        if isinstance(expr, float):
            return f"({expr!r})"
        if isinstance(expr, Symbol):
            return self.names[expr.name]
        return self._format_operation(expr)

    def _format_operation(self, expr: Operation) -> str:
        op = expr.op
        args = [self.format(arg) for arg in expr.args]
        match op:
            case ExprOp.FLOORDIV | ExprOp.MOD:
                if self._both_natural(expr.args):
                    return f"({args[0]} {'/' if op is ExprOp.FLOORDIV else '%'} {args[1]})"
                function = "floordiv" if op is ExprOp.FLOORDIV else "remainder"
                return f"{function}(i64({args[0]}), i64({args[1]}))"
            case ExprOp.CEILDIV:
                return f"(-floordiv(i64(-{args[0]}), i64({args[1]})))"
            case ExprOp.NEG:
                return f"(-{args[0]})"
            case ExprOp.NOT:
                return f"(!{args[0]})"
            case ExprOp.WHERE:
                return f"({args[0]} ? i64({args[1]}) : i64({args[2]}))"
            case ExprOp.MIN | ExprOp.MAX:
                function = "minimum" if op is ExprOp.MIN else "maximum"
                result = f"i64({args[0]})"
                for arg in args[1:]:
                    result = f"{function}({result}, i64({arg}))"
                return result
            case ExprOp.ABS:
                return f"absolute(i64({args[0]}))"
            case ExprOp.TRUEDIV:
                return f"(f64({args[0]}) / f64({args[1]}))"
            case ExprOp.TO_FLOAT:
                return f"f64({args[0]})"
            case ExprOp.FLOOR | ExprOp.CEIL | ExprOp.TRUNC:
                return f"i64(__builtin_{op.value}({args[0]}))"
            case ExprOp.ROUND:
                return f"i64(__builtin_rint({args[0]}))"
            case ExprOp.SQRT | ExprOp.LOG2:
                return f"__builtin_{op.value}({args[0]})"
            case ExprOp.POW:
                return f"__builtin_pow({args[0]}, {args[1]})"
            case _:
                return "(" + f" {_INFIX[op]} ".join(args) + ")"

    def interval(self, expr: Expr) -> Interval:
        """Return an interval that holds every value of an expression."""
        return interval_of(expr, lambda name: self.ranges.get(name, UNBOUNDED), {})

    def _both_natural(self, args: tuple[Expr, ...]) -> bool:
        return all(self.interval(arg)[0] >= 0 for arg in args)
