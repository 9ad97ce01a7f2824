"""Which kind of number each element type and each expression has when it is computed."""

from attrs import define, field

from wrapperir.ir.expr import Expr, ExprOp, Operation, Symbol
from wrapperir.ir.line import SymbolKind
from wrapperir.ir.types import DType

_ALWAYS_FLOAT = frozenset({ExprOp.TRUEDIV, ExprOp.TO_FLOAT, ExprOp.SQRT, ExprOp.LOG2})
_ALWAYS_BOOL = frozenset(
    {
        *(ExprOp.EQ, ExprOp.NE, ExprOp.LT, ExprOp.LE, ExprOp.GT, ExprOp.GE),
        *(ExprOp.NOT, ExprOp.AND, ExprOp.OR),
    }
)
_ALWAYS_WHOLE = frozenset(
    {
        *(ExprOp.FLOOR, ExprOp.CEIL, ExprOp.TRUNC, ExprOp.ROUND),
        *(ExprOp.SHL, ExprOp.SHR, ExprOp.BITAND, ExprOp.BITOR, ExprOp.BITXOR),
        *_ALWAYS_BOOL,
    }
)
# Their value is that of one of their arguments.
_CHOOSING = frozenset({ExprOp.MIN, ExprOp.MAX, ExprOp.WHERE})


def kind_of(dtype: DType | None) -> SymbolKind:
    """Return what numbers of a dtype are: floats, bools or ints; without one, ints."""
    if dtype is DType.BOOL:
        return SymbolKind.BOOL
    is_float = dtype is not None and dtype.is_float
    return SymbolKind.FLOAT if is_float else SymbolKind.INT


@define
class NumberKinds:
    """What expressions over symbols of known kinds may be.

    A symbol that is not in ``symbols`` is an int.
    """

    symbols: dict[str, SymbolKind] = field(factory=dict[str, SymbolKind])

    def may_be_float(self, expr: Expr) -> bool:
        """Say whether the value of ``expr`` may be a float."""
        if isinstance(expr, Symbol):
            return self.symbols.get(expr.name) is SymbolKind.FLOAT
        if not isinstance(expr, Operation):
            return isinstance(expr, float)
        if expr.op in _ALWAYS_FLOAT or expr.op in _ALWAYS_WHOLE:
            return expr.op in _ALWAYS_FLOAT
        if expr.op is ExprOp.POW:
            exponent = expr.args[1]
            if not isinstance(exponent, int) or exponent < 0:
                return True
        return any(map(self.may_be_float, expr.args))

    def may_be_bool(self, expr: Expr) -> bool:
        """Say whether the value of ``expr`` may be a ``bool``."""
        if isinstance(expr, Operation) and expr.op in _CHOOSING:
            chosen = expr.args[1:] if expr.op is ExprOp.WHERE else expr.args
            return any(map(self.may_be_bool, chosen))
        return self.is_bool(expr)

    def is_bool(self, expr: Expr) -> bool:
        """Say whether the value of ``expr`` is surely a ``bool``."""
        if isinstance(expr, Symbol):
            return self.symbols.get(expr.name) is SymbolKind.BOOL
        return isinstance(expr, Operation) and expr.op in _ALWAYS_BOOL
