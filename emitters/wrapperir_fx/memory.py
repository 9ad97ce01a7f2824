"""Memory as nodes: allocations, pools, buffers placed in pools, and views."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import TypeAlias

import torch
from attrs import evolve
from torch.fx import Node
from torch.fx.node import Argument

from wrapperir import ir as wir
from wrapperir.emit.pools import PoolUse
from wrapperir.emit.support import natural_alignment, unsupported_memory
from wrapperir.emit.torch_dtypes import torch_device, torch_dtype
from wrapperir.fx import functions, is_static
from wrapperir_fx.context import GraphContext, GraphValue, Root
from wrapperir_fx.streams import allocating, emit_zero
from wrapperir_fx.views import extent_of, flat, layout_of, run_of, view_of

COMM_SPACE = "comm"
"""The space of symmetric memory, which all GPUs of a group can read."""
_SPACES = frozenset({wir.DEFAULT_SPACE, COMM_SPACE})


def emit_allocate(graph: GraphContext, line: wir.AllocateLine) -> None:
    """Append ``empty_strided``; a workspace is zeroed in each call, or once."""
    kept = line.workspace is wir.ZeroMode.ZERO_PER_PROGRAM
    with nullcontext() if kept else allocating(graph, line):
        value = _allocate(graph, line.result, line.type, _kept if kept else _empty)
        value.roots = frozenset((line.result,))
        graph.values[line.result] = value
    if line.workspace is wir.ZeroMode.ZERO_ON_CALL:
        emit_zero(graph, line.result)


def emit_allocate_pool(graph: GraphContext, line: wir.AllocatePoolLine) -> None:
    """Append ``empty_strided`` of the pool's bytes."""
    type = wir.pool_bytes(line.type)
    dtype = _pool_dtype(graph.facts.pool_uses[line.result])
    if dtype is not wir.DType.U8:
        type = flat(evolve(type, dtype=dtype), wir.divided(line.type.size, dtype.itemsize))
    with allocating(graph, line):
        value = _allocate(graph, line.result, type, _empty)
        value.type, value.roots = line.type, frozenset((line.result,))
        graph.values[line.result] = value


def _pool_dtype(use: PoolUse) -> wir.DType:
    """Return the commonest dtype in a pool, so that most places are one view.

    It is one whose elements fill all places whole; bytes where blocks use the pool.
    """
    for dtype, _ in () if use.is_lent else use.dtypes.most_common():
        if wir.quotient(use.type.size, dtype.itemsize) is not None and all(
            layout[1].itemsize >= dtype.itemsize or run_of(layout, dtype.itemsize)
            for layout in use.layouts
        ):
            return dtype
    return wir.DType.U8


def emit_place(graph: GraphContext, line: wir.PlaceLine) -> None:
    """Append a view of the pool."""
    pool, type = graph.values[line.pool], line.type
    graph.streams.alias(line.result, line.pool)
    if isinstance(type, wir.PoolType):
        dtype = wir.DType.U8 if pool.root is None else pool.root.type.dtype
        count = wir.divided(type.size, dtype.itemsize)
        type = flat(evolve(wir.pool_bytes(type), dtype=dtype), count)
    value = view_of(graph, line.result, pool, type, line.offset)
    value.type, value.roots = line.type, pool.roots
    graph.values[line.result] = value
    if line.workspace is wir.ZeroMode.ZERO_ON_CALL:
        emit_zero(graph, line.result)


def emit_view(graph: GraphContext, line: wir.ReuseLine | wir.ReinterpretLine) -> None:
    """Append a view of the source."""
    source = graph.values[line.source]
    graph.streams.alias(line.result, line.source)
    value = graph.values[line.result] = view_of(graph, line.result, source, line.type)
    value.roots = source.roots


_Make: TypeAlias = Callable[[GraphContext, str, wir.TensorType, bool], Node]
"""Appends memory of a type for a line's result; the flag gives the node its name."""


def _allocate(
    graph: GraphContext, name: str, type: wir.TensorType, make: _Make
) -> GraphValue:
    """Append memory for a type, its offset included, and return the value in it."""
    for message, subject in unsupported_memory(type, _SPACES):
        graph.report(message, subject)
    alignment = type.alignment or 0
    if alignment > natural_alignment(type.device):
        extent = extent_of(type)
        spare = -(-alignment // type.dtype.itemsize)
        room = make(graph, name, flat(type, wir.add(extent, spare)), False)
        layout = type if type.offset == 0 else flat(type, extent)
        wanted = name if layout is type else None
        target = functions.aligned_part if make is _kept else functions.aligned
        args = (room, *layout_of(graph, layout), layout.alignment)
        val = graph.fakes.of(layout)
        root = Root(graph.nodes.call(target, args, name=wanted, val=val), layout)
    elif type.offset != 0:
        layout = flat(type, extent_of(type))
        root = Root(make(graph, name, layout, False), layout, origin=0)
    else:
        root = Root(make(graph, name, type, True), type, origin=0)
    value = GraphValue(root.node, root.type, root=root)
    return value if root.type is type else view_of(graph, name, value, type)


def _empty(graph: GraphContext, name: str, type: wir.TensorType, named: bool) -> Node:
    """Append uninitialised memory."""
    keywords: dict[str, Argument] = {
        "dtype": torch_dtype(type.dtype),
        "device": torch_device(type.device),
    }
    if type.pinned:
        keywords["pin_memory"] = True
    symmetric = type.space == COMM_SPACE and type.device.kind != "cpu"
    target = functions.empty_symmetric if symmetric else torch.empty_strided
    val = graph.fakes.of(type)
    args = layout_of(graph, type)
    return graph.nodes.call(target, args, keywords, name=name if named else None, val=val)


def _kept(graph: GraphContext, name: str, type: wir.TensorType, named: bool) -> Node:
    """Append a read of memory that the module keeps, zeroed when it was made."""
    attribute = graph.attributes.keep(name, type)
    wanted = name if named else None
    if is_static(type):
        return graph.nodes.get_attr(attribute, name=wanted, val=graph.fakes.of(type))
    args = layout_of(graph, type)
    val = graph.fakes.of(type)
    return graph.nodes.call_module(attribute, args, name=wanted, val=val)
