# Inductor says little of its types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
"""Where in its storage an input begins, for graphs that count from the storage's start."""

from typing import Any

import torch
from attrs import frozen

from wrapperir.frontend.inductor.scope import Scope
from wrapperir.frontend.inductor.storage_offsets import input_offsets
from wrapperir.ir import line as wir
from wrapperir.ir.expr import Expr, Symbol
from wrapperir.symbolic import lower_size

_AS_STRIDED = torch.ops.aten.as_strided.default


@frozen
class Place:
    """Where in its storage an input begins, if ``as_strided`` counts from there.

    ``fixed`` is a number that Inductor took as given, and that ``offset`` names.
    """

    offset: Expr
    fixed: int | None = None
    read: bool = False


def input_places(graph: Any) -> dict[str, Place]:
    """Return the places of the inputs of which ``as_strided`` makes views.

    Inductor counts other views from the input's first element, wherever that lies.
    """
    offsets = input_offsets(graph)
    places: dict[str, Place] = {}
    for node in graph.graph.find_nodes(op="call_function", target=_AS_STRIDED):
        name = _viewed_input(node)
        if name is None or name not in offsets:
            continue
        offset: Expr = lower_size(offsets[name])
        known = places.get(name)
        # What is only returned, AOTAutograd makes anew from what the caller gave.
        read = any(user.op != "output" for user in node.users)
        if not isinstance(offset, int):
            places[name] = Place(offset)
        elif offset or read:
            read = read or (known is not None and known.read)
            places[name] = Place(Symbol(f"{name}_offset"), offset, read)
    return places


def _viewed_input(node: torch.fx.Node) -> str | None:
    """Return the input that a chain of views begins with; ``None`` if none does."""
    source: Any = node
    while source.op == "call_function":
        if not getattr(source.target, "is_view", False):
            return None
        source = source.args[0]
    return str(source.target) if source.op == "placeholder" else None


def place_symbols(scope: Scope, places: dict[str, Place]) -> list[wir.SymbolDefinitionLine]:
    """Return the symbols that name the places of inputs, unless an input gives them.

    Nothing guards a place that Inductor took as given: where views are read at it, the
    range does.
    """
    found: list[wir.SymbolDefinitionLine] = []
    for name, place in places.items():
        if isinstance(place.offset, Symbol) and place.offset.name not in scope.symbols:
            scope.symbols.add(place.offset.name)
            guarded = place.fixed if place.read else None
            found.append(
                wir.SymbolDefinitionLine(
                    symbol=place.offset.name,
                    lower=guarded or 0,
                    upper=guarded,
                    source=wir.OffsetOf(name),
                )
            )
    return found
