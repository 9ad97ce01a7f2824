"""Program data and expressions in C, with the functions of ``wir_opencl.h``."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import LiteralString

from wrapperir.emit import Fragment, fragment, joined
from wrapperir.emit.number_kinds import NumberKinds
from wrapperir.ir import Expr, ExprOp, Operation, Symbol, SymbolKind

RUNTIME = Path(__file__).with_name("wir_opencl.h")
"""The header that programs include."""
C_KINDS: Mapping[SymbolKind, LiteralString] = {
    SymbolKind.INT: "int64_t",
    SymbolKind.FLOAT: "double",
    SymbolKind.BOOL: "int64_t",
}
"""The C type of each kind of number; a bool is 0 or 1."""

_WHOLE: Mapping[ExprOp, LiteralString] = {
    ExprOp.ADD: "wir_add(r, {}, {})",
    ExprOp.SUB: "wir_sub(r, {}, {})",
    ExprOp.MUL: "wir_mul(r, {}, {})",
    ExprOp.FLOORDIV: "wir_floordiv(r, {}, {})",
    ExprOp.MOD: "wir_mod(r, {}, {})",
    ExprOp.CEILDIV: "wir_ceildiv(r, {}, {})",
    ExprOp.MIN: "wir_min({}, {})",
    ExprOp.MAX: "wir_max({}, {})",
}
_REAL: Mapping[ExprOp, LiteralString] = {
    ExprOp.ADD: "({} + {})",
    ExprOp.SUB: "({} - {})",
    ExprOp.MUL: "({} * {})",
    ExprOp.TRUEDIV: "wir_truediv(r, {}, {})",
}
_COMPARISONS: Mapping[ExprOp, LiteralString] = {
    ExprOp.EQ: "({} == {})",
    ExprOp.NE: "({} != {})",
    ExprOp.LT: "({} < {})",
    ExprOp.LE: "({} <= {})",
    ExprOp.GT: "({} > {})",
    ExprOp.GE: "({} >= {})",
}
_LOGIC: Mapping[ExprOp, LiteralString] = {ExprOp.AND: " && ", ExprOp.OR: " || "}
_KEYWORDS = """
    auto break case char const continue default do double else enum extern float for goto
    if inline int long register restrict return short signed sizeof static struct switch
    typedef union unsigned void volatile while asm typeof linux unix main errno alignas
    alignof bool constexpr false nullptr static_assert thread_local true typeof_unqual
    r inputs outputs done ENTRIES SOURCES"""
_PRINTABLE = frozenset(map(chr, range(0x20, 0x7F))) - frozenset('"\\?')


def reserved_names() -> frozenset[str]:
    """Return the names that no value of a program may have in C."""
    header = RUNTIME.read_text("utf-8")
    return frozenset(_KEYWORDS.split()) | frozenset(re.findall(r"[A-Za-z_]\w*", header))


def format_int(value: int) -> Fragment:
    """Return a literal of 64 bits.

    Raises:
        ValueError: it does not fit.
    """
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{value} does not fit 64 bits")
    if value == -(2**63):
        return fragment("INT64_MIN")
    return Fragment(f"INT64_C({int(value)})")


def format_float(value: float) -> Fragment:
    """Return a ``double`` literal of exactly this value, infinities and NaN included."""
    if math.isfinite(value):
        return Fragment(value.hex())
    if math.isnan(value):
        return fragment("((double)NAN)")
    return fragment("((double)INFINITY)") if value > 0 else fragment("(-(double)INFINITY)")


def format_string(text: str) -> Fragment:
    """Return a one-line literal of any text, in UTF-8, with octal escapes."""
    if text.endswith("\n"):
        return Fragment(format_string(text[:-1])[:-1] + '\\n"')
    encoded = text.encode("utf-8", "surrogatepass")
    parts = [chr(byte) if chr(byte) in _PRINTABLE else f"\\{byte:03o}" for byte in encoded]
    return Fragment('"' + "".join(parts) + '"')


class CExpressions:
    """Formats expressions over symbols that are C variables.

    The text uses ``r``, the run, to which it reports numbers that have no value.
    ``report`` is called with what C cannot express; the text is then not used.
    """

    def __init__(
        self,
        symbols: Mapping[str, Fragment],
        kinds: NumberKinds,
        report: Callable[[str], object],
    ) -> None:
        """Format over ``symbols``, the identifiers by name."""
        self._symbols = symbols
        self._kinds = kinds
        self._report = report

    def format_number(self, expr: Expr, kind: SymbolKind) -> Fragment:
        """Return the value of an expression as a number of a kind."""
        value = self._format(expr)
        is_float = self._kinds.kind(expr) is SymbolKind.FLOAT
        match kind:
            case SymbolKind.FLOAT:
                return value if is_float else fragment("(double){}", value)
            case SymbolKind.BOOL:
                return fragment("({} != 0)", value)
            case SymbolKind.INT:
                return fragment("wir_whole(r, {})", value) if is_float else value

    def format_index(self, expr: Expr) -> Fragment:
        """Return the value of an expression as a whole number."""
        return self.format_number(expr, SymbolKind.INT)

    def format_array(self, numbers: Sequence[Expr]) -> Fragment:
        """Return an array of whole numbers, with a last 0 so that it is never empty."""
        parts = [self.format_index(number) for number in numbers]
        return fragment("(const int64_t[]){{{}}}", joined(", ", [*parts, fragment("0")]))

    def _format(self, expr: Expr) -> Fragment:
        if isinstance(expr, float):
            return format_float(expr)
        if isinstance(expr, int):
            if -(2**63) <= expr < 2**63:
                return format_int(expr)
            self._report(f"{expr} does not fit 64 bits")
            return fragment("0")
        if isinstance(expr, Symbol):
            return self._symbols[expr.name]
        return self._format_operation(expr)

    def _format_operation(self, expr: Operation) -> Fragment:
        op, args = expr.op, [self._format(arg) for arg in expr.args]
        kinds = {self._kinds.kind(arg) for arg in expr.args}
        is_real = SymbolKind.FLOAT in kinds
        is_mixed = None in kinds or (is_real and len(kinds) > 1)
        if op is ExprOp.NOT:
            return fragment("({} == 0)", args[0])
        if op in _LOGIC:
            tests = [fragment("{} != 0", arg) for arg in args]
            return fragment("({})", joined(_LOGIC[op], tests))
        if op is ExprOp.WHERE:
            if self._kinds.kind(expr) is not None:
                return fragment("({} != 0 ? {} : {})", *args)
        elif op is ExprOp.TO_FLOAT and None not in kinds:
            return fragment("(double){}", args[0])
        elif op is ExprOp.TRUNC and None not in kinds:
            return fragment("wir_trunc(r, {})", args[0]) if is_real else args[0]
        elif op is ExprOp.NEG and None not in kinds:
            return fragment("(-{})" if is_real else "wir_sub(r, 0, {})", args[0])
        elif op in _COMPARISONS and not is_mixed:
            return fragment(_COMPARISONS[op], *args)
        elif (is_real or op is ExprOp.TRUEDIV) and op in _REAL and None not in kinds:
            # A whole number is converted to a double first, as in Python.
            return _folded(_REAL[op], args)
        elif not is_real and op in _WHOLE and None not in kinds:
            return _folded(_WHOLE[op], args)
        of = "numbers of several kinds" if is_mixed else "these numbers"
        self._report(f"there is no C for {op.value} of {of}")
        return fragment("0")


def _folded(template: LiteralString, args: list[Fragment]) -> Fragment:
    """Return an operator of two or more operands, from left to right."""
    result = args[0]
    for arg in args[1:]:
        result = fragment(template, result, arg)
    return result
