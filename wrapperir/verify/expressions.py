"""Facts of expressions: symbols, faults, bounds."""

from attrs import define, frozen

from wrapperir.analysis.arithmetic.interval import UNBOUNDED, Interval, interval_of
from wrapperir.analysis.arithmetic.polynomial import Polynomial, Polynomials
from wrapperir.diagnostics import Code, LinePath
from wrapperir.ir import MAX_DEPTH, Expr, Operation, Symbol, SymbolKind, accepts_arity


@define(eq=False)
class SymbolFacts:
    """A symbol in scope: its range, and the polynomial that it was computed from."""

    kind: SymbolKind
    interval: Interval
    computed: Polynomial | None
    defined: LinePath
    poisoned: bool = False


@frozen
class Fault:
    """Something wrong with an expression or type, to be reported where it is used."""

    code: Code
    message: str
    subject: str | None = None
    hint: str | None = None


@frozen(eq=False)
class ExpressionFacts:
    """The symbols of an operation, and its first fault."""

    symbols: tuple[str, ...]
    fault: Fault | None


class Expressions:
    """Checks expressions; operations are remembered by identity.

    ``symbols`` are those in scope; the caller adds and removes.
    """

    def __init__(self, symbols: dict[str, SymbolFacts]) -> None:
        """Start with nothing checked."""
        self._symbols = symbols
        self._facts: dict[int, ExpressionFacts] = {}
        self.polynomials = Polynomials(self._range, self._computed)

    def _range(self, name: str) -> Interval:
        facts = self._symbols.get(name)
        return UNBOUNDED if facts is None else facts.interval

    def _computed(self, name: str) -> Polynomial | None:
        facts = self._symbols.get(name)
        return None if facts is None else facts.computed

    def interval(self, expr: Expr) -> Interval:
        """Return an interval that holds every value of a well-formed expression."""
        return interval_of(expr, self._range, self.polynomials.intervals)

    def of(self, expr: Operation) -> ExpressionFacts:
        """Return the facts of an operation."""
        facts = self._facts.get(id(expr))
        if facts is None:
            facts = self._facts[id(expr)] = _examine_flat(expr) or _examine(expr)
        return facts


def _examine_flat(expr: Operation) -> ExpressionFacts | None:
    """Return the facts of an operation on symbols and numbers, ``None`` for any other."""
    names: tuple[str, ...] = ()
    for arg in expr.args:
        if isinstance(arg, Symbol):
            if arg.name not in names:
                names = (*names, arg.name)
        elif isinstance(arg, Operation):
            return None
    return ExpressionFacts(names, None) if accepts_arity(expr.op, len(expr.args)) else None


def _examine(root: Operation) -> ExpressionFacts:
    """Walk an operation without recursion, each shared part once."""
    symbols: dict[str, None] = {}
    heights: dict[int, int] = {}
    entered: set[int] = set()
    stack: list[Operation] = [root]
    while stack:
        expr = stack[-1]
        if id(expr) in heights:
            stack.pop()
            continue
        waiting: list[Operation] = []
        height = 0
        for arg in expr.args:
            if isinstance(arg, Operation):
                known = heights.get(id(arg))
                if known is None:
                    waiting.append(arg)
                else:
                    height = max(height, known)
            elif isinstance(arg, Symbol):
                symbols[arg.name] = None
        if waiting and id(expr) in entered:
            return ExpressionFacts((), _too_deep())  # it is a part of itself
        entered.add(id(expr))
        if waiting:
            stack.extend(waiting)
            continue
        if not accepts_arity(expr.op, len(expr.args)):
            return ExpressionFacts(
                (),
                Fault(
                    Code.OPERATION_ARITY,
                    f"{expr.op.value} does not take {len(expr.args)} arguments",
                ),
            )
        heights[id(expr)] = height + 1
        stack.pop()
    if heights[id(root)] > MAX_DEPTH:
        return ExpressionFacts((), _too_deep())
    return ExpressionFacts(tuple(symbols), None)


def _too_deep() -> Fault:
    return Fault(
        Code.EXPRESSION_DEPTH,
        f"the expression is nested more than {MAX_DEPTH} deep",
        hint="define a symbol for a part of it",
    )
