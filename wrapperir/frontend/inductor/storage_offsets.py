"""Offsets of ``as_strided`` from the start of a storage, also in torch 2.11.

Inductor of that release counts them from the first element of the graph's input, so views
of an input with a storage offset have the wrong memory.  Later releases record the storage
offset of each input; for 2.11 the FX graph has it.
"""

import contextlib
import threading
from collections.abc import Callable, Generator, Mapping
from typing import Any

import sympy
import torch
from attrs import frozen
from torch._inductor import ir, lowering
from torch._inductor.virtualized import V

from wrapperir import ir as wir
from wrapperir.frontend.inductor import versions
from wrapperir.frontend.inductor.scope import BlockScope
from wrapperir.symbolic import lower_size

_OPERATORS: tuple[Any, ...] = (
    torch.ops.aten.as_strided,
    torch.ops.aten.as_strided_copy,
)


def input_offsets(graph: Any) -> Mapping[str, Any]:
    """Return the storage offset of each tensor among a graph's inputs."""
    if versions.KNOWS_INPUT_OFFSETS:
        known: Mapping[str, Any] = graph.graph_input_storage_offsets
        return known
    return {
        graph.qualify_name(node.target): _expression(value.storage_offset())
        for node in graph.graph.find_nodes(op="placeholder")
        if isinstance(value := node.meta.get("val"), torch.Tensor)
    }


@contextlib.contextmanager
def offsets_from_the_storage() -> Generator[None]:
    """Have Inductor, in this thread, count ``as_strided`` from a storage's start.

    Its table of lowerings is as before when the context is left.
    """
    if versions.KNOWS_INPUT_OFFSETS:
        yield
        return
    table: dict[Any, Callable[..., Any]] = lowering.lowerings
    stock = {
        key: table[key]
        for packet in _OPERATORS
        for key in (packet, *(getattr(packet, name) for name in packet.overloads()))
        if key in table
    }
    thread = threading.get_ident()
    table.update({key: _counting(function, thread) for key, function in stock.items()})
    try:
        yield
    finally:
        table.update(stock)


def _counting(stock: Callable[..., Any], thread: int) -> Callable[..., Any]:
    def as_strided(x: Any, size: Any, stride: Any, storage_offset: Any = None) -> Any:
        if threading.get_ident() == thread:
            storage_offset = _within_input(x, storage_offset)
        return stock(x, size, stride, storage_offset)

    return as_strided


def _within_input(x: Any, offset: Any) -> Any:
    """Return an offset in ``x``'s storage, counted from the start of the viewed input."""
    if offset is None:
        # Where x itself begins.
        is_view = isinstance(x.data, ir.BaseView) and x.maybe_get_layout() is not None
        return x.get_layout().offset if is_view else None
    base = x.data.unwrap_view() if isinstance(x.data, ir.BaseView) else x.data
    if isinstance(base, ir.StorageBox):
        base = base.data
    if not isinstance(base, ir.InputBuffer):
        return offset
    begins = input_offsets(V.graph).get(base.get_name(), 0)
    return sympy.expand(_expression(offset) - begins)


def _expression(value: Any) -> Any:
    if isinstance(value, torch.SymInt):
        return value.node.expr
    return value if isinstance(value, sympy.Expr) else sympy.Integer(value)


_AS_STRIDED = torch.ops.aten.as_strided.default


@frozen
class Place:
    """Storage offset of an input that ``as_strided`` makes views of.

    ``fixed``: value of ``offset`` that Inductor assumed; ``read``: such a view is read, not
    only returned.
    """

    offset: wir.Expr
    fixed: int | None = None
    read: bool = False


def input_places(graph: Any) -> dict[str, Place]:
    """Return the storage offsets of inputs that ``as_strided`` makes views of.

    Inductor counts the offsets of other views from the input's first element.
    """
    offsets = input_offsets(graph)
    places: dict[str, Place] = {}
    for node in graph.graph.find_nodes(op="call_function", target=_AS_STRIDED):
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


def place_symbols(
    scope: BlockScope, places: dict[str, Place]
) -> list[wir.SymbolDefinitionLine]:
    """Return the symbols that name storage offsets of inputs, unless an input gives them.

    No guard checks an offset that Inductor assumed.  If views are read at it, the range of
    its symbol checks it.
    """
    found: list[wir.SymbolDefinitionLine] = []
    for name, place in places.items():
        if isinstance(place.offset, wir.Symbol) and place.offset.name not in scope.symbols:
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
