"""Building sympy expressions from ours: the way back of ``lower_sympy``."""

from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from wrapperir.ir import Expr, ExprOp, Symbol

if TYPE_CHECKING:
    import sympy  # pyright: ignore[reportMissingTypeStubs]

_Basic: TypeAlias = Any
"""A ``sympy.Basic``; sympy says little of what its attributes are."""


def to_sympy(
    expr: Expr,
    symbols: "Mapping[str, sympy.Symbol] | None" = None,
    functions: ModuleType | None = None,
) -> "sympy.Basic":
    """Return ``expr`` as a sympy expression of the same value.

    What :func:`lower_sympy` spells alike comes back in one form: ``CleanDiv`` as
    ``FloorDiv``, ``ModularIndexing`` as ``Mod`` of ``FloorDiv``, a fraction as
    ``IntTrueDiv``, sympy's own ``Max`` as torch's; all else equals what was lowered.

    Args:
        expr: what to convert.
        symbols: the sympy symbol of each name; others are integers.  Give those of
            torch here, since sympy tells symbols with other assumptions apart.
        functions: where to find ``FloorDiv`` and its like; ``None`` is
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
            connective = {"and": "And", "or": "Or", "not": "Not"}[expr.op.value]
            parts = [self._condition(self.build(arg)) for arg in expr.args]
            return getattr(self._sympy, connective)(*parts)
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


_FUNCTIONS = {
    ExprOp.FLOORDIV: "FloorDiv",
    ExprOp.CEILDIV: "CeilDiv",
    ExprOp.MIN: "Min",
    ExprOp.MAX: "Max",
    ExprOp.SHL: "LShift",
    ExprOp.SHR: "RShift",
    ExprOp.BITAND: "BitwiseFn_bitwise_and",
    ExprOp.BITOR: "BitwiseFn_bitwise_or",
    ExprOp.BITXOR: "BitwiseFn_bitwise_xor",
    ExprOp.TO_FLOAT: "ToFloat",
    ExprOp.FLOOR: "FloorToInt",
    ExprOp.CEIL: "CeilToInt",
    ExprOp.TRUNC: "TruncToInt",
    ExprOp.ROUND: "RoundToInt",
    ExprOp.SQRT: "OpaqueUnaryFn_sqrt",
    ExprOp.LOG2: "OpaqueUnaryFn_log2",
}
