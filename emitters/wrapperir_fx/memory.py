"""Memory in a graph: allocations, pools and what is placed in them, views."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import torch
from attrs import evolve
from torch.fx import Node
from torch.fx.node import Argument

from wrapperir.ir.expr import Expr, add, floordiv, mul, sub
from wrapperir.ir.line import (
    AllocateLine,
    AllocatePoolLine,
    PlaceLine,
    ReinterpretLine,
    ReuseLine,
    ZeroMode,
)
from wrapperir.ir.types import (
    DEFAULT_SPACE,
    DType,
    PoolType,
    TensorType,
    ValueType,
)
from wrapperir_fx import functions
from wrapperir_fx.arguments import torch_device, torch_dtype
from wrapperir_fx.fake_arithmetic import FakeNumber
from wrapperir_fx.nodes import Number
from wrapperir_fx.values import Storage, Value, bytes_of, extent_of
from wrapperir_fx.workspaces import is_static

if TYPE_CHECKING:
    from wrapperir_fx.lines import FxLines

CPU_ALIGNMENT = 64
"""Bytes to which PyTorch aligns every allocation on the CPU."""
CUDA_ALIGNMENT = 512
"""Bytes to which PyTorch's caching allocator aligns every allocation on a GPU."""
COMM_SPACE = "comm"
"""The space of symmetric memory, which the GPUs of a group read from one another."""
_SPACES = frozenset({DEFAULT_SPACE, COMM_SPACE})
_MEMORY = (TensorType, PoolType)
_aten = torch.ops.aten


def storage_of(name: str, type: ValueType) -> Storage | None:
    """Return storage of its own for a value of ``type``; ``None`` if it holds none."""
    if isinstance(type, _MEMORY):
        return Storage(frozenset((name,)), type)
    return None


def emit_allocate(lines: "FxLines", line: AllocateLine) -> None:
    """Append ``empty_strided``; a workspace is zeroed, in each call or once and for all."""
    kept = line.workspace is ZeroMode.ZERO_PER_PROGRAM
    value = _allocate(lines, line.result, line.type, _kept if kept else _empty)
    value.storage = storage_of(line.result, line.type)
    lines.values[line.result] = value
    if line.workspace is ZeroMode.ZERO_ON_CALL:
        lines.streams.zero(line.result)


def emit_allocate_pool(lines: "FxLines", line: AllocatePoolLine) -> None:
    """Append ``empty_strided`` of the pool's bytes."""
    value = _allocate(lines, line.result, bytes_of(line.type), _empty)
    storage = storage_of(line.result, line.type)
    lines.values[line.result] = _seen(value, line.type, storage)


def emit_place(lines: "FxLines", line: PlaceLine) -> None:
    """Append a view of the pool."""
    pool = lines.values[line.pool]
    type = line.type
    storage = Storage(pool.tensor_storage.roots, type)
    if isinstance(type, PoolType):
        placed = _strided(lines, line.result, pool, bytes_of(type), line.offset)
    else:
        source = _typed_pool(lines, line.pool, type.dtype)
        elements = floordiv(line.offset, type.dtype.itemsize)
        placed = _strided(lines, line.result, source, type, elements)
    lines.values[line.result] = _seen(placed, type, storage)
    if line.workspace is ZeroMode.ZERO_ON_CALL:
        lines.streams.zero(line.result)


def emit_view(lines: "FxLines", line: ReuseLine | ReinterpretLine) -> None:
    """Append ``as_strided`` of the source, seen in another element type if need be."""
    source = lines.values[line.source]
    storage = source.tensor_storage
    if line.type.dtype is not source.tensor_type.dtype:
        source = _retyped(lines, None, source, line.type.dtype)
    view = _strided(lines, line.result, source, line.type, 0)
    lines.values[line.result] = _seen(view, line.type, storage)


_Make: TypeAlias = Callable[["FxLines", str, TensorType, bool], Node]
"""Appends memory of a type for the result of a line; a flag says to name it so."""


def _allocate(lines: "FxLines", name: str, type: TensorType, make: _Make) -> Value:
    """Append memory of a type from where its offset counts; return it, seen as such."""
    _check(lines, type)
    natural = CUDA_ALIGNMENT if type.device.kind == "cuda" else CPU_ALIGNMENT
    alignment = type.alignment or 0
    if alignment > natural:
        extent = extent_of(type)
        spare = -(-alignment // type.dtype.itemsize)
        flat = _flat(type, extent)
        room = make(lines, name, _flat(type, add(extent, spare)), False)
        layout = type if type.offset == 0 else flat
        node = _aligned(lines, name if layout is type else None, room, layout)
        value = Value(node, layout)
    elif type.offset != 0:
        flat = _flat(type, extent_of(type))
        value = Value(make(lines, name, flat, False), flat, origin=0)
    else:
        value = Value(make(lines, name, type, True), type, origin=0)
    if value.type is type:
        return value
    return _strided(lines, name, value, type, 0)


def _check(lines: "FxLines", type: TensorType) -> None:
    """Report what no allocator of PyTorch's gives."""
    if type.space not in _SPACES:
        lines.report(f"memory space {type.space[:80]!a} is unknown", type.space)
    if type.layout is not None:
        name = type.layout.name
        lines.report(f"vendor layout {name[:80]!a} is unknown", name)
    if type.pinned and (type.alignment or 0) > CPU_ALIGNMENT:
        lines.report(f"pinned memory has no alignment beyond {CPU_ALIGNMENT} bytes")


def _empty(lines: "FxLines", name: str, type: TensorType, named: bool) -> Node:
    """Append uninitialised memory."""
    keywords: dict[str, Argument] = {
        "dtype": torch_dtype(type.dtype),
        "device": torch_device(type.device),
    }
    if type.pinned:
        keywords["pin_memory"] = True
    symmetric = type.space == COMM_SPACE and type.device.kind != "cpu"
    target = functions.empty_symmetric if symmetric else torch.empty_strided
    val = lines.fakes.of(type)
    args = _layout(lines, type)
    return lines.nodes.call(target, args, keywords, name=name if named else None, val=val)


def _kept(lines: "FxLines", name: str, type: TensorType, named: bool) -> Node:
    """Append a read of memory that the module keeps, zeroed when it was made."""
    attribute = lines.attributes.keep(name, type)
    wanted = name if named else None
    if is_static(type):
        return lines.nodes.get_attr(attribute, name=wanted, val=lines.fakes.of(type))
    args = _layout(lines, type)
    val = lines.fakes.of(type)
    return lines.nodes.call_module(attribute, args, name=wanted, val=val)


def _aligned(lines: "FxLines", name: str | None, room: Node, type: TensorType) -> Node:
    args = (room, *_layout(lines, type), type.alignment)
    val = lines.fakes.of(type)
    return lines.nodes.call(functions.aligned, args, name=name, val=val)


def _strided(
    lines: "FxLines", name: str | None, source: Value, type: TensorType, place: Expr
) -> Value:
    """Append a view of the elements that begin ``place`` after where the source's count.

    ``place`` counts elements, and so does the offset of ``type`` after that.
    """
    begin: tuple[Number, ...]
    old, new = source.tensor_type.offset, add(place, type.offset)
    if source.origin is not None:
        origin = add(source.origin, place)
        value = Value(source.node, type, origin=origin)
        begin = (lines.numbers.index(add(origin, type.offset)),)
    elif new == old:  # as_strided begins where the source does unless told otherwise
        value, begin = Value(source.node, type, offset=source.offset), ()
    else:
        step = sub(new, old) if old != 0 else new
        args = _offset(lines, source), lines.numbers.index(step)
        val = args[0].meta["val"] + lines.fakes.number(step)
        node = lines.nodes.call(operator.add, args, val=val)
        value, begin = Value(node, type, offset=node), (node,)
    look = lines.fakes.view(source.node.meta.get("val"), type, _fake_offset(lines, value))
    layout = _layout(lines, type)
    target = torch.as_strided
    value.node = lines.nodes.call(
        target, (source.node, *layout, *begin), name=name, val=look
    )
    return value


def _offset(lines: "FxLines", value: Value) -> Node:
    """Return the node of a tensor's offset in PyTorch's storage."""
    if value.offset is None:
        target = _aten.sym_storage_offset.default
        val = _fake_offset(lines, value)
        value.offset = lines.nodes.call(target, (value.node,), val=val)
    return value.offset


def _fake_offset(lines: "FxLines", value: Value) -> FakeNumber:
    """Return what a tensor's offset in PyTorch's storage looks like.

    Where only the run knows it, the fake storage begins where the type's offset counts.
    """
    if value.offset is not None:
        known: FakeNumber = value.offset.meta["val"]
        return known
    return lines.fakes.number(add(value.origin or 0, value.tensor_type.offset))


def _retyped(lines: "FxLines", name: str | None, source: Value, dtype: DType) -> Value:
    """Append what is seen of a tensor's memory in another element type."""
    old = source.tensor_type
    size, new_size = old.dtype.itemsize, dtype.itemsize
    if size == new_size:
        value = Value(
            source.node, evolve(old, dtype=dtype), None, source.origin, source.offset
        )
        return _seen_as(lines, name, value)
    bytes = source.tensor_storage.bytes
    whole = max(size, new_size)  # only what fills whole elements of both can be seen so
    count = mul(floordiv(bytes, whole), whole // size)
    if old.size != (count,) or old.stride != (1,) or old.offset != 0:
        source = _strided(lines, None, source, _flat(old, count), 0)
    length = mul(floordiv(bytes, whole), whole // new_size)
    type = _flat(evolve(old, dtype=dtype), length)
    value = Value(source.node, type)
    if source.origin is not None:
        value.origin = floordiv(mul(source.origin, size), new_size)
    return _seen_as(lines, name, value)


def _seen_as(lines: "FxLines", name: str | None, value: Value) -> Value:
    """Append the view of a value's node in the element type of the value."""
    type = value.tensor_type
    offset = _fake_offset(lines, value)
    val = lines.fakes.view(value.node.meta.get("val"), type, offset)
    args = (value.node, torch_dtype(type.dtype))
    value.node = lines.nodes.call(_aten.view.dtype, args, name=name, val=val)
    return value


def _typed_pool(lines: "FxLines", name: str, dtype: DType) -> Value:
    """Return a pool's memory as elements of ``dtype``, one value for all its places."""
    pool = lines.values[name]
    if dtype is DType.U8:
        return pool
    typed = lines.pools.get((name, dtype))
    if typed is None:
        typed = _retyped(lines, f"{name}_{dtype.value}", pool, dtype)
        lines.pools[name, dtype] = typed
    return typed


def _layout(lines: "FxLines", type: TensorType) -> tuple[Argument, Argument]:
    layout = lines.layouts.get(type)
    if layout is None:
        layout = lines.numbers.indices(type.size), lines.numbers.indices(type.stride)
        lines.layouts[type] = layout
    return layout


def _seen(value: Value, type: ValueType, storage: Storage | None) -> Value:
    value.type, value.storage = type, storage
    return value


def _flat(type: TensorType, count: Expr) -> TensorType:
    return evolve(type, size=(count,), stride=(1,), offset=0)
