"""Allocations, addresses and tensors of values in C++."""

from collections.abc import Sequence

from attrs import evolve

from wrapperir import ir as wir
from wrapperir.emit import Fragment, fragment
from wrapperir.emit.arena import plain_device
from wrapperir.emit.number_kinds import kind_of
from wrapperir.emit.support import unsupported_memory
from wrapperir.text import format_type
from wrapperir_cpp.bounds import emit_offset_check
from wrapperir_cpp.context import Context, FixedKey
from wrapperir_cpp.literals import format_dtype, format_int
from wrapperir_cpp.streams import (
    allocating,
    emit_device_zero,
    emit_fork,
    emit_join,
    format_device_call,
)
from wrapperir_cpp.value_storage import (
    Indices,
    RootStorage,
    StorageView,
    bytes_of,
    difference,
    handle_of,
    layout_of,
    leaves,
)


def tensor_handle(context: Context, name: str, indices: Indices = ()) -> Fragment:
    """Return the borrowed handle of a tensor; the code that makes it is appended if needed.

    ``indices`` are the tensor's place in a tuple.
    """
    values = context.values
    view = values.element(name, indices)
    known = values.known_tensor(view)
    if known is not None:
        return known
    assert isinstance(view.type, wir.TensorType)  # a pool is not a tensor
    fixed = _fixed_key(context, view, view.type)
    if fixed is not None:
        made = context.call.add_fixed(fixed, context.module.values[name])
        values.add_tensor(view, made, None)
        return made
    slot = _view_slot(context, name)
    _emit_view(context, slot, view, view.type)
    values.add_tensor(view, handle_of(slot), slot)
    return handle_of(slot)


def tensor_address(context: Context, name: str) -> Fragment:
    """Return the address of a tensor's first element, a ``char*``."""
    if name in context.layouts.changed:
        return fragment(
            "data_of({}, {})", tensor_handle(context, name), context.line_number()
        )
    type = context.facts.types[name]
    if isinstance(type, wir.TensorType) and type.layout == wir.ONEDNN_LAYOUT:
        context.report(f"only oneDNN's operators can use %{name[:80]}", name)
    view = context.values[name]
    return _address_of_byte(context, view.storage, view.first)


def tensor_pointer(context: Context, name: str, c_type: Fragment) -> Fragment:
    """Return the address of a tensor's first element as a pointer to ``c_type``."""
    return fragment("at<{}>({})", c_type, tensor_address(context, name))


def define_value(context: Context, name: str, indices: Indices = ()) -> Fragment:
    """Return the lvalue of a new number, or the slot of a tensor that is not made yet.

    ``indices`` are the value's place in a tuple.
    """
    type = dict(leaves(context.facts.types[name]))[indices]
    spelled = context.module.values[name] if not indices else None
    if spelled is None:
        spelled = context.module.names.claim("_".join([name, *map(str, indices)]))
    if isinstance(type, wir.ScalarType):
        number = context.call.add_number(kind_of(type.dtype), spelled)
        context.values.put_scalar(name, number, indices)
        return number
    own = type if isinstance(type, wir.TensorType) else None
    storage = _slot_storage(context, spelled, own)
    context.values.put(name, StorageView(storage, own), indices)
    assert storage.slot is not None
    return storage.slot


def add_constant(context: Context, name: str, type: wir.TensorType, index: int) -> None:
    """Add the storage of a constant; ``index`` is its place in the program."""
    spelled = context.module.values[name]
    base = fragment("c.constant_data[{}]", spelled)
    made = fragment("c.constants[{}]", spelled)
    storage = RootStorage(base, type, made, constant=index)
    own = name if name in context.layouts.changed else None
    view = StorageView(storage, type, own=own, room=bytes_of(type))
    context.values.put(name, view)
    context.call.roots.add(spelled)


def _slot_storage(
    context: Context, spelled: Fragment, root: wir.TensorType | None
) -> RootStorage:
    slot = context.call.add_slot(spelled)
    context.call.roots.add(spelled)
    base = fragment("c.p[{}]", spelled)
    storage = RootStorage(base, root, handle_of(slot), slot)
    context.values.own(handle_of(slot), slot, storage)
    return storage


def allocate(context: Context, name: str, type: wir.TensorType | wir.PoolType) -> None:
    """Give a buffer or pool its memory, which may be a part of the arena."""
    offset = context.arena.offsets.get(name)
    if offset is not None:
        base = _region(context, plain_device(type.device), name)
        storage = RootStorage(base, begin=offset, constant=-1)
        context.values.put(name, StorageView(storage, type, room=bytes_of(type)))
        context.writer.emit_comment(
            f"{name} is at byte {offset} of the arena: {format_type(type)}"
        )
        return
    for message, subject in unsupported_memory(type):
        context.report(message, subject)
    emit_offset_check(context, type)
    root = _root(context, type)
    storage = _slot_storage(context, context.module.values[name], root)
    context.values.put(name, StorageView(storage, type, room=bytes_of(type)))
    assert storage.slot is not None
    with allocating(context, name, type.device):
        _emit_allocation(context, storage.slot, root)


def _region(context: Context, device: wir.Device, name: str) -> Fragment:
    """Return the address of a device's memory that a storage is planned in."""
    if device == wir.CPU:
        return fragment("c.arena")
    function = "workspace" if name in context.arena.kept_names else "block"
    return fragment("{}->{}()", format_device_call(context, device), fragment(function))


def emit_copy(context: Context, slot: Fragment, type: wir.TensorType) -> None:
    """Append the replacement of a slot's tensor by a copy of it."""
    number = context.line_number()
    names = context.module.names
    copy, root = names.claim("copy"), _root(context, type)
    context.writer.emit_line("Tensor {};", copy)
    _emit_allocation(context, copy, root)
    if layout_of(root) != layout_of(type):
        room = names.claim("room")
        context.writer.emit_line("Tensor {}(static_cast<Tensor&&>({}));", room, copy)
        bytes = wir.mul(type.offset, type.dtype.itemsize)
        context.writer.emit_line(
            "view_as({}, {}, {}, {}, {}, {}, {});",
            *(copy, handle_of(room), context.expressions.format_index(bytes)),
            *(format_dtype(type.dtype), *_format_layout(context, type), number),
        )
    context.writer.emit_line(
        "check(aoti_torch_copy_({}, {}, 0), {});",
        *(handle_of(copy), handle_of(slot), number),
    )
    context.writer.emit_line("{}.reset({}.release());", slot, copy)


def emit_stacking(
    context: Context, slot: Fragment, values: Fragment, last: Fragment, type: wir.ValueType
) -> None:
    """Append the tensor of a loop's values, each of ``type``; ``last`` is the newest."""
    assert isinstance(type, wir.TensorType)  # verified
    context.writer.emit_line(
        "{}.stack({}, {}, {}, {}, {}{});",
        *(values, slot, last, format_dtype(type.dtype), context.format_ints(type.size)),
        *(context.line_number(), _format_device(context, type.device)),
    )


def _emit_allocation(context: Context, slot: Fragment, type: wir.TensorType) -> None:
    table = context.table_of(type.device)
    number, device = context.line_number(), _format_device(context, type.device)
    if _is_aligned_further(context, type) and not type.pinned:
        context.writer.emit_line(
            "empty_aligned({}, {}, {}, {}{});",
            *(slot, context.expressions.format_index(type.size[0])),
            *(format_int(type.alignment or 1), number, device),
        )
        return
    function = "empty_pinned" if type.pinned else table.allocation if table else "empty"
    context.writer.emit_line(
        "{}({}, {}, {}, {}, {}{});",
        *(fragment(function), slot, format_dtype(type.dtype)),
        *(*_format_layout(context, type), number),
        fragment("") if type.pinned else device,
    )


def make_changed(context: Context, name: str) -> None:
    """Make the tensor of a value whose layout an operator will change later."""
    if name in context.layouts.changed:
        tensor_handle(context, name)


def format_owned(
    context: Context, handles: Sequence[Fragment], *, keeps: bool
) -> list[Fragment]:
    """Return handles to be owned by another, one for each of ``handles``.

    With ``keeps`` all are further handles; otherwise a slot gives its own handle away at
    the last use.
    """
    given: list[Fragment] = []
    for index, each in enumerate(handles):
        last = each not in handles[index + 1 :]
        slot = None if keeps or not last else context.values.take_slot(each)
        if slot is None:
            given.append(fragment("new_handle({}, {})", each, context.line_number()))
        else:
            given.append(fragment("{}.release()", slot))
    return given


def _view_slot(context: Context, name: str) -> Fragment:
    spelled, call = context.module.values[name], context.call
    if spelled in call.roots:
        if name not in call.views:
            call.views[name] = context.module.names.claim(f"{name}_view")
        spelled = call.views[name]
    return call.add_slot(spelled)


def _fixed_key(
    context: Context, view: StorageView, type: wir.TensorType
) -> FixedKey | None:
    storage = view.storage
    if storage.constant is None or view.own or plain_device(type.device) != wir.CPU:
        return None
    offset = difference(view.first, storage.first)
    size = tuple(n for n in type.size if isinstance(n, int))
    stride = tuple(n for n in type.stride if isinstance(n, int))
    static = len(size) == len(type.size) and len(stride) == len(type.stride)
    if not static or not isinstance(offset, int):
        return None
    return FixedKey(storage.constant, offset, type.dtype, size, stride)


def _emit_view(
    context: Context, slot: Fragment, view: StorageView, type: wir.TensorType
) -> None:
    storage = view.storage
    dtype, number = format_dtype(type.dtype), context.line_number()
    layout = _format_layout(context, type)
    if storage.handle is None or storage.root is None:
        context.writer.emit_line(
            "view_memory({}, {}, {}, {}, {}, {}{});",
            *(slot, _address_of_byte(context, storage, view.first), dtype, *layout),
            *(number, _format_device(context, type.device)),
        )
        return
    item = type.dtype.itemsize
    step = difference(view.first, storage.first)
    if view.begin == 0:
        elements: wir.Expr | None = difference(type.offset, storage.root.offset)
    else:
        whole = isinstance(step, int) and step % item == 0
        elements = step // item if whole else None
    if type.dtype is storage.root.dtype and elements is not None:
        context.writer.emit_line(
            "view({}, {}, {}, {}, {}, {});",
            *(slot, storage.handle, context.expressions.format_index(elements)),
            *(*layout, number),
        )
        return
    bytes = context.expressions.format_index(step)
    context.writer.emit_line(
        "view_as({}, {}, {}, {}, {}, {}, {});",
        *(slot, storage.handle, bytes, dtype, *layout, number),
    )


def _address_of_byte(context: Context, storage: RootStorage, byte: wir.Expr) -> Fragment:
    """Return the address of a byte; the address of a slot is fetched once a block."""
    if storage.slot is not None and not context.values.is_fetched(storage):
        assert storage.handle is not None
        context.writer.emit_line(
            "{} = data_of({}, {});", storage.base, storage.handle, context.line_number()
        )
        context.values.scopes[-1].fetched.add(storage)
    step = difference(byte, storage.first)
    if step == 0:
        return storage.base
    if isinstance(step, int) and step < 0:
        return fragment("{} - {}", storage.base, format_int(-step))
    return fragment("{} + {}", storage.base, context.expressions.format_index(step))


def is_aligned(context: Context, name: str, bytes: int) -> bool:
    """Say whether the address of a tensor is known to be a multiple of ``bytes``."""
    view = context.values[name]
    region = context.arena.regions.get(wir.CPU)
    if view.storage.constant != -1 or region is None or region.alignment % bytes:
        return False
    step = difference(view.first, view.storage.first)
    on_cpu = (
        isinstance(view.type, wir.TensorType) and plain_device(view.type.device) == wir.CPU
    )
    return on_cpu and isinstance(step, int) and step % bytes == 0


def emit_zero(context: Context, name: str, type: wir.TensorType) -> None:
    """Append the zeroing of a buffer's bytes."""
    extent = wir.storage_extent(type)
    static = all(isinstance(n, int) for n in (*type.size, *type.stride, type.offset))
    if static and isinstance(extent, int):
        count = (type.offset + extent) * type.dtype.itemsize if extent else 0
        view = context.values[name]
        begin = _address_of_byte(context, view.storage, view.begin)
        bytes = context.expressions.format_index(count)
        if plain_device(type.device) == wir.CPU:
            context.writer.emit_line("memset({}, 0, {});", begin, bytes)
        else:
            emit_device_zero(context, type.device, begin, bytes)
        return
    zeroed = tensor_handle(context, name)
    emit_join(context)
    context.writer.emit_line(
        "check(aoti_torch_zero_({}), {});", zeroed, context.line_number()
    )
    emit_fork(context)


def _format_layout(context: Context, type: wir.TensorType) -> tuple[Fragment, Fragment]:
    return context.format_ints(type.size), context.format_ints(type.stride)


def _format_device(context: Context, device: wir.Device) -> Fragment:
    """Return the last arguments of functions that make a tensor; none on the CPU."""
    table = context.table_of(device)
    if table is None:
        return fragment("")
    index = format_int(device.index or 0)
    return fragment(", Device::{}, {}", fragment(table.enumerator), index)


def _is_aligned_further(context: Context, type: wir.TensorType | wir.PoolType) -> bool:
    """Say whether a type needs a larger alignment than PyTorch's allocator gives."""
    return (type.alignment or 0) > context.tables[type.device.kind].alignment


def _root(context: Context, type: wir.TensorType | wir.PoolType) -> wir.TensorType:
    """Return the type of the tensor that holds a storage; bytes, if not plain."""
    aligned = _is_aligned_further(context, type)
    if isinstance(type, wir.TensorType):
        if type.offset == 0 and not aligned:
            return evolve(type, alignment=None)
        extent = wir.storage_extent(type)
        bytes = (
            wir.mul(wir.add(type.offset, extent), type.dtype.itemsize) if extent != 0 else 0
        )
    else:
        bytes = type.size
    if not isinstance(bytes, int):
        bytes = wir.maximum(bytes, 0)
    return wir.TensorType(
        dtype=wir.DType.U8,
        size=(bytes,),
        stride=(1,),
        device=type.device,
        pinned=type.pinned,
        alignment=type.alignment if aligned else None,
    )
