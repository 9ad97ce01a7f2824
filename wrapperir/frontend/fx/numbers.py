"""Numbers of a graph as expressions, and symbols for numbers known at run time."""

from typing import Any

import torch

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend.aten.arguments import lower_argument
from wrapperir.frontend.aten.scope import GraphScope, take
from wrapperir.frontend.aten.values import expr_of, is_symbolic
from wrapperir.frontend.fx.state import shared_of
from wrapperir.ir import (
    RESERVED_SYMBOLS,
    Expr,
    Operation,
    Symbol,
    SymbolDefinitionLine,
    SymbolKind,
    SymbolSource,
)


def expressions(scope: GraphScope, values: Any) -> tuple[Expr, ...]:
    """Return the expressions of numbers and of nodes that compute numbers.

    Raises:
        DiagnosticError: WIR603, one is not a number.
    """
    return tuple(expression(scope, value) for value in values)


def expression(scope: GraphScope, value: Any) -> Expr:
    """Return the expression of a number or of a node that computes one.

    Raises:
        DiagnosticError: WIR603, it is not a number.
    """
    lowered = lower_argument(scope, value)
    if isinstance(lowered, int | float | Symbol | Operation):
        return int(lowered) if isinstance(lowered, bool) else lowered
    raise DiagnosticError.of(Code.UNSUPPORTED_ARGUMENT, f"{value} is not a number")


def define(
    scope: GraphScope,
    node: torch.fx.Node,
    source: SymbolSource,
    kind: SymbolKind,
    *,
    name: str | None = None,
    lower: int | None = None,
    upper: int | None = None,
) -> Symbol:
    """Append the definition of a symbol and return it.

    It has the name of the symbol in the node's example, if that is not defined yet.
    """
    chosen = _new_symbol(scope, node)
    if chosen is None:
        chosen = name or node.name
        # What types may mention is not to be taken for this one.
        while chosen in RESERVED_SYMBOLS or chosen in shared_of(scope).graph_symbols:
            chosen = f"{chosen}_"
    symbol = take(scope.shared.symbols, chosen)
    scope.visible.add(symbol)
    scope.lines.append(
        SymbolDefinitionLine(
            symbol=symbol, kind=kind, lower=lower, upper=upper, source=source
        )
    )
    return Symbol(symbol)


def _new_symbol(scope: GraphScope, node: torch.fx.Node) -> str | None:
    """Return the name of the symbol that a node's example is, if none defined it yet."""
    value = node.meta.get("val")
    if not is_symbolic(value):
        return None
    expr = expr_of(value)
    if not expr.is_Symbol or scope.is_defined(expr.name):
        return None
    return str(expr.name)


def bind(scope: GraphScope, node: torch.fx.Node, value: Expr) -> None:
    """Replace the symbol of a node's example, which types may mention, by its value."""
    name = _new_symbol(scope, node)
    if name is not None and value != Symbol(name):
        scope.renamed[name] = value
