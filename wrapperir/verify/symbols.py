"""Checks of symbol definitions: sources and ranges."""

import math

from wrapperir.analysis.arithmetic.interval import UNBOUNDED, Interval
from wrapperir.analysis.arithmetic.polynomial import Polynomial
from wrapperir.diagnostics import Code, Note
from wrapperir.ir import (
    RESERVED_SYMBOLS,
    Expr,
    ItemOf,
    OffsetOf,
    Operation,
    ScalarType,
    SizeOf,
    StrideOf,
    SymbolDefinitionLine,
    SymbolKind,
    TensorType,
    ValueOf,
    is_identifier,
)
from wrapperir.verify.comparison import certainly_differ
from wrapperir.verify.expressions import SymbolFacts
from wrapperir.verify.names import use, use_expression, use_tensor
from wrapperir.verify.state import State, ValueFacts, defined_note
from wrapperir.verify.written_bytes import check_read


def check_symbol_definition(state: State, line: SymbolDefinitionLine) -> None:
    """Check a source and range, and define the symbol."""
    found, computed = _check_source(state, line)
    low = -math.inf if line.lower is None else line.lower
    high = math.inf if line.upper is None else line.upper
    if low > high:
        state.report(
            Code.EMPTY_RANGE,
            f"the range of {line.symbol} is empty: {line.lower} is above {line.upper}",
            line.symbol,
        )
        low, high = UNBOUNDED
    elif found[1] < low or found[0] > high:
        state.report(
            Code.OUTSIDE_RANGE,
            f"the value of {line.symbol} is never in its range",
            line.symbol,
        )
    else:
        low, high = max(low, found[0]), min(high, found[1])
    facts = SymbolFacts(
        line.kind,
        (low, high) if line.kind is SymbolKind.INT else UNBOUNDED,
        computed if line.kind is SymbolKind.INT else None,
        state.place(),
    )
    _define(state, line.symbol, facts)


def _define(state: State, name: str, facts: SymbolFacts) -> None:
    first = state.symbols.get(name) or state.ended_symbols.get(name)
    if first is not None:
        if not first.poisoned:
            state.report(
                Code.SYMBOL_REDEFINITION,
                f"the symbol {name} is defined twice",
                name,
                notes=(Note(message="first defined here", path=first.defined),),
            )
            first.poisoned = True
        return
    if not is_identifier(name):
        state.report(
            Code.INVALID_IDENTIFIER, f"the symbol name {name!r} is not an identifier", name
        )
    elif name in RESERVED_SYMBOLS:
        state.report(
            Code.RESERVED_SYMBOL, f"{name} is a word of the text form, not a symbol", name
        )
    state.symbols[name] = facts
    state.scope.symbols.append(name)


def _check_source(
    state: State, line: SymbolDefinitionLine
) -> tuple[Interval, Polynomial | None]:
    """Check the source of a symbol; return its range and its polynomial, if known."""
    source = line.source
    if isinstance(source, SizeOf | StrideOf):
        return _dimension(state, source), None
    if isinstance(source, OffsetOf):
        value = use_tensor(state, source.buffer)
        return (0, math.inf) if value is not None else UNBOUNDED, None
    if isinstance(source, ItemOf):
        value = use_tensor(state, source.buffer)
        if value is not None:
            check_one_element(state, value)
            check_read(state, value, "the symbol is read from")
        return UNBOUNDED, None
    if isinstance(source, ValueOf):
        value = use(state, source.name)
        if value is not None and not isinstance(value.type, ScalarType):
            state.report(
                Code.SYMBOL_SOURCE,
                f"%{source.name} is not a scalar",
                f"%{source.name}",
                notes=(defined_note(value),),
                hint="the one element of a tensor is item(…)",
            )
        return UNBOUNDED, None
    return _expression(state, source)


def _expression(state: State, source: Expr) -> tuple[Interval, Polynomial | None]:
    use_expression(state, source)
    expressions = state.layouts.expressions
    if isinstance(source, Operation) and expressions.of(source).fault is not None:
        return UNBOUNDED, None
    if isinstance(source, float):
        return expressions.interval(source), None
    return expressions.interval(source), expressions.polynomials.of(source)


def _dimension(state: State, source: SizeOf | StrideOf) -> Interval:
    value = use_tensor(state, source.buffer)
    if value is None:
        return UNBOUNDED
    assert isinstance(value.type, TensorType)
    rank = len(value.type.size)
    if not 0 <= source.dim < rank:
        state.report(
            Code.SYMBOL_SOURCE,
            f"%{source.buffer} has {rank} dimensions, and no dimension {source.dim}",
            f"%{source.buffer}",
            notes=(defined_note(value),),
        )
    return (0, math.inf)


def check_one_element(state: State, value: ValueFacts) -> None:
    """Report a tensor that certainly has more or fewer elements than one."""
    type = value.type
    assert isinstance(type, TensorType)
    if any(certainly_differ(state.layouts, size, 1) for size in type.size):
        state.report(
            Code.NOT_ONE_ELEMENT,
            f"%{value.name} has not one element",
            f"%{value.name}",
            notes=(defined_note(value),),
        )
