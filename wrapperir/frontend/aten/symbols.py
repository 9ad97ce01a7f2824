"""Definitions of the symbols in the types of inputs and results."""

from typing import Any, TypeAlias

import torch

from wrapperir import ir as wir
from wrapperir.frontend.aten.scope import GraphScope, take
from wrapperir.frontend.aten.values import (
    expr_of,
    is_symbolic,
    original_expr_of,
    strides_of,
)
from wrapperir.symbolic import lower_sympy

SymbolFact: TypeAlias = tuple[wir.SymbolSource, Any]
"""A place to read a number from, and the sympy expression that it is in the graph."""


def value_facts(name: str, value: Any) -> list[SymbolFact]:
    """Return the facts of a scalar, or of a tensor's size, stride and offset."""
    if not isinstance(value, torch.Tensor):
        return _number_facts(wir.ValueOf(name), value)
    places: list[tuple[wir.SymbolSource, Any]] = [
        *((wir.SizeOf(name, dim), extent) for dim, extent in enumerate(value.size())),
        *((wir.StrideOf(name, dim), step) for dim, step in enumerate(strides_of(value))),
        (wir.OffsetOf(name), value.storage_offset()),
    ]
    return [fact for source, number in places for fact in _number_facts(source, number)]


def item_facts(name: str, value: Any) -> list[SymbolFact]:
    """Return the facts of the one element of a tensor."""
    return _number_facts(wir.ItemOf(name), value)


def _number_facts(source: wir.SymbolSource, value: Any) -> list[SymbolFact]:
    if not is_symbolic(value):
        return []
    expr, original = expr_of(value), original_expr_of(value)
    # A guard may have replaced a symbol that asserts still mention by something else.
    replaced = original != expr and not expr.is_Symbol and _is_unbacked(original)
    return [(source, expr), (source, original)] if replaced else [(source, expr)]


def _is_unbacked(expr: Any) -> bool:
    return all(str(symbol).startswith(("u", "zuf")) for symbol in expr.free_symbols)


def define_symbols(
    scope: GraphScope, facts: list[SymbolFact]
) -> list[wir.SymbolDefinitionLine]:
    """Define the symbols that follow from the facts and have no definition yet.

    Facts that are a plain symbol are preferred; a fact that is linear in one unknown symbol
    gives it by a division.  Other symbols stay undefined.
    """
    lines: list[wir.SymbolDefinitionLine] = []
    for source, expr in facts:
        known = _plain_symbol(expr)
        if known is not None and not scope.is_defined(known.name):
            lines.append(_definition(scope, known, source))
    for source, expr in facts:
        unknown = [s for s in expr.free_symbols if not scope.is_defined(s.name)]
        if len(unknown) == 1:
            lines.extend(_solve(scope, source, expr, unknown[0]))
    return lines


def _plain_symbol(expr: Any) -> Any:
    """Return the symbol that ``expr`` is, or that ``expr`` compares with 1."""
    if expr.is_Symbol:
        return expr
    if expr.func.__name__ == "Equality" and expr.lhs.is_Symbol and expr.rhs == 1:
        return expr.lhs
    return None


def _solve(
    scope: GraphScope, source: wir.SymbolSource, expr: Any, unknown: Any
) -> list[wir.SymbolDefinitionLine]:
    rest = expr.subs(unknown, 0)
    factor = ((expr - rest) / unknown).expand()
    if not factor.is_Integer or factor == 0:
        return []
    whole = take(scope.shared.symbols, f"{unknown.name}_whole")
    scope.visible.add(whole)
    difference = wir.sub(wir.Symbol(whole), scope.resolve(lower_sympy(rest)))
    return [
        wir.SymbolDefinitionLine(symbol=whole, source=source),
        _definition(scope, unknown, wir.floordiv(difference, int(factor))),
    ]


def _definition(
    scope: GraphScope, symbol: Any, source: wir.SymbolSource
) -> wir.SymbolDefinitionLine:
    name = take(scope.shared.symbols, symbol.name)
    if name != symbol.name:
        scope.renamed[symbol.name] = wir.Symbol(name)
    scope.visible.add(name)
    bounds = scope.shared.ranges.get(symbol)
    if not symbol.is_integer:
        return wir.SymbolDefinitionLine(
            symbol=name, kind=wir.SymbolKind.FLOAT, source=source
        )
    return wir.SymbolDefinitionLine(
        symbol=name,
        lower=None if bounds is None else _bound(bounds.lower),
        upper=None if bounds is None else _bound(bounds.upper),
        source=source,
    )


def _bound(value: Any) -> int | None:
    return int(value) if value.is_Integer else None
