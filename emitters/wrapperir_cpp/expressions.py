"""Scalar expressions in C++.

An int is an ``int64_t``, a float a ``double``, a condition a ``bool``; where only the run
can say which, as in ``where(c, 1, 0.5)``, the C++ has a ``num::Number``.  The functions are
those of ``runtime/numbers.h``.
"""

from collections.abc import Callable, Mapping
from functools import reduce
from typing import LiteralString

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
from wrapperir_cpp.terms import (
    AND,
    ATOM,
    BOOL,
    COMPARE,
    FLOAT,
    INT,
    OR,
    PRODUCT,
    SUM,
    UNARY,
    Term,
    absent,
    alike,
    constant,
)

_ARITHMETIC: Mapping[ExprOp, LiteralString] = {
    ExprOp.ADD: "num::add({}, {})",
    ExprOp.SUB: "num::sub({}, {})",
    ExprOp.MUL: "num::mul({}, {})",
    ExprOp.FLOORDIV: "num::floordiv({}, {})",
    ExprOp.MOD: "num::mod({}, {})",
    ExprOp.CEILDIV: "num::ceildiv({}, {})",
}
_IN_FLOATS: Mapping[ExprOp, tuple[LiteralString, int]] = {
    ExprOp.ADD: ("{} + {}", SUM),
    ExprOp.SUB: ("{} - {}", SUM),
    ExprOp.MUL: ("{} * {}", PRODUCT),
}
_CHOOSING: Mapping[ExprOp, LiteralString] = {
    ExprOp.MIN: "num::least({}, {})",
    ExprOp.MAX: "num::greatest({}, {})",
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
    ExprOp.AND: (" && ", AND),
    ExprOp.OR: (" || ", OR),
}
_BITS: Mapping[ExprOp, LiteralString] = {
    ExprOp.SHL: "num::shl({}, {})",
    ExprOp.SHR: "num::shr({}, {})",
    ExprOp.BITAND: "({} & {})",
    ExprOp.BITOR: "({} | {})",
    ExprOp.BITXOR: "({} ^ {})",
}
_ROUNDINGS: Mapping[ExprOp, LiteralString] = {
    ExprOp.FLOOR: "num::floor({})",
    ExprOp.CEIL: "num::ceil({})",
    ExprOp.TRUNC: "num::trunc({})",
    ExprOp.ROUND: "num::round({})",
}
_REAL_FUNCTIONS: Mapping[ExprOp, LiteralString] = {
    ExprOp.SQRT: "num::sqrt({})",
    ExprOp.LOG2: "num::log2({})",
}


class ExpressionFormatter:
    """Formats expressions over symbols with known identifiers.

    The C++ throws ``Failure`` where the expression has no value, or an int on the way does
    not fit 64 bits.
    """

    def __init__(
        self,
        symbols: Mapping[str, Fragment],
        kinds: Mapping[str, SymbolKind] | None = None,
    ) -> None:
        """Format over ``symbols``; those without a kind are ints."""
        self._symbols = symbols
        self._kinds = kinds or {}

    def kind(self, expr: Expr) -> SymbolKind | None:
        """Return what kind of number ``expr`` is; ``None`` where only the run can say."""
        return self._root(expr).kind

    def constant(self, expr: Expr) -> Number | None:
        """Return the value if it is known before the run."""
        return self._root(expr).constant

    def format_index(self, expr: Expr) -> Fragment:
        """Return an ``int64_t`` or an int's literal; the C++ fails where not whole."""
        return self._root(expr).index()

    def format_real(self, expr: Expr) -> Fragment:
        """Return a ``double``."""
        return self._root(expr).real()

    def format_bool(self, expr: Expr) -> Fragment:
        """Return a ``bool``: whether the number is not zero."""
        term = self._root(expr)
        if term.constant is None and term.kind is not SymbolKind.BOOL:
            return fragment("bool({})", term.text)
        return self.format_condition(expr)

    def format_condition(self, expr: Expr) -> Fragment:
        """Return what stands for the truth of ``expr`` in an ``if``."""
        term = self._root(expr)
        return term.text if term.constant is None else term.condition()

    def format_number(self, expr: Expr, kind: SymbolKind) -> Fragment:
        """Return ``expr`` as a number of a kind."""
        match kind:
            case SymbolKind.BOOL:
                return self.format_bool(expr)
            case SymbolKind.FLOAT:
                return self.format_real(expr)
            case SymbolKind.INT:
                return self.format_index(expr)

    def format_any(self, expr: Expr) -> Fragment:
        """Return a ``num::Number``, which knows its kind."""
        return self._root(expr).number()

    def _root(self, expr: Expr) -> Term:
        term = self._term(expr)
        value = term.constant
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            return absent(f"{value} does not fit 64 bits", term.kinds)
        return term

    def _term(self, expr: Expr) -> Term:
        if isinstance(expr, Symbol):
            kind = self._kinds.get(expr.name, SymbolKind.INT)
            return Term(self._symbols[expr.name], ATOM, frozenset({kind}))
        if not isinstance(expr, Operation):
            return constant(expr)
        terms = [self._term(arg) for arg in expr.args]
        if expr.op is ExprOp.WHERE:
            return _where(*terms)
        if expr.op in _LOGIC:
            return _logic(expr.op, terms)
        known = tuple(term.constant for term in terms if term.constant is not None)
        if len(known) < len(terms):
            return _operation(expr.op, terms)
        try:
            return constant(evaluate(Operation(expr.op, known), {}))
        except EvaluationError as error:
            return absent(str(error), _operation(expr.op, terms).kinds)


def _where(condition: Term, if_true: Term, if_false: Term) -> Term:
    if condition.constant is not None:
        return if_true if condition.constant else if_false
    kinds = if_true.kinds | if_false.kinds
    texts = (condition.condition(), *alike([if_true, if_false], kinds))
    return Term(fragment("({} ? {} : {})", *texts), ATOM, kinds)


def _logic(op: ExprOp, terms: list[Term]) -> Term:
    separator, level = _LOGIC[op]
    decisive = op is ExprOp.OR
    parts: list[Fragment] = []
    for term in terms:
        if term.constant is None:
            parts.append(term.condition())
        elif bool(term.constant) is decisive:
            if not parts:
                return constant(decisive)
            parts.append(term.condition())
            break
    if not parts:
        return constant(not decisive)
    if len(parts) == 1:
        return Term(fragment("bool({})", parts[0]), ATOM, BOOL)
    return Term(joined(separator, parts), level, BOOL)


def _operation(op: ExprOp, terms: list[Term]) -> Term:
    """Return an operation of which all operands are evaluated."""
    if op in _ARITHMETIC:
        return reduce(lambda left, right: _arithmetic(op, left, right), terms)
    if op in _CHOOSING:
        return reduce(lambda left, right: _choice(op, left, right), terms)
    if op in _COMPARISONS:
        return _comparison(op, *terms)
    return _OTHERS[op](op, *terms)


def _arithmetic(op: ExprOp, left: Term, right: Term) -> Term:
    if left.is_whole and right.is_whole:
        texts = (left.integer(), right.integer())
        return Term(fragment(_ARITHMETIC[op], *texts), ATOM, INT)
    if FLOAT not in (left.kinds, right.kinds):
        texts = (left.number(), right.number())
        return Term(fragment(_ARITHMETIC[op], *texts), ATOM, INT | FLOAT)
    if op in _IN_FLOATS:
        template, level = _IN_FLOATS[op]
        texts = (left.real_operand(level), right.real_operand(UNARY))
        return Term(fragment(template, *texts), level, FLOAT)
    return Term(fragment(_ARITHMETIC[op], left.real(), right.real()), ATOM, FLOAT)


def _choice(op: ExprOp, left: Term, right: Term) -> Term:
    kinds = left.kinds | right.kinds
    return Term(fragment(_CHOOSING[op], *alike([left, right], kinds)), ATOM, kinds)


def _comparison(op: ExprOp, left: Term, right: Term) -> Term:
    sides = (left, right)
    exact = all(side.is_exact_in_floats for side in sides)
    if FLOAT in (left.kinds, right.kinds) and exact:
        texts = [side.real_operand(UNARY) for side in sides]
    elif left.is_whole and right.is_whole:
        if left.kind is right.kind is SymbolKind.BOOL:
            texts = [side.operand(UNARY) for side in sides]
        else:
            texts = [side.integer() for side in sides]
    else:
        texts = [side.number() for side in sides]
    return Term(fragment(_COMPARISONS[op], *texts), COMPARE, BOOL)


def _true_division(_op: ExprOp, left: Term, right: Term) -> Term:
    if left.is_whole and right.is_whole:
        texts = [left.integer(), right.integer()]
    elif FLOAT in (left.kinds, right.kinds):
        texts = [left.real(), right.real()]
    else:
        texts = [left.number(), right.number()]
    return Term(fragment("num::truediv({}, {})", *texts), ATOM, FLOAT)


def _power(_op: ExprOp, base: Term, exponent: Term) -> Term:
    kinds = INT | FLOAT  # a negative exponent gives a float
    if FLOAT in (base.kinds, exponent.kinds):
        kinds = FLOAT
    elif base.is_whole and exponent.is_whole:
        if exponent.constant is not None:
            kinds = FLOAT if exponent.constant < 0 else INT
        elif exponent.kinds == BOOL:
            kinds = INT
    if kinds == FLOAT:
        texts = [base.real(), exponent.real()]
    elif kinds == INT:
        texts = [base.integer(), exponent.integer()]
    else:
        texts = [base.number(), exponent.number()]
    return Term(fragment("num::power({}, {})", *texts), ATOM, kinds)


def _bits(op: ExprOp, left: Term, right: Term) -> Term:
    second = right.truncated()
    if op is ExprOp.SHL and right.constant is None and not right.is_whole:
        second = fragment("num::shift_count({})", right.text)
    return Term(fragment(_BITS[op], left.truncated(), second), ATOM, INT)


def _negation(_op: ExprOp, term: Term) -> Term:
    if term.is_whole:
        return Term(fragment("num::neg({})", term.integer()), ATOM, INT)
    if term.kinds == FLOAT:
        return Term(fragment("-{}", term.operand(ATOM)), UNARY, FLOAT)
    return Term(fragment("num::neg({})", term.text), ATOM, INT | FLOAT)


def _magnitude(_op: ExprOp, term: Term) -> Term:
    if term.is_whole:
        return Term(fragment("num::abs({})", term.integer()), ATOM, INT)
    kinds = FLOAT if term.kinds == FLOAT else INT | FLOAT
    return Term(fragment("num::abs({})", term.text), ATOM, kinds)


def _rounding(op: ExprOp, term: Term) -> Term:
    if term.is_whole:
        return Term(term.integer(), ATOM, INT)
    return Term(fragment(_ROUNDINGS[op], term.text), ATOM, INT)


def _not(_op: ExprOp, term: Term) -> Term:
    return Term(fragment("!{}", term.condition()), UNARY, BOOL)


def _to_float(_op: ExprOp, term: Term) -> Term:
    return term if term.kinds == FLOAT else Term(term.real(), ATOM, FLOAT)


def _real_function(op: ExprOp, term: Term) -> Term:
    return Term(fragment(_REAL_FUNCTIONS[op], term.real()), ATOM, FLOAT)


_OTHERS: Mapping[ExprOp, Callable[..., Term]] = {
    ExprOp.TRUEDIV: _true_division,
    ExprOp.POW: _power,
    ExprOp.NEG: _negation,
    ExprOp.ABS: _magnitude,
    ExprOp.NOT: _not,
    ExprOp.TO_FLOAT: _to_float,
    **dict.fromkeys(_REAL_FUNCTIONS, _real_function),
    **dict.fromkeys(_ROUNDINGS, _rounding),
    **dict.fromkeys(_BITS, _bits),
}
