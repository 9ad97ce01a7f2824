"""Program data and expressions in C, which C++ compiles too; with ``wir_numbers.h``."""

import math
import re
from collections.abc import Callable, Mapping
from typing import LiteralString

from wrapperir.emit.number_kinds import NumberKinds
from wrapperir.emit.source_text import Fragment, fragment, joined
from wrapperir.ir import DType, Expr, ExprOp, Operation, Symbol, SymbolKind

C_KINDS: Mapping[SymbolKind, LiteralString] = {
    SymbolKind.INT: "int64_t",
    SymbolKind.FLOAT: "double",
    SymbolKind.BOOL: "int64_t",
}
"""The C type of each kind of number; a bool is 0 or 1."""

_ELEMENTS: Mapping[DType, LiteralString] = {
    DType.F64: "double",
    DType.F32: "float",
    DType.I64: "int64_t",
    DType.I32: "int32_t",
    DType.I16: "int16_t",
    DType.I8: "int8_t",
    DType.U64: "uint64_t",
    DType.U32: "uint32_t",
    DType.U16: "uint16_t",
    DType.U8: "uint8_t",
    DType.BOOL: "bool",
}
_CALLS: Mapping[ExprOp, LiteralString] = {
    ExprOp.ADD: "wir_add({}, {}, {})",
    ExprOp.SUB: "wir_sub({}, {}, {})",
    ExprOp.MUL: "wir_mul({}, {}, {})",
    ExprOp.FLOORDIV: "wir_floordiv({}, {}, {})",
    ExprOp.MOD: "wir_mod({}, {}, {})",
    ExprOp.CEILDIV: "wir_ceildiv({}, {}, {})",
}
"""Operators of whole numbers that may have no value; the last operand takes the fault."""
_EXTREMES: Mapping[ExprOp, LiteralString] = {
    ExprOp.MIN: "wir_min({}, {})",
    ExprOp.MAX: "wir_max({}, {})",
}
_REALS: Mapping[ExprOp, LiteralString] = {
    ExprOp.ADD: "({} + {})",
    ExprOp.SUB: "({} - {})",
    ExprOp.MUL: "({} * {})",
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
# fmt: off
RESERVED = frozenset({
    "auto", "break", "case", "char", "const", "continue", "default", "do",
    "double", "else", "enum", "extern", "float", "for", "goto", "if", "inline",
    "int", "long", "register", "restrict", "return", "short", "signed", "sizeof",
    "static", "struct", "switch", "typedef", "union", "unsigned", "void",
    "volatile", "while", "alignas", "alignof", "and", "and_eq", "asm",
    "atomic_cancel", "atomic_commit", "atomic_noexcept", "bitand", "bitor",
    "bool", "catch", "char16_t", "char32_t", "char8_t", "class", "co_await",
    "co_return", "co_yield", "compl", "concept", "const_cast", "consteval",
    "constexpr", "constinit", "decltype", "delete", "dynamic_cast", "explicit",
    "export", "false", "friend", "mutable", "namespace", "new", "noexcept", "not",
    "not_eq", "nullptr", "operator", "or", "or_eq", "private", "protected",
    "public", "reinterpret_cast", "requires", "static_assert", "static_cast",
    "template", "this", "thread_local", "throw", "true", "try", "typeid",
    "typename", "using", "virtual", "wchar_t", "xor", "xor_eq", "NULL", "EOF",
    "errno", "stdin", "stdout", "stderr", "std", "main", "linux", "unix"
})
# fmt: on
"""Keywords of C and C++ and common macros, which no name of a program may be."""

_LEAST = -(2**63)
_PRINTABLE = frozenset(map(chr, range(0x20, 0x7F))) - frozenset('"\\?')


def identifiers_in(header: str) -> frozenset[str]:
    """Return every identifier in a header, none of which a name of a program may be."""
    return frozenset(re.findall(r"[A-Za-z_]\w*", header, re.ASCII))


def element_type(dtype: DType) -> Fragment | None:
    """Return the C type of an element or of a kernel's number, if there is one."""
    spelled = _ELEMENTS.get(dtype)
    return None if spelled is None else fragment(spelled)


def format_int(value: int) -> Fragment:
    """Return a literal of 64 bits; ``True`` is 1.

    Raises:
        ValueError: it does not fit.
    """
    value = int(value)
    if not _LEAST <= value < 2**63:
        raise ValueError(f"{value} does not fit 64 bits")
    if value == _LEAST:
        return fragment("INT64_MIN")
    return Fragment(f"{value}" if abs(value) < 2**31 else f"INT64_C({value})")


def format_float(value: float) -> Fragment:
    """Return a ``double`` literal of exactly this value, infinities and NaN included."""
    if math.isfinite(value):
        return Fragment(value.hex())
    if math.isnan(value):
        return fragment('__builtin_nan("")')
    return fragment("__builtin_inf()") if value > 0 else fragment("(-__builtin_inf())")


def format_string(text: str) -> Fragment:
    """Return a one-line literal of any text, in UTF-8, with octal escapes."""
    encoded = text.encode("utf-8", "surrogatepass")
    parts = [chr(byte) if chr(byte) in _PRINTABLE else f"\\{byte:03o}" for byte in encoded]
    return Fragment('"' + "".join(parts) + '"')


class CExpressions:
    """Formats expressions over symbols that are C variables.

    The text passes ``fault`` to the functions of ``wir_numbers.h``, or to others of their
    names; by default it is ``&fault``, of a ``const char *`` of the function around it.
    ``report`` is called with what C cannot express; the text is then not used.
    """

    def __init__(
        self,
        symbols: Mapping[str, Fragment],
        kinds: NumberKinds,
        report: Callable[[str], object],
        fault: Fragment | None = None,
    ) -> None:
        """Format over ``symbols``, the identifiers by name."""
        self._fault = fragment("&fault") if fault is None else fault
        self._symbols = symbols
        self._kinds = kinds
        self._report = report

    def format_number(self, expr: Expr, kind: SymbolKind) -> Fragment:
        """Return C with the value of an expression as a number of a kind."""
        value = self._format(expr)
        is_float = self._kinds.kind(expr) is SymbolKind.FLOAT
        match kind:
            case SymbolKind.FLOAT:
                return value if is_float else fragment("(double){}", value)
            case SymbolKind.BOOL:
                return fragment("({} != 0)", value)
            case SymbolKind.INT:
                whole = fragment("wir_whole({}, {})", value, self._fault)
                return whole if is_float else value

    def format_index(self, expr: Expr) -> Fragment:
        """Return C with the value of an expression as a whole number."""
        return self.format_number(expr, SymbolKind.INT)

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

    def _is_exact(self, expr: Expr) -> bool:
        """Return whether a number is a double, or becomes one without rounding."""
        if isinstance(expr, int):
            return abs(expr) <= 2**53
        return self._kinds.kind(expr) in (SymbolKind.FLOAT, SymbolKind.BOOL)

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
        elif op is ExprOp.NEG and None not in kinds:
            if is_real:
                return fragment("(-{})", args[0])
            return fragment("wir_sub(0, {}, {})", args[0], self._fault)
        elif op is ExprOp.TRUNC and None not in kinds:
            cut = fragment("wir_trunc({}, {})", args[0], self._fault)
            return cut if is_real else args[0]
        elif op in _COMPARISONS and (not is_mixed or all(map(self._is_exact, expr.args))):
            return fragment(_COMPARISONS[op], *args)
        elif is_real and op is ExprOp.TRUEDIV and None not in kinds:
            return fragment("wir_truediv({}, {}, {})", *args, self._fault)
        elif is_real and op in _REALS and None not in kinds:
            # A whole number is converted to a double first, as in Python.
            return _folded(_REALS[op], args)
        elif not is_real and op in _EXTREMES:
            return _folded(_EXTREMES[op], args)
        elif not is_real and op in _CALLS:
            return _folded(_CALLS[op], args, self._fault)
        of = "numbers of several kinds" if is_mixed else "these numbers"
        self._report(f"there is no C for {op.value} of {of}")
        return fragment("0")


def _folded(template: LiteralString, args: list[Fragment], *rest: Fragment) -> Fragment:
    """Return an operator of two or more operands, from left to right, and what follows."""
    result = args[0]
    for arg in args[1:]:
        result = fragment(template, result, arg, *rest)
    return result
