"""Program data and scalar expressions in Python."""

import keyword
import math
from collections.abc import Callable, Mapping
from typing import LiteralString

from wrapperir.emit.number_kinds import Conversion, NumberKinds, conversion
from wrapperir.emit.source_text import Fragment, NameTable, fragment, joined
from wrapperir.ir import Expr, ExprOp, Operation, Symbol, SymbolKind


def format_int(value: int) -> Fragment:
    """Return a decimal literal; ``True`` is ``1``."""
    return Fragment(int.__repr__(int(value)))


def format_float(value: float) -> Fragment:
    """Return a literal of exactly this value, infinities and NaN included."""
    if math.isfinite(value):
        return Fragment(float.__repr__(float(value)))
    if math.isnan(value):
        return fragment('float("nan")')
    return fragment('float("inf")') if value > 0 else fragment('float("-inf")')


def format_string(text: str) -> Fragment:
    """Return a one-line ASCII literal of any text."""
    return Fragment(ascii(str(text)))


def format_constant(value: int | float | bool | str | None) -> Fragment:
    """Return the literal of a kernel's constant or config value."""
    if value is None or isinstance(value, bool):
        return Fragment(repr(value))
    if isinstance(value, int):
        return format_int(value)
    return format_float(value) if isinstance(value, float) else format_string(value)


def format_text(text: str) -> Fragment:
    """Return a literal of a text of many lines, raw where that is safe."""
    raw = "'''" not in text and not text.endswith(("'", "\\"))
    if raw and all(line.isprintable() for line in text.replace("\t", "").split("\n")):
        return Fragment(f"r'''{text}'''")
    lines = [format_string(line) for line in text.splitlines(keepends=True)]
    return fragment("(\n    {}\n)", joined("\n    ", lines or [format_string("")]))


def format_keyword(name: str, value: Fragment) -> Fragment:
    """Return a keyword argument; one whose name Python reserves is given by a dict.

    Raises:
        DiagnosticError: the name is not an identifier.
    """
    if keyword.iskeyword(name):  # aten.uniform's ``from``
        return fragment("**{{{}: {}}}", format_string(name), value)
    return fragment("{}={}", NameTable(()).claim(name), value)


# How tightly Python binds an operator; an operand that binds less needs parentheses.
_TERNARY, _OR, _AND, _NOT, _COMPARE = 1, 2, 3, 4, 5
_BITOR, _BITXOR, _BITAND, _SHIFT = 6, 7, 8, 9
_SUM, _PRODUCT, _UNARY, _POWER, _ATOM = 10, 11, 12, 13, 14

_LEFT_TO_RIGHT: Mapping[ExprOp, tuple[LiteralString, int]] = {
    ExprOp.ADD: (" + ", _SUM),
    ExprOp.SUB: (" - ", _SUM),
    ExprOp.MUL: (" * ", _PRODUCT),
    ExprOp.TRUEDIV: (" / ", _PRODUCT),
    ExprOp.FLOORDIV: (" // ", _PRODUCT),
    ExprOp.MOD: (" % ", _PRODUCT),
}
_COMPARISONS: Mapping[ExprOp, LiteralString] = {
    ExprOp.EQ: "{} == {}",
    ExprOp.NE: "{} != {}",
    ExprOp.LT: "{} < {}",
    ExprOp.LE: "{} <= {}",
    ExprOp.GT: "{} > {}",
    ExprOp.GE: "{} >= {}",
}
_LOGIC: Mapping[ExprOp, tuple[LiteralString, int]] = {
    ExprOp.AND: (" and ", _AND),
    ExprOp.OR: (" or ", _OR),
}
_BITS: Mapping[ExprOp, tuple[LiteralString, int]] = {
    ExprOp.SHL: (" << ", _SHIFT),
    ExprOp.SHR: (" >> ", _SHIFT),
    ExprOp.BITAND: (" & ", _BITAND),
    ExprOp.BITOR: (" | ", _BITOR),
    ExprOp.BITXOR: (" ^ ", _BITXOR),
}
_CALLS: Mapping[ExprOp, LiteralString] = {
    ExprOp.MIN: "min({})",
    ExprOp.MAX: "max({})",
    ExprOp.ABS: "abs({})",
    ExprOp.TO_FLOAT: "float({})",
    ExprOp.FLOOR: "math.floor({})",
    ExprOp.CEIL: "math.ceil({})",
    ExprOp.TRUNC: "math.trunc({})",
    ExprOp.ROUND: "round({})",
    ExprOp.SQRT: "math.sqrt({})",
    ExprOp.LOG2: "math.log2({})",
}
_FROM_MATH = frozenset({ExprOp.FLOOR, ExprOp.CEIL, ExprOp.TRUNC, ExprOp.SQRT, ExprOp.LOG2})


class PythonExpressions:
    """Formats expressions over symbols with known identifiers.

    ``need`` is called with the name of a support function or module that the text uses:
    ``math``, ``ceildiv`` or ``whole``.  ``kinds`` has the symbols that are not ints.
    """

    def __init__(
        self,
        symbols: Mapping[str, Fragment],
        need: Callable[[LiteralString], object],
        kinds: NumberKinds,
    ) -> None:
        """Format over ``symbols``."""
        self._symbols = symbols
        self._need = need
        self._kinds = kinds
        self._tuples: dict[tuple[Expr, ...], Fragment] = {}

    def format_value(self, expr: Expr) -> Fragment:
        """Return Python with the value of ``expr``; a condition is a ``bool``."""
        return self._value(expr)[0]

    def format_index(self, expr: Expr) -> Fragment:
        """Return Python with the value of ``expr`` as an int; it raises if not whole."""
        if isinstance(expr, int):
            return format_int(expr)
        if self._kinds.may_be_float(expr):
            self._need("whole")
            return fragment("whole({})", self.format_value(expr))
        if self._kinds.may_be_bool(expr):
            return fragment("int({})", self.format_value(expr))
        return self.format_value(expr)

    def format_real(self, expr: Expr) -> Fragment:
        """Return Python with the value of ``expr`` as a float."""
        if isinstance(expr, int | float):
            return format_float(float(expr))
        return fragment("float({})", self.format_value(expr))

    def format_number(self, expr: Expr, kind: SymbolKind) -> Fragment:
        """Return Python with the value of ``expr`` as a number of a kind."""
        match kind:
            case SymbolKind.BOOL:
                return self.format_bool(expr)
            case SymbolKind.FLOAT:
                return self.format_real(expr)
            case SymbolKind.INT:
                return self.format_index(expr)

    def format_bool(self, expr: Expr) -> Fragment:
        """Return Python with the truth of ``expr`` as a ``bool``."""
        condition = self.format_condition(expr)
        if self._has_bool_text(expr):
            return condition
        return fragment("bool({})", condition)

    def format_condition(self, expr: Expr) -> Fragment:
        """Return Python that is true where ``expr`` is not zero."""
        return self._condition(expr)[0]

    def format_tuple(self, exprs: tuple[Expr, ...]) -> Fragment:
        """Return a tuple of ints, such as a size."""
        known = self._tuples.get(exprs)
        if known is None:
            known = format_tuple([self.format_index(expr) for expr in exprs])
            self._tuples[exprs] = known
        return known

    def _value(self, expr: Expr) -> tuple[Fragment, int]:
        if isinstance(expr, Symbol):
            return self._symbols[expr.name], _ATOM
        if isinstance(expr, Operation):
            return self._operation(expr)
        text = format_float(expr) if isinstance(expr, float) else format_int(expr)
        return text, _UNARY if text.startswith("-") else _ATOM

    def _operation(self, expr: Operation) -> tuple[Fragment, int]:
        op, args = expr.op, expr.args
        if op in _LEFT_TO_RIGHT:
            return self._chain(*_LEFT_TO_RIGHT[op], args)
        if op in _CALLS:
            if op in _FROM_MATH:
                self._need("math")
            return fragment(_CALLS[op], joined(", ", map(self.format_value, args))), _ATOM
        if op is ExprOp.NOT or op in _COMPARISONS or op in _LOGIC:
            condition, level = self._condition(expr)
            if self._has_bool_text(expr):
                return condition, level
            return fragment("bool({})", condition), _ATOM
        if op in _BITS:
            separator, level = _BITS[op]
            return self._chain(separator, level, args, self._bits)
        if op is ExprOp.NEG:
            return fragment("-{}", self._operand(args[0], _UNARY)), _UNARY
        if op is ExprOp.POW:
            base, exponent = self._operand(args[0], _ATOM), self._operand(args[1], _UNARY)
            return fragment("{} ** {}", base, exponent), _POWER
        if op is ExprOp.CEILDIV:
            self._need("ceildiv")
            return fragment(
                "ceildiv({}, {})", self.format_value(args[0]), self.format_value(args[1])
            ), _ATOM
        assert op is ExprOp.WHERE, op
        condition, level = self._condition(args[0])
        if level == _TERNARY:
            condition = fragment("({})", condition)
        chosen, other = self._operand(args[1], _OR), self._operand(args[2], _OR)
        return fragment("{} if {} else {}", chosen, condition, other), _TERNARY

    def _chain(
        self,
        separator: LiteralString,
        level: int,
        args: tuple[Expr, ...],
        operand: Callable[[Expr, int], Fragment] | None = None,
    ) -> tuple[Fragment, int]:
        # Python groups a - b - c from the left, so only later operands need more.
        format_operand = operand or self._operand
        parts = [format_operand(args[0], level)]
        parts += [format_operand(arg, level + 1) for arg in args[1:]]
        return joined(separator, parts), level

    def _operand(self, expr: Expr, level: int) -> Fragment:
        text, own = self._value(expr)
        return text if own >= level else fragment("({})", text)

    def _bits(self, expr: Expr, level: int) -> Fragment:
        if self._kinds.may_be_float(expr) or self._kinds.may_be_bool(expr):
            return fragment("int({})", self.format_value(expr))
        return self._operand(expr, level)

    def _condition(self, expr: Expr) -> tuple[Fragment, int]:
        if not isinstance(expr, Operation):
            return self._value(expr)
        if expr.op in _COMPARISONS:
            left, right = (self._operand(arg, _COMPARE + 1) for arg in expr.args)
            return fragment(_COMPARISONS[expr.op], left, right), _COMPARE
        if expr.op in _LOGIC:
            separator, level = _LOGIC[expr.op]
            parts = [self._truth(arg, level + 1) for arg in expr.args]
            return joined(separator, parts), level
        if expr.op is ExprOp.NOT:
            return fragment("not {}", self._truth(expr.args[0], _NOT)), _NOT
        return self._value(expr)

    def _truth(self, expr: Expr, level: int) -> Fragment:
        text, own = self._condition(expr)
        return text if own >= level else fragment("({})", text)

    def _has_bool_text(self, expr: Expr) -> bool:
        """Return whether the condition's text gives a ``bool`` by itself."""
        # Python's ``and`` and ``or`` give one of their operands.
        if isinstance(expr, Operation) and expr.op in _LOGIC:
            return all(map(self._has_bool_text, expr.args))
        return self._kinds.is_bool(expr)


def format_converted(
    need: Callable[[LiteralString], Fragment],
    value: Fragment,
    old: SymbolKind | None,
    new: SymbolKind,
) -> Fragment:
    """Return a number of kind ``old``, ``None`` for any, as a number of kind ``new``."""
    match conversion(old, new):
        case Conversion.NONE:
            return value
        case Conversion.TO_FLOAT:
            return fragment("float({})", value)
        case Conversion.TO_BOOL:
            return fragment("bool({})", value)
        case Conversion.BOOL_TO_INT:
            return fragment("int({})", value)
        case Conversion.TO_WHOLE:
            return fragment("{}({})", need("whole"), value)


def format_tuple(parts: list[Fragment]) -> Fragment:
    """Return a tuple display, with the comma that one element needs."""
    if len(parts) == 1:
        return fragment("({},)", parts[0])
    return fragment("({})", joined(", ", parts))


def format_targets(names: list[Fragment]) -> Fragment:
    """Return the left side of an assignment that unpacks, with one name or more."""
    return format_tuple(names) if len(names) == 1 else joined(", ", names)
