"""Inputs of a graph and the symbols that they bring."""

import torch

from wrapperir.diagnostics import DiagnosticError
from wrapperir.frontend.aten.scope import Poison, Scope, take
from wrapperir.frontend.aten.symbols import define_symbols, scalar_facts, tensor_facts
from wrapperir.frontend.aten.values import NO_VALUE, SCALARS
from wrapperir.ir import BufferRef, SymbolDefinitionLine, ValueOf, ValueType


def lower_given(
    scope: Scope, given: list[torch.fx.Node]
) -> tuple[list[tuple[str, ValueType]], list[SymbolDefinitionLine]]:
    """Declare the inputs that nodes stand for, once the symbols they bring are defined.

    Return each input's name and type, and the definitions of the symbols.  What has no
    type is added to the diagnostics.
    """
    names = {node: scope.new_name(node.name) for node in given}
    facts = [
        fact
        for node, name in names.items()
        for fact in (
            tensor_facts(name, node.meta["val"])
            if isinstance(node.meta["val"], torch.Tensor)
            else scalar_facts(name, node.meta["val"])
        )
    ]
    symbols = define_symbols(scope, facts)
    inputs: list[tuple[str, ValueType]] = []
    for node, name in names.items():
        value = node.meta["val"]
        try:
            type = NO_VALUE if isinstance(value, str) else scope.lower_type(value)
        except DiagnosticError as error:
            scope.shared.diagnostics.extend(error.diagnostics)
            scope.values[node] = Poison()
            continue
        inputs.append((name, type))
        scope.declare_root(name, type)
        if isinstance(value, bool | int):
            symbols.append(_fixed(scope, name, int(value)))
        if isinstance(value, SCALARS):
            scope.values[node] = scope.lower_scalar(value)
        elif value is None or isinstance(value, str):
            scope.values[node] = value
        else:
            scope.values[node] = BufferRef(name)
    return inputs, symbols


def _fixed(scope: Scope, name: str, value: int) -> SymbolDefinitionLine:
    """Check that an input has the value that the graph was specialised for."""
    return SymbolDefinitionLine(
        symbol=take(scope.shared.symbols, f"{name}_value"),
        lower=value,
        upper=value,
        source=ValueOf(name),
    )
