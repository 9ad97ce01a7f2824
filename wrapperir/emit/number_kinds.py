"""The kinds of numbers: of element types and expressions, and conversions between them."""

from enum import Enum

from attrs import define, field

from wrapperir.ir import (
    DType,
    Expr,
    ExprOp,
    Operation,
    ScalarParameter,
    ScalarType,
    Symbol,
    SymbolKind,
    TensorType,
    ValueType,
)

ALWAYS_FLOAT = frozenset({ExprOp.TRUEDIV, ExprOp.TO_FLOAT, ExprOp.SQRT, ExprOp.LOG2})
ALWAYS_BOOL = frozenset(
    {
        *(ExprOp.EQ, ExprOp.NE, ExprOp.LT, ExprOp.LE, ExprOp.GT, ExprOp.GE),
        *(ExprOp.NOT, ExprOp.AND, ExprOp.OR),
    }
)
ALWAYS_WHOLE = frozenset(
    {
        *(ExprOp.FLOOR, ExprOp.CEIL, ExprOp.TRUNC, ExprOp.ROUND),
        *(ExprOp.SHL, ExprOp.SHR, ExprOp.BITAND, ExprOp.BITOR, ExprOp.BITXOR),
        *ALWAYS_BOOL,
    }
)
# Their value is that of one of their arguments.
_CHOOSING = frozenset({ExprOp.MIN, ExprOp.MAX, ExprOp.WHERE})


def kind_of(dtype: DType | None) -> SymbolKind:
    """Return the kind of numbers of a dtype; without a dtype, they are ints."""
    if dtype is DType.BOOL:
        return SymbolKind.BOOL
    is_float = dtype is not None and dtype.is_float
    return SymbolKind.FLOAT if is_float else SymbolKind.INT


def kind_of_type(type: ValueType | None) -> SymbolKind | None:
    """Return the kind of a scalar or of a tensor's elements; ``None`` if unknown."""
    if not isinstance(type, TensorType | ScalarType) or type.dtype.value.startswith("c"):
        return None
    return kind_of(type.dtype)


class Conversion(Enum):
    """A step that makes a number one of its declared kind."""

    NONE = "it already is"
    TO_FLOAT = "the float of the same value"
    TO_BOOL = "whether it is not zero"
    BOOL_TO_INT = "0 or 1"
    TO_WHOLE = "the int of the same value; an error if there is none"


def conversion(old: SymbolKind | None, new: SymbolKind) -> Conversion:
    """Return the step from a number of kind ``old``, ``None`` for any, to kind ``new``."""
    if old is new:
        return Conversion.NONE
    match new:
        case SymbolKind.FLOAT:
            return Conversion.TO_FLOAT
        case SymbolKind.BOOL:
            return Conversion.TO_BOOL
        case SymbolKind.INT:
            is_bool = old is SymbolKind.BOOL
            return Conversion.BOOL_TO_INT if is_bool else Conversion.TO_WHOLE


@define
class NumberKinds:
    """The kinds that expressions may have, over symbols of known kinds.

    A symbol that is not in ``symbols`` is an int.
    """

    symbols: dict[str, SymbolKind] = field(factory=dict[str, SymbolKind])

    def kind(self, expr: Expr) -> SymbolKind | None:
        """Return the kind of the value of ``expr``; ``None`` if only the run decides."""
        if self.is_bool(expr):
            return SymbolKind.BOOL
        if self.is_float(expr):
            return SymbolKind.FLOAT
        unknown = self.may_be_float(expr) or self.may_be_bool(expr)
        return None if unknown else SymbolKind.INT

    def dtype(self, expr: Expr) -> DType:
        """Return a dtype that holds every value that ``expr`` may have."""
        if self.may_be_float(expr):
            return DType.F64
        return DType.BOOL if self.is_bool(expr) else DType.I64

    def is_float(self, expr: Expr) -> bool:
        """Return whether the value of ``expr`` is surely a float."""
        if not isinstance(expr, Operation):
            return self.may_be_float(expr)
        if expr.op in ALWAYS_FLOAT or expr.op in ALWAYS_WHOLE:
            return expr.op in ALWAYS_FLOAT
        if expr.op is ExprOp.WHERE:
            return all(map(self.is_float, expr.args[1:]))
        combine = all if expr.op in _CHOOSING else any
        return combine(map(self.is_float, expr.args))

    def may_be_float(self, expr: Expr) -> bool:
        """Return whether the value of ``expr`` may be a float."""
        if isinstance(expr, Symbol):
            return self.symbols.get(expr.name) is SymbolKind.FLOAT
        if not isinstance(expr, Operation):
            return isinstance(expr, float)
        if expr.op in ALWAYS_FLOAT or expr.op in ALWAYS_WHOLE:
            return expr.op in ALWAYS_FLOAT
        if expr.op is ExprOp.POW:
            exponent = expr.args[1]
            if not isinstance(exponent, int) or exponent < 0:
                return True
        return any(map(self.may_be_float, expr.args))

    def may_be_bool(self, expr: Expr) -> bool:
        """Return whether the value of ``expr`` may be a ``bool``."""
        if isinstance(expr, Operation) and expr.op in _CHOOSING:
            chosen = expr.args[1:] if expr.op is ExprOp.WHERE else expr.args
            return any(map(self.may_be_bool, chosen))
        return self.is_bool(expr)

    def is_bool(self, expr: Expr) -> bool:
        """Return whether the value of ``expr`` is surely a ``bool``."""
        if isinstance(expr, Symbol):
            return self.symbols.get(expr.name) is SymbolKind.BOOL
        return isinstance(expr, Operation) and expr.op in ALWAYS_BOOL


def as_parameter(argument: Expr, parameter: ScalarParameter, kinds: NumberKinds) -> Expr:
    """Return an argument as a number of its parameter's kind.

    That a number is whole is checked where it is passed, not in the expression.
    """
    match kind_of(parameter.dtype):
        case SymbolKind.FLOAT:
            return Operation(ExprOp.TO_FLOAT, (argument,))
        case SymbolKind.BOOL:
            is_bool = kinds.is_bool(argument)
            return argument if is_bool else Operation(ExprOp.NE, (argument, 0))
        case SymbolKind.INT:
            is_int = not kinds.may_be_float(argument)
            return argument if is_int else Operation(ExprOp.TRUNC, (argument,))
