"""Index expressions of 64-bit whole numbers in a language like C."""

from wrapperir.analysis.arithmetic import UNBOUNDED, Interval, interval_of
from wrapperir.ir import DType, Expr, ExprOp, Operation, ScalarParameter, Symbol
from wrapperir.lowering.c.language import CLanguage
from wrapperir.lowering.source_parts import SIGNS

_INFIX = {**SIGNS, ExprOp.AND: "&&", ExprOp.OR: "||"}


class IndexFormatter:
    """Writes expressions over axes, sizes and values.

    ``names`` gives the name of each symbol in the source; ``ranges`` the values that axes
    and sizes may have, so that division of numbers that are not negative is the
    processor's own.
    """

    def __init__(self, language: CLanguage) -> None:
        """Begin without symbols."""
        self._language = language
        self.names: dict[str, str] = {}
        self.ranges: dict[str, Interval] = {}

    def add_size(self, symbol: ScalarParameter, name: str) -> None:
        """Let expressions use a size by a name; it is not negative."""
        self.names[symbol.name] = name
        if symbol.dtype.is_integer:
            self.ranges[symbol.name] = (0, float("inf"))

    @property
    def kind(self) -> str:
        """The type of whole numbers in indices."""
        return self._language.scalar(DType.I64)

    def format(self, expr: Expr) -> str:
        """Return the text of an expression, in parentheses where it is not one term."""
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
                name = "floordiv" if op is ExprOp.FLOORDIV else "remainder"
                return self._call(name, *args)
            case ExprOp.CEILDIV:
                return f"(-{self._call('floordiv', f'-{args[0]}', args[1])})"
            case ExprOp.NEG:
                return f"(-{args[0]})"
            case ExprOp.NOT:
                return f"(!{args[0]})"
            case ExprOp.WHERE:
                chosen, other = map(self._whole, args[1:])
                return f"({args[0]} ? {chosen} : {other})"
            case ExprOp.MIN | ExprOp.MAX:
                name = "minimum" if op is ExprOp.MIN else "maximum"
                function = self._language.function(name, DType.I64)
                result = self._whole(args[0])
                for arg in args[1:]:
                    result = f"{function}({result}, {self._whole(arg)})"
                return result
            case ExprOp.ABS:
                return self._call("absolute", args[0])
            case ExprOp.TRUEDIV:
                real = [self._language.convert(DType.F64, arg) for arg in args]
                return f"({real[0]} / {real[1]})"
            case ExprOp.TO_FLOAT:
                return self._language.convert(DType.F64, args[0])
            case ExprOp.FLOOR | ExprOp.CEIL | ExprOp.TRUNC:
                return self._whole(f"{self._language.builtin(op.value)}({args[0]})")
            case ExprOp.ROUND:
                return self._whole(f"{self._language.builtin('rint')}({args[0]})")
            case ExprOp.SQRT | ExprOp.LOG2:
                return f"{self._language.builtin(op.value)}({args[0]})"
            case ExprOp.POW:
                return f"{self._language.builtin('pow')}({args[0]}, {args[1]})"
            case _:
                return "(" + f" {_INFIX[op]} ".join(args) + ")"

    def _whole(self, text: str) -> str:
        return self._language.convert(DType.I64, text)

    def _call(self, name: str, *args: str) -> str:
        function = self._language.function(name, DType.I64)
        return f"{function}({', '.join(map(self._whole, args))})"

    def interval(self, expr: Expr) -> Interval:
        """Return an interval that holds every value of an expression."""
        return interval_of(expr, lambda name: self.ranges.get(name, UNBOUNDED), {})

    def _both_natural(self, args: tuple[Expr, ...]) -> bool:
        return all(self.interval(arg)[0] >= 0 for arg in args)
