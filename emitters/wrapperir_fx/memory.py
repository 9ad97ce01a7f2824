"""Memory in a graph: allocations, pools and what is placed in them, views."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false

import operator
from typing import TYPE_CHECKING

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
    storage_extent,
    tensor,
)
from wrapperir_fx import functions
from wrapperir_fx.arguments import torch_device, torch_dtype
from wrapperir_fx.nodes import Number
from wrapperir_fx.values import Storage, Value
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
_aten = torch.ops.aten


def storage_of(name: str, type: ValueType) -> Storage | None:
    """Return storage of its own for a value of ``type``; ``None`` if it holds none."""
    if isinstance(type, TensorType):
        return Storage(frozenset({name}), _bytes(type))
    if isinstance(type, PoolType):
        return Storage(frozenset({name}), type.size)
    return None


def emit_allocate(lines: "FxLines", line: AllocateLine) -> None:
    """Append ``empty_strided``; a workspace is zeroed, in each call or once and for all."""
    type = line.type
    check_memory(lines, type)
    storage = storage_of(line.result, type)
    origin: Expr | None
    if line.workspace is ZeroMode.ZERO_PER_PROGRAM:
        # Where it is aligned, it begins somewhere in what was allocated for it.
        node, origin = _kept_workspace(lines, line.result, type), None if type.alignment else 0
    else:
        node, origin = allocate(lines, line.result, type)
    lines.values[line.result] = Value(node, type, storage, origin)
    if line.workspace is ZeroMode.ZERO_ON_CALL:
        lines.streams.zero(line.result)


def check_memory(lines: "FxLines", type: TensorType) -> None:
    """Report what no allocator of PyTorch's gives."""
    if type.space not in _SPACES:
        lines.report(f"memory space {type.space[:80]!a} is unknown", type.space)
    if type.layout is not None:
        name = type.layout.name
        lines.report(f"vendor layout {name[:80]!a} is unknown", name)
    if type.pinned and (type.alignment or 0) > CPU_ALIGNMENT:
        lines.report(f"pinned memory has no alignment beyond {CPU_ALIGNMENT} bytes")


def allocate(lines: "FxLines", name: str, type: TensorType) -> tuple[Node, Expr | None]:
    """Append an uninitialised tensor; return it and its origin."""
    natural = CUDA_ALIGNMENT if type.device.kind == "cuda" else CPU_ALIGNMENT
    alignment = type.alignment or 0
    if alignment > natural:
        extent = add(type.offset, storage_extent(type))
        room = _empty(lines, None, _flat(type, add(extent, alignment)))
        layout = lines.numbers.indices(type.size), lines.numbers.indices(type.stride)
        val = lines.fakes.of(type)
        args = (room, *layout, lines.numbers.index(type.offset), alignment)
        return lines.nodes.call(functions.aligned, args, name=name, val=val), None
    if type.offset != 0:
        room = _empty(lines, None, _flat(type, add(type.offset, storage_extent(type))))
        return as_strided(lines, name, room, type, lines.numbers.index(type.offset)), 0
    return _empty(lines, name, type), 0


def emit_allocate_pool(lines: "FxLines", line: AllocatePoolLine) -> None:
    """Append ``empty_strided`` of the pool's bytes."""
    pool = line.type
    type = TensorType(
        dtype=DType.U8,
        size=(pool.size,),
        stride=(1,),
        device=pool.device,
        space=pool.space,
        pinned=pool.pinned,
        alignment=pool.alignment,
    )
    check_memory(lines, type)
    node, origin = allocate(lines, line.result, type)
    storage = storage_of(line.result, pool)
    lines.values[line.result] = Value(node, pool, storage, origin)


def emit_place(lines: "FxLines", line: PlaceLine) -> None:
    """Append a view of the pool."""
    pool = lines.values[line.pool]
    storage = Storage(pool.tensor_storage.roots, _size(line.type))
    if isinstance(line.type, PoolType):
        bytes = tensor(DType.U8, (line.type.size,), device=line.type.device)
        source = _typed_pool(lines, line.pool, pool, DType.U8)
        placed = _strided(lines, line.result, source, bytes, line.offset)
        lines.values[line.result] = evolved(placed, line.type, storage)
        return
    check_memory(lines, line.type)
    source = _typed_pool(lines, line.pool, pool, line.type.dtype)
    elements = floordiv(line.offset, line.type.dtype.itemsize)
    placed = _strided(lines, line.result, source, line.type, elements)
    lines.values[line.result] = evolved(placed, line.type, storage)
    if line.workspace is ZeroMode.ZERO_ON_CALL:
        lines.streams.zero(line.result)


def emit_view(lines: "FxLines", line: ReuseLine | ReinterpretLine) -> None:
    """Append ``as_strided`` of the source, seen in another element type if need be."""
    source = lines.values[line.source]
    storage = source.tensor_storage
    if line.type.dtype is not source.tensor_type.dtype:
        source = _retyped(lines, source, line.type.dtype)
    view = _strided(lines, line.result, source, line.type, 0)
    lines.values[line.result] = evolved(view, line.type, storage)


def evolved(value: Value, type: ValueType, storage: Storage) -> Value:
    """Return a value as one of ``type`` in ``storage``."""
    return Value(value.node, type, storage, value.origin, value.offset)


def as_strided(
    lines: "FxLines", name: str | None, source: Node, type: TensorType, begin: Number
) -> Node:
    """Append a view that begins ``begin`` elements after PyTorch's storage does."""
    numbers = lines.numbers
    layout = numbers.indices(type.size), numbers.indices(type.stride)
    val = lines.fakes.view(source.meta["val"], type)
    return lines.nodes.call(torch.as_strided, (source, *layout, begin), name=name, val=val)


def _strided(
    lines: "FxLines", name: str | None, source: Value, type: TensorType, place: Expr
) -> Value:
    """Append a view of the elements that begin ``place`` after those of ``source``."""
    old = source.tensor_type.offset
    if source.origin is not None:
        origin = add(source.origin, place)
        begin = lines.numbers.index(add(origin, type.offset))
        return Value(as_strided(lines, name, source.node, type, begin), type, origin=origin)
    new = add(place, type.offset)
    offset = _offset(lines, source)
    if new != old:
        step = lines.numbers.index(new if old == 0 else sub(new, old))
        val = lines.fakes.unknown()
        offset = lines.nodes.call(operator.add, (offset, step), val=val)
    return Value(as_strided(lines, name, source.node, type, offset), type, offset=offset)


def _offset(lines: "FxLines", value: Value) -> Node:
    """Return the node of a tensor's offset in PyTorch's storage."""
    if value.offset is None:
        target = _aten.sym_storage_offset.default
        val = lines.fakes.unknown()
        value.offset = lines.nodes.call(target, (value.node,), val=val)
    return value.offset


def _retyped(lines: "FxLines", source: Value, dtype: DType) -> Value:
    """Append what is seen of a tensor's memory in another element type."""
    old = source.tensor_type
    if old.dtype.itemsize == dtype.itemsize:
        type = evolve(old, dtype=dtype)
        return Value(
            _view_dtype(lines, None, source.node, type), type, None, source.origin, source.offset
        )
    size, new_size = old.dtype.itemsize, dtype.itemsize
    if size > new_size:
        count = floordiv(source.tensor_storage.bytes, size)
    else:  # as many as fill whole elements of the wider type
        count = mul(floordiv(source.tensor_storage.bytes, new_size), new_size // size)
    flat = _strided(lines, None, source, evolve(old, size=(count,), stride=(1,), offset=0), 0)
    length = floordiv(mul(count, size), new_size)
    type = evolve(old, dtype=dtype, size=(length,), stride=(1,), offset=0)
    node = _view_dtype(lines, None, flat.node, type)
    if flat.origin is None:
        return Value(node, type)
    return Value(node, type, origin=floordiv(mul(flat.origin, size), new_size))


def _typed_pool(lines: "FxLines", name: str, pool: Value, dtype: DType) -> Value:
    """Return a pool's memory as elements of ``dtype``, one value for all its places."""
    known = lines.pools.get((name, dtype))
    if known is not None:
        return known
    assert isinstance(pool.type, PoolType)
    bytes = tensor(DType.U8, (pool.type.size,), device=pool.type.device)
    raw = Value(pool.node, bytes, pool.storage, pool.origin, pool.offset)
    typed = raw if dtype is DType.U8 else _typed_bytes(lines, name, raw, dtype)
    lines.pools[name, dtype] = typed
    return typed


def _typed_bytes(lines: "FxLines", name: str, raw: Value, dtype: DType) -> Value:
    (bytes,) = raw.tensor_type.size
    whole = isinstance(bytes, int) and bytes % dtype.itemsize == 0
    if not whole and dtype.itemsize > 1:
        return _retyped(lines, raw, dtype)
    size = (floordiv(bytes, dtype.itemsize),)
    type = evolve(raw.tensor_type, dtype=dtype, size=size)
    node = _view_dtype(lines, f"{name}_{dtype.value}", raw.node, type)
    if raw.origin is None:
        return Value(node, type)
    return Value(node, type, origin=floordiv(raw.origin, dtype.itemsize))


def _view_dtype(
    lines: "FxLines", name: str | None, source: Node, type: TensorType
) -> Node:
    val = lines.fakes.of(type)
    dtype = torch_dtype(type.dtype)
    return lines.nodes.call(_aten.view.dtype, (source, dtype), name=name, val=val)


def _empty(lines: "FxLines", name: str | None, type: TensorType) -> Node:
    numbers = lines.numbers
    layout = numbers.indices(type.size), numbers.indices(type.stride)
    keywords: dict[str, Argument] = {
        "dtype": torch_dtype(type.dtype),
        "device": torch_device(type.device),
    }
    if type.pinned:
        keywords["pin_memory"] = True
    symmetric = type.space == COMM_SPACE and type.device.kind != "cpu"
    target = functions.empty_symmetric if symmetric else torch.empty_strided
    val = lines.fakes.of(type)
    return lines.nodes.call(target, layout, keywords, name=name, val=val)


def _kept_workspace(lines: "FxLines", name: str, type: TensorType) -> Node:
    """Append a read of memory that the module keeps, zeroed when it was made."""
    val = lines.fakes.of(type)
    attribute = lines.attributes.keep(name, type)
    if is_static(type):
        return lines.nodes.get_attr(attribute, name=name, val=val)
    numbers = lines.numbers
    layout = numbers.indices(type.size), numbers.indices(type.stride)
    args = (*layout, numbers.index(type.offset))
    return lines.nodes.call_module(attribute, args, name=name, val=val)


def _flat(type: TensorType, count: Expr) -> TensorType:
    return evolve(type, size=(count,), stride=(1,), offset=0, alignment=None)


def _size(type: TensorType | PoolType) -> Expr:
    return type.size if isinstance(type, PoolType) else _bytes(type)


def _bytes(type: TensorType) -> Expr:
    return mul(add(type.offset, storage_extent(type)), type.dtype.itemsize)
