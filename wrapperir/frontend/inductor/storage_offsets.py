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
from torch._inductor import ir, lowering
from torch._inductor.virtualized import V

from wrapperir import ir as wir
from wrapperir.frontend.aten.storage_offsets import Place, example_offsets
from wrapperir.frontend.inductor import versions
from wrapperir.frontend.inductor.scope import BlockScope

_OPERATORS: tuple[Any, ...] = (
    torch.ops.aten.as_strided,
    torch.ops.aten.as_strided_copy,
)


def input_offsets(graph: Any) -> Mapping[str, Any]:
    """Return the storage offset of each tensor among a graph's inputs."""
    if versions.KNOWS_INPUT_OFFSETS:
        known: Mapping[str, Any] = graph.graph_input_storage_offsets
        return known
    found = example_offsets(graph.graph)
    return {graph.qualify_name(name): offset for name, offset in found.items()}


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


def place_symbols(
    scope: BlockScope, places: dict[str, Place]
) -> list[wir.SymbolDefinitionLine]:
    """Return the symbols that name storage offsets of inputs, unless an input gives them.

    If views are read at an offset that Inductor assumed, the range of its symbol checks it.
    """
    found: list[wir.SymbolDefinitionLine] = []
    for name, place in places.items():
        if isinstance(place.offset, wir.Symbol) and place.offset.name not in scope.symbols:
            scope.symbols.add(place.offset.name)
            found.append(
                wir.SymbolDefinitionLine(
                    symbol=place.offset.name,
                    lower=place.guarded or 0,
                    upper=place.guarded,
                    source=wir.OffsetOf(name),
                )
            )
    return found
