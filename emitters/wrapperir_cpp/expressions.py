"""Scalar expressions in C++.

An int is an ``int64_t``, a float a ``double`` and a condition a ``bool``.  If only the run
decides the kind, as in ``where(c, 1, 0.5)``, the value is a ``num::Number``.  The functions
are declared in ``runtime/numbers.h``.

Kinds are found together with the text, not by the toolkit's ``NumberKinds``: the text
depends on the exact type of each operand, and known operands fold (``where(1, b, 2)`` is
``b``).
"""

from collections.abc import Mapping
from functools import partial, reduce
from typing import LiteralString

from attrs import frozen

from wrapperir.emit import Fragment, fragment, joined
from wrapperir.ir import (
    EvaluationError,
    Expr,
    ExprOp,
    Number,
    Operation,
    Symbol,
    SymbolKind,
    evaluate,
)
from wrapperir_cpp.literals import (
    C_TYPES,
    format_bool,
    format_converted,
    format_float,
    format_int,
    format_string,
)

_BOOL = frozenset({SymbolKind.BOOL})
_INT = frozenset({SymbolKind.INT})
_FLOAT = frozenset({SymbolKind.FLOAT})

# How tightly C++ binds the outermost operator of a text.
_OR, _AND, _COMPARE, _SUM, _PRODUCT, _UNARY, _ATOM = range(7)

_NUMBERS: Mapping[SymbolKind | None, LiteralString] = {
    SymbolKind.BOOL: "num::of_bool({})",
    SymbolKind.INT: "num::of_int({})",
    SymbolKind.FLOAT: "num::of_float({})",
}
_FUNCTIONS = {ExprOp.POW: "power", ExprOp.MIN: "least", ExprOp.MAX: "greatest"}
"""Functions whose name in ``num`` is not that of the operation."""
_BITWISE: Mapping[ExprOp, LiteralString] = {
    ExprOp.BITAND: "({} & {})",
    ExprOp.BITOR: "({} | {})",
    ExprOp.BITXOR: "({} ^ {})",
}
_ROUNDINGS = (ExprOp.FLOOR, ExprOp.CEIL, ExprOp.TRUNC, ExprOp.ROUND)
_BITS = (ExprOp.SHL, ExprOp.SHR, *_BITWISE)
_IN_FLOATS: Mapping[ExprOp, tuple[LiteralString, int]] = {
    ExprOp.ADD: ("{} + {}", _SUM),
    ExprOp.SUB: ("{} - {}", _SUM),
    ExprOp.MUL: ("{} * {}", _PRODUCT),
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
    ExprOp.AND: (" && ", _AND),
    ExprOp.OR: (" || ", _OR),
}


@frozen
class _Term:
    """C++ text with the value of an expression, and the kinds of number that it may be.

    The type of the text is that of its kind, or ``num::Number`` if there are several.  A
    term whose value is known has it in ``constant``, and its text is not used.  ``level``
    says how tightly C++ binds the text.
    """

    text: Fragment
    level: int
    kinds: frozenset[SymbolKind]
    constant: Number | None = None

    @property
    def kind(self) -> SymbolKind | None:
        return next(iter(self.kinds)) if len(self.kinds) == 1 else None

    @property
    def is_whole(self) -> bool:
        return SymbolKind.FLOAT not in self.kinds

    @property
    def is_exact_in_floats(self) -> bool:
        """Say whether a ``double`` has the same value."""
        if self.constant is not None and self.is_whole:
            return abs(self.constant) <= 2**53
        return self.kind in (SymbolKind.FLOAT, SymbolKind.BOOL)

    def natural(self) -> Fragment:
        """Return it as a C++ expression of its own type."""
        if self.constant is None:
            return self.text
        literal = self.converted(self.kind)
        return fragment("int64_t({})", literal) if self.kinds == _INT else literal

    def converted(self, kind: SymbolKind | None) -> Fragment:
        """Return it as a number of a kind, or as a ``num::Number``.

        The emitted code reports an error where the kind cannot hold the value.
        """
        if kind is None:
            own = self.kind
            return fragment(_NUMBERS[own], self.converted(own)) if own else self.text
        if self.constant is None:
            return format_converted(self.text, self.kind, kind)
        match kind:
            case SymbolKind.BOOL:
                return format_bool(bool(self.constant))
            case SymbolKind.INT:
                return _format_whole(self.constant)
            case SymbolKind.FLOAT:
                try:
                    return format_float(float(self.constant))
                except OverflowError as error:
                    return _absent(str(error), _FLOAT).text

    def truncated(self) -> Fragment:
        """Return what Python's ``int`` makes of it, as an ``int64_t``."""
        if self.constant is None:
            whole = self.converted(SymbolKind.INT) if self.is_whole else None
            return whole or _call(ExprOp.TRUNC, self.text)
        try:
            return _constant(int(self.constant)).natural()
        except (ValueError, OverflowError) as error:
            return _absent(str(error), _INT).text

    def condition(self) -> Fragment:
        """Return it as a C++ condition, which binds as tightly as a unary operator."""
        if self.constant is None:
            return self.operand(_UNARY)
        return self.converted(SymbolKind.BOOL)

    def operand(self, needed: int, kind: SymbolKind | None = None) -> Fragment:
        """Return it, converted if a kind is given, in parentheses if it binds less."""
        text = self.natural() if kind is None else self.converted(kind)
        level = _UNARY if text.startswith("-") else _ATOM
        if text == self.text:
            level = self.level
        return text if level >= needed else fragment("({})", text)


class CppExpressions:
    """Formats expressions over symbols with known identifiers and kinds.

    The C++ throws ``Failure`` if the expression has no value, or if an int on the way does
    not fit 64 bits.
    """

    def __init__(
        self, symbols: Mapping[str, Fragment], kinds: Mapping[str, SymbolKind]
    ) -> None:
        """Format over ``symbols``."""
        self._symbols = symbols
        self._kinds = kinds

    def kind(self, expr: Expr) -> SymbolKind | None:
        """Return the kind of number that ``expr`` is; ``None`` if only the run decides."""
        return self._root(expr).kind

    def constant(self, expr: Expr) -> Number | None:
        """Return the value if it is known before the run."""
        return self._root(expr).constant

    def format_index(self, expr: Expr) -> Fragment:
        """Return an ``int64_t`` or an int's literal; the C++ fails if it is not whole."""
        return self._root(expr).converted(SymbolKind.INT)

    def format_number(self, expr: Expr, kind: SymbolKind | None) -> Fragment:
        """Return ``expr`` as a number of a kind; as a ``num::Number`` without one."""
        return self._root(expr).converted(kind)

    def format_condition(self, expr: Expr) -> Fragment:
        """Return C++ for the truth of ``expr`` in an ``if``."""
        term = self._root(expr)
        return term.text if term.constant is None else term.condition()

    def _root(self, expr: Expr) -> _Term:
        term = self._term(expr)
        value = term.constant
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            return _absent(f"{value} does not fit 64 bits", term.kinds)
        return term

    def _term(self, expr: Expr) -> _Term:
        if isinstance(expr, Symbol):
            kind = self._kinds[expr.name]
            return _Term(self._symbols[expr.name], _ATOM, frozenset({kind}))
        if not isinstance(expr, Operation):
            return _constant(expr)
        terms = [self._term(arg) for arg in expr.args]
        if expr.op is ExprOp.WHERE:
            return _where(*terms)
        if expr.op in _LOGIC:
            return _logic(expr.op, terms)
        known = tuple(term.constant for term in terms if term.constant is not None)
        if len(known) < len(terms):
            return _operation(expr.op, terms)
        try:
            return _constant(evaluate(Operation(expr.op, known), {}))
        except EvaluationError as error:
            return _absent(str(error), _operation(expr.op, terms).kinds)


def _constant(value: Number) -> _Term:
    kind = SymbolKind.FLOAT if isinstance(value, float) else SymbolKind.INT
    kind = SymbolKind.BOOL if isinstance(value, bool) else kind
    return _Term(fragment(""), _ATOM, frozenset({kind}), value)


def _absent(why: str, kinds: frozenset[SymbolKind]) -> _Term:
    """Return a term that fails when it is evaluated."""
    kind = next(iter(kinds)) if len(kinds) == 1 else None
    text = fragment("num::absent<{}>({})", fragment(C_TYPES[kind]), format_string(why))
    return _Term(text, _ATOM, kinds)


def _format_whole(value: Number) -> Fragment:
    """Return a literal; C++ that fails if the number is not a 64-bit int."""
    try:
        if int(value) == value:
            return format_int(int(value))
        why = f"{value} is not a whole number"
    except (ValueError, OverflowError):
        why = f"{value} does not fit 64 bits"
    return _absent(why, _INT).text


def _where(condition: _Term, if_true: _Term, if_false: _Term) -> _Term:
    if condition.constant is not None:
        return if_true if condition.constant else if_false
    kinds, texts = _alike(if_true, if_false)
    text = fragment("({} ? {} : {})", condition.condition(), *texts)
    return _Term(text, _ATOM, kinds)


def _alike(*terms: _Term) -> tuple[frozenset[SymbolKind], list[Fragment]]:
    """Return the kinds of some terms, and texts of the one C++ type that holds all."""
    kinds = frozenset[SymbolKind]().union(*(term.kinds for term in terms))
    if len(kinds) == 1:
        return kinds, [term.natural() for term in terms]
    return kinds, [term.converted(None) for term in terms]


def _logic(op: ExprOp, terms: list[_Term]) -> _Term:
    separator, level = _LOGIC[op]
    decisive = op is ExprOp.OR
    parts: list[Fragment] = []
    for term in terms:
        if term.constant is None:
            parts.append(term.condition())
        elif bool(term.constant) is decisive:
            if not parts:
                return _constant(decisive)
            parts.append(term.condition())
            break
    if not parts:
        return _constant(not decisive)
    if len(parts) == 1:
        return _Term(fragment("bool({})", parts[0]), _ATOM, _BOOL)
    return _Term(joined(separator, parts), level, _BOOL)


def _operation(op: ExprOp, terms: list[_Term]) -> _Term:
    """Return an operation that evaluates all operands."""
    first = terms[0]
    if op in (ExprOp.MIN, ExprOp.MAX):
        return reduce(partial(_choice, op), terms)
    if op in _COMPARISONS:
        return _comparison(op, *terms)
    if op is ExprOp.TRUEDIV:
        return _Term(_call(op, *_numeric(*terms)[1]), _ATOM, _FLOAT)
    if op is ExprOp.POW:
        return _power(*terms)
    if op in _BITS:
        return _bits(op, *terms)
    if op is ExprOp.NEG and first.kinds == _FLOAT:
        return _Term(fragment("-{}", first.operand(_ATOM)), _UNARY, _FLOAT)
    if op in (ExprOp.NEG, ExprOp.ABS):
        kinds, texts = _numeric(first)
        return _Term(_call(op, *texts), _ATOM, kinds)
    if op in _ROUNDINGS:
        whole = first.converted(SymbolKind.INT) if first.is_whole else None
        return _Term(whole or _call(op, first.text), _ATOM, _INT)
    if op is ExprOp.NOT:
        return _Term(fragment("!{}", first.condition()), _UNARY, _BOOL)
    if op is ExprOp.TO_FLOAT:
        real = _Term(first.converted(SymbolKind.FLOAT), _ATOM, _FLOAT)
        return first if first.kinds == _FLOAT else real
    if op in (ExprOp.SQRT, ExprOp.LOG2):
        return _Term(_call(op, first.converted(SymbolKind.FLOAT)), _ATOM, _FLOAT)
    return reduce(partial(_arithmetic, op), terms)


def _call(op: ExprOp, *texts: Fragment) -> Fragment:
    """Return the call of the function of an operation, such as ``num::add(c.a, 1)``."""
    if op in _BITWISE:
        return fragment(_BITWISE[op], *texts)
    name = Fragment(_FUNCTIONS.get(op, op.value))
    return fragment("num::{}({})", name, joined(", ", texts))


def _numeric(*terms: _Term) -> tuple[frozenset[SymbolKind], list[Fragment]]:
    """Return the kinds of arithmetic on some terms, and their texts for that."""
    if all(term.is_whole for term in terms):
        return _INT, [term.converted(SymbolKind.INT) for term in terms]
    if any(term.kinds == _FLOAT for term in terms):
        return _FLOAT, [term.converted(SymbolKind.FLOAT) for term in terms]
    return _INT | _FLOAT, [term.converted(None) for term in terms]


def _arithmetic(op: ExprOp, left: _Term, right: _Term) -> _Term:
    kinds, texts = _numeric(left, right)
    if kinds != _FLOAT or op not in _IN_FLOATS:
        return _Term(_call(op, *texts), _ATOM, kinds)
    if op is ExprOp.SUB and left.constant == 0 and right.kinds != _FLOAT:
        # GCC 12 folds ``0.0 - double(i)`` to ``-double(i)``, which is -0.0 for 0.
        return _Term(fragment("num::sub({}, {}, 0)", *texts), _ATOM, _FLOAT)
    template, level = _IN_FLOATS[op]
    sides = left.operand(level, SymbolKind.FLOAT), right.operand(_UNARY, SymbolKind.FLOAT)
    return _Term(fragment(template, *sides), level, _FLOAT)


def _choice(op: ExprOp, left: _Term, right: _Term) -> _Term:
    kinds, texts = _alike(left, right)
    return _Term(_call(op, *texts), _ATOM, kinds)


def _comparison(op: ExprOp, left: _Term, right: _Term) -> _Term:
    sides = (left, right)
    if any(side.kinds == _FLOAT for side in sides):
        exact = all(side.is_exact_in_floats for side in sides)
        kind = SymbolKind.FLOAT if exact else None
    elif left.kind is right.kind is SymbolKind.BOOL:
        kind = SymbolKind.BOOL
    else:
        kind = SymbolKind.INT if left.is_whole and right.is_whole else None
    texts = [side.operand(_UNARY, kind) if kind else side.converted(None) for side in sides]
    return _Term(fragment(_COMPARISONS[op], *texts), _COMPARE, _BOOL)


def _power(base: _Term, exponent: _Term) -> _Term:
    kinds, texts = _numeric(base, exponent)
    if kinds == _INT and exponent.kinds != _BOOL:
        if exponent.constant is None:  # a negative exponent gives a float
            kinds, texts = _INT | _FLOAT, [t.converted(None) for t in (base, exponent)]
        elif exponent.constant < 0:
            kinds, texts = _FLOAT, [t.converted(SymbolKind.FLOAT) for t in (base, exponent)]
    return _Term(_call(ExprOp.POW, *texts), _ATOM, kinds)


def _bits(op: ExprOp, left: _Term, right: _Term) -> _Term:
    second = right.truncated()
    if op is ExprOp.SHL and right.constant is None and not right.is_whole:
        second = fragment("num::shift_count({})", right.text)
    return _Term(_call(op, left.truncated(), second), _ATOM, _INT)
