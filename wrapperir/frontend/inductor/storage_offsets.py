# Inductor says little of its types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
# pyright: reportMissingTypeStubs=false
"""Offsets of ``as_strided``, which count from a storage's start, also in torch 2.11.

That release's Inductor counts them from the first element of the graph's input, so that
views of an input that begins within its storage are of the wrong memory.  Later ones know
where each input begins; for it, the FX graph is asked.
"""

import contextlib
import threading
from collections.abc import Callable, Generator, Mapping
from typing import Any

import sympy
import torch
from torch._inductor import ir, lowering
from torch._inductor.virtualized import V

from wrapperir.frontend.inductor import versions

_OPERATORS: tuple[Any, ...] = (
    torch.ops.aten.as_strided,
    torch.ops.aten.as_strided_copy,
)


def input_offsets(graph: Any) -> Mapping[str, Any]:
    """Return where in its storage each tensor among a graph's inputs begins."""
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
    """Return an offset into ``x``'s storage as one from the start of the input it views."""
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
