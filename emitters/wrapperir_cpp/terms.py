"""Parts of expressions in C++, and their conversions from one C++ type to another."""

from collections.abc import Mapping, Sequence
from typing import LiteralString

from attrs import frozen

from wrapperir.emit import Fragment, fragment
from wrapperir.ir import Number, SymbolKind
from wrapperir_cpp.literals import format_float, format_int, format_string

BOOL = frozenset({SymbolKind.BOOL})
INT = frozenset({SymbolKind.INT})
FLOAT = frozenset({SymbolKind.FLOAT})

OR, AND, COMPARE, SUM, PRODUCT, UNARY, ATOM = range(7)
"""How tightly C++ binds what a text is made of."""

_ABSENT: Mapping[SymbolKind | None, LiteralString] = {
    SymbolKind.BOOL: "num::absent<bool>({})",
    SymbolKind.INT: "num::absent<int64_t>({})",
    SymbolKind.FLOAT: "num::absent<double>({})",
    None: "num::absent<num::Number>({})",
}
_EXACT_IN_FLOATS = 2**53


@frozen
class Term:
    """C++ with the value of an expression, and the kinds of number that may be.

    Its C++ type is that of its kind, ``int64_t``, ``double`` or ``bool``, and
    ``num::Number`` where there are several.  ``constant`` is the value where it is known;
    then there is no text.
    """

    text: Fragment
    level: int
    kinds: frozenset[SymbolKind]
    constant: Number | None = None

    @property
    def kind(self) -> SymbolKind | None:
        """The one kind, ``None`` where only the run can say."""
        return next(iter(self.kinds)) if len(self.kinds) == 1 else None

    @property
    def is_whole(self) -> bool:
        """Whether it is an int or bool."""
        return SymbolKind.FLOAT not in self.kinds

    @property
    def is_exact_in_floats(self) -> bool:
        """Whether a ``double`` has the same value."""
        if self.constant is not None and self.is_whole:
            return abs(self.constant) <= _EXACT_IN_FLOATS
        return self.kind in (SymbolKind.FLOAT, SymbolKind.BOOL)

    def natural(self) -> Fragment:
        """Return it as the C++ type that it has."""
        if self.constant is None:
            return self.text
        match self.kind:
            case SymbolKind.BOOL:
                return fragment("true") if self.constant else fragment("false")
            case SymbolKind.FLOAT:
                return format_float(self.constant)
            case _:
                return fragment("int64_t({})", whole_literal(self.constant))

    def integer(self) -> Fragment:
        """Return an int or bool as an ``int64_t``, or as a literal of any integer type."""
        if self.constant is not None:
            return whole_literal(self.constant)
        match self.kind:
            case SymbolKind.INT:
                return self.text
            case SymbolKind.BOOL:
                return fragment("int64_t({})", self.text)
            case _:
                return fragment("{}.whole", self.operand(ATOM))

    def real(self) -> Fragment:
        """Return it as a ``double``."""
        if self.constant is not None:
            try:
                return format_float(float(self.constant))
            except OverflowError as error:
                return absent(str(error), FLOAT).text
        match self.kind:
            case SymbolKind.FLOAT:
                return self.text
            case None:
                return fragment("num::real({})", self.text)
            case _:
                return fragment("double({})", self.text)

    def number(self) -> Fragment:
        """Return it as a ``num::Number``."""
        match self.kind:
            case SymbolKind.BOOL:
                return fragment("num::of_bool({})", self.natural())
            case SymbolKind.INT:
                return fragment("num::of_int({})", self.integer())
            case SymbolKind.FLOAT:
                return fragment("num::of_float({})", self.natural())
            case None:
                return self.text

    def index(self) -> Fragment:
        """Return it as :meth:`integer` does; the C++ fails where it is not whole."""
        if self.constant is None and not self.is_whole:
            return fragment("num::whole({})", self.text)
        return self.integer()

    def truncated(self) -> Fragment:
        """Return what Python's ``int`` makes of it, as an ``int64_t``."""
        if self.constant is None:
            return (
                self.integer() if self.is_whole else fragment("num::trunc({})", self.text)
            )
        try:
            return constant(int(self.constant)).natural()
        except (ValueError, OverflowError) as error:
            return absent(str(error), INT).text

    def condition(self) -> Fragment:
        """Return what C++ takes as its truth where it wants a condition."""
        if self.constant is None:
            return self.operand(UNARY)
        return fragment("true") if self.constant else fragment("false")

    def operand(self, needed: int) -> Fragment:
        """Return it as :meth:`natural` does, in parentheses if it binds less."""
        text = self.natural()
        level = UNARY if text.startswith("-") else self.level
        return text if level >= needed else fragment("({})", text)

    def real_operand(self, needed: int) -> Fragment:
        """Return it as :meth:`real` does, in parentheses if it binds less."""
        if self.kind is SymbolKind.FLOAT:
            return self.operand(needed)
        return Term(self.real(), ATOM, FLOAT).operand(needed)


def constant(value: Number) -> Term:
    """Return the term of a number that is known."""
    kind = SymbolKind.FLOAT if isinstance(value, float) else SymbolKind.INT
    kind = SymbolKind.BOOL if isinstance(value, bool) else kind
    return Term(fragment(""), ATOM, frozenset({kind}), value)


def absent(why: str, kinds: frozenset[SymbolKind]) -> Term:
    """Return a term that fails when it is evaluated."""
    kind = next(iter(kinds)) if len(kinds) == 1 else None
    return Term(fragment(_ABSENT[kind], format_string(why)), ATOM, kinds)


def whole_literal(value: Number) -> Fragment:
    """Return a literal; C++ that fails where the number is no 64-bit int."""
    try:
        if int(value) == value:
            return format_int(int(value))
        why = f"{value} is not a whole number"
    except (ValueError, OverflowError):
        why = f"{value} does not fit 64 bits"
    return absent(why, INT).text


def alike(terms: Sequence[Term], kinds: frozenset[SymbolKind]) -> list[Fragment]:
    """Return texts of the one C++ type that holds all ``kinds``."""
    if len(kinds) == 1:
        return [term.natural() for term in terms]
    return [term.number() for term in terms]
