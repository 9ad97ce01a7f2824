"""Storage offsets of inputs that ``as_strided`` makes views of."""

from collections.abc import Mapping
from typing import Any

import torch
from attrs import frozen

from wrapperir import ir as wir
from wrapperir.frontend.aten.values import expr_of, is_symbolic
from wrapperir.symbolic import lower_size

_AS_STRIDED = torch.ops.aten.as_strided.default


@frozen
class Place:
    """Storage offset of an input that ``as_strided`` makes views of.

    ``fixed``: value of ``offset`` that the graph was traced for; ``read``: such a view is
    read, not only returned.
    """

    offset: wir.Expr
    fixed: int | None = None
    read: bool = False

    @property
    def guarded(self) -> int | None:
        """The only offset that is right, if there is one: nothing else checks it."""
        return self.fixed if self.read else None

    @property
    def traced(self) -> wir.Expr:
        """The offset that the graph was traced for."""
        return self.offset if self.fixed is None else self.fixed


NOWHERE = Place(0)
"""The place of inputs that ``as_strided`` makes no views of."""


def example_offsets(graph: torch.fx.Graph) -> dict[str, Any]:
    """Return the storage offsets of inputs' examples, as ints and sympy expressions."""
    found: dict[str, Any] = {}
    for node in graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            offset: Any = value.storage_offset()
            found[str(node.target)] = expr_of(offset) if is_symbolic(offset) else offset
    return found


def input_places(graph: torch.fx.Graph, offsets: Mapping[str, Any]) -> dict[str, Place]:
    """Return the places of inputs, by the names of their nodes' targets.

    ``offsets`` has ints and sympy expressions.  The offsets of other views are counted from
    the input's first element, so programs do not depend on where it is.
    """
    places: dict[str, Place] = {}
    for node in graph.find_nodes(op="call_function", target=_AS_STRIDED):
        name = _viewed_input(node)
        if name is None or name not in offsets:
            continue
        offset: wir.Expr = lower_size(offsets[name])
        known = places.get(name)
        # AOTAutograd remakes returned views from the caller's tensors.
        read = any(user.op != "output" for user in node.users)
        if not isinstance(offset, int):
            places[name] = Place(offset)
        elif offset or read:
            read = read or (known is not None and known.read)
            places[name] = Place(wir.Symbol(f"{name}_offset"), offset, read)
    return places


def _viewed_input(node: torch.fx.Node) -> str | None:
    """Return the input at the start of a chain of views, or ``None``."""
    source: Any = node
    while source.op == "call_function":
        if not getattr(source.target, "is_view", False):
            return None
        source = source.args[0]
    return str(source.target) if source.op == "placeholder" else None
