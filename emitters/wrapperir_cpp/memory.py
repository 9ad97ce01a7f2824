"""Allocations, addresses and tensors of values in C++."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import evolve

from wrapperir.emit.allocations import natural_alignment, unsupported_memory
from wrapperir.emit.fragment import Fragment, fragment, joined
from wrapperir.ir.expr import Expr, add, maximum, mul
from wrapperir.ir.types import (
    CPU,
    Device,
    DType,
    OpaqueType,
    PoolType,
    TensorType,
    storage_extent,
)
from wrapperir.text import format_type
from wrapperir_cpp.arena import own_device
from wrapperir_cpp.bounds import bytes_of, check_allocation
from wrapperir_cpp.call import FixedKey
from wrapperir_cpp.homes import (
    Home,
    Indices,
    Memory,
    difference,
    handle_of,
    layout_of,
)
from wrapperir_cpp.literals import format_int

if TYPE_CHECKING:
    from wrapperir_cpp.lines import CppLines


class MemoryEmitter:
    """Appends what makes memory and tensors to the lines of a program."""

    def __init__(self, lines: "CppLines") -> None:
        """Append to ``lines``."""
        self._lines = lines
        self._roots: set[Fragment] = set()
        self._views: dict[str, Fragment] = {}

    def add_slot(
        self, name: str, type: TensorType | OpaqueType | PoolType, indices: Indices = ()
    ) -> Fragment:
        """Give a value a slot of its own, and return it; the tensor is yet to be made."""
        lines = self._lines
        spelled = lines.module.values[name]
        if indices:
            spelled = lines.module.names.claim("_".join([name, *map(str, indices)]))
        root = type if isinstance(type, TensorType) else None
        memory = self._slot_memory(spelled, root)
        own = type if not isinstance(type, OpaqueType) else None
        lines.homes.put(name, Home(memory, own), indices)
        assert memory.slot is not None
        return memory.slot

    def _slot_memory(self, spelled: Fragment, root: TensorType | None) -> Memory:
        slot = self._lines.call.add_slot(spelled)
        self._roots.add(spelled)
        base = fragment("c.p[{}]", spelled)
        memory = Memory(base, root, handle_of(slot), slot)
        self._lines.homes.own(handle_of(slot), slot, memory)
        return memory

    def add_constant(self, name: str, type: TensorType, number: int) -> None:
        """Give a constant its home; ``number`` counts the program's constants."""
        spelled = self._lines.module.values[name]
        base = fragment("c.constant_data[{}]", spelled)
        handle = fragment("c.constants[{}]", spelled)
        memory = Memory(base, type, handle, constant=number)
        is_changed = name in self._lines.survey.layouts.changed
        apart = name if is_changed else None
        home = Home(memory, type, apart=apart, room=bytes_of(type))
        self._lines.homes.put(name, home)
        self._roots.add(spelled)

    def allocate(self, name: str, type: TensorType | PoolType) -> None:
        """Give a buffer or pool its memory; that of an arena is there."""
        lines = self._lines
        offset = lines.arena.offsets.get(name)
        if offset is not None:
            device = own_device(type.device)
            memory = Memory(lines.region(device, name), begin=offset, constant=-1)
            lines.homes.put(name, Home(memory, type, room=bytes_of(type)))
            lines.writer.emit_comment(
                f"{name} is at byte {offset} of the arena: {format_type(type)}"
            )
            return
        self._check(type)
        check_allocation(lines, type)
        spelled = lines.module.values[name]
        root = _root(type)
        memory = self._slot_memory(spelled, root)
        lines.homes.put(name, Home(memory, type, room=bytes_of(type)))
        assert memory.slot is not None
        with lines.streams.allocating(name, type.device):
            self._emit_allocation(memory.slot, root)

    def emit_copy(self, slot: Fragment, type: TensorType) -> None:
        """Append the replacement of a slot's tensor by a copy of it."""
        lines = self._lines
        number = lines.line_number()
        copy = lines.module.names.claim("copy")
        root = _root(type)
        lines.writer.emit_line("Tensor {};", copy)
        self._emit_allocation(copy, root)
        if layout_of(root) != layout_of(type):
            room = lines.module.names.claim("room")
            lines.writer.emit_line("Tensor {}(static_cast<Tensor&&>({}));", room, copy)
            bytes = mul(type.offset, type.dtype.itemsize)
            lines.writer.emit_line(
                "view_as({}, {}, {}, {}, {}, {}, {});",
                *(copy, handle_of(room), lines.expressions.format_index(bytes)),
                *(format_dtype(type.dtype), *self._format_layout(type), number),
            )
        lines.writer.emit_line(
            "check(aoti_torch_copy_({}, {}, 0), {});",
            *(handle_of(copy), handle_of(slot), number),
        )
        lines.writer.emit_line("{}.reset({}.release());", slot, copy)

    def _emit_allocation(self, slot: Fragment, type: TensorType) -> None:
        lines = self._lines
        number, device = lines.line_number(), self._format_device(type.device)
        sizes, strides = self._format_layout(type)
        if type.pinned:
            call = fragment("empty_pinned({}, {}", slot, format_dtype(type.dtype))
            lines.writer.emit_line("{}, {}, {}, {});", call, sizes, strides, number)
        elif (type.alignment or 0) > natural_alignment(type.device):
            lines.writer.emit_line(
                "empty_aligned({}, {}, {}, {}{});",
                slot,
                lines.expressions.format_index(type.size[0]),
                format_int(type.alignment or 1),
                *(number, device),
            )
        else:
            call = fragment("empty({}, {}", slot, format_dtype(type.dtype))
            lines.writer.emit_line(
                "{}, {}, {}, {}{});", call, sizes, strides, number, device
            )

    def _check(self, type: TensorType | PoolType) -> None:
        for message, subject in unsupported_memory(type):
            self._lines.report(message, subject)

    def handle(self, home: Home, name: str) -> Fragment:
        """Return a tensor's handle; where there is none, append what makes the tensor."""
        homes, memory, type = self._lines.homes, home.memory, home.type
        known = homes.known_tensor(home)
        if known is not None:
            return known
        assert isinstance(type, TensorType)  # a pool is no tensor
        fixed = self._fixed_key(home, type)
        if fixed is not None:
            handle = self._lines.call.add_fixed(fixed, self._lines.module.values[name])
            homes.add_tensor(home, handle, None)
            return handle
        slot = self._view_slot(name)
        self._emit_view(slot, home, type, memory)
        handle = handle_of(slot)
        homes.add_tensor(home, handle, slot)
        return handle

    def make_changed(self, name: str) -> None:
        """Append what makes a tensor that an operator will change, while it is as typed."""
        if name in self._lines.survey.layouts.changed:
            self._lines.handle(name)

    def format_owned(self, handles: Sequence[Fragment], *, keeps: bool) -> list[Fragment]:
        """Return handles to be owned by another, one for each of ``handles``.

        With ``keeps`` all are further handles; otherwise a slot gives away its own, where
        it is asked for the last time.
        """
        given: list[Fragment] = []
        for index, handle in enumerate(handles):
            last = handle not in handles[index + 1 :]
            slot = None if keeps or not last else self._lines.homes.take_slot(handle)
            if slot is None:
                number = self._lines.line_number()
                given.append(fragment("new_handle({}, {})", handle, number))
            else:
                given.append(fragment("{}.release()", slot))
        return given

    def _view_slot(self, name: str) -> Fragment:
        lines = self._lines
        spelled = lines.module.values[name]
        if spelled in self._roots:
            known = self._views.get(name)
            if known is None:
                known = self._views[name] = lines.module.names.claim(f"{name}_view")
            spelled = known
        return lines.call.add_slot(spelled)

    def _fixed_key(self, home: Home, type: TensorType) -> FixedKey | None:
        memory = home.memory
        if memory.constant is None or home.apart or own_device(type.device) != CPU:
            return None
        offset = difference(home.first, memory.first)
        size = tuple(n for n in type.size if isinstance(n, int))
        stride = tuple(n for n in type.stride if isinstance(n, int))
        static = len(size) == len(type.size) and len(stride) == len(type.stride)
        if not static or not isinstance(offset, int):
            return None
        return FixedKey(memory.constant, offset, type.dtype, size, stride)

    def _emit_view(
        self, slot: Fragment, home: Home, type: TensorType, memory: Memory
    ) -> None:
        lines = self._lines
        dtype, (sizes, strides) = format_dtype(type.dtype), self._format_layout(type)
        number = lines.line_number()
        if memory.handle is None or memory.root is None:
            lines.writer.emit_line(
                "view_memory({}, {}, {}, {}, {}, {}{});",
                *(slot, self.address(home), dtype, sizes, strides, number),
                self._format_device(type.device),
            )
            return
        source, item = memory.handle, type.dtype.itemsize
        step = difference(home.first, memory.first)
        if home.begin == 0:
            elements: Expr | None = difference(type.offset, memory.root.offset)
        else:
            whole = isinstance(step, int) and step % item == 0
            elements = step // item if whole else None
        if type.dtype is memory.root.dtype and elements is not None:
            lines.writer.emit_line(
                "view({}, {}, {}, {}, {}, {});",
                *(slot, source, lines.expressions.format_index(elements)),
                *(sizes, strides, number),
            )
            return
        bytes = lines.expressions.format_index(step)
        lines.writer.emit_line(
            "view_as({}, {}, {}, {}, {}, {}, {});",
            *(slot, source, bytes, dtype, sizes, strides, number),
        )

    def address(self, home: Home) -> Fragment:
        """Return the address of the first element; it is fetched once in a block."""
        return self.address_of_byte(home.memory, home.first)

    def address_of_byte(self, memory: Memory, byte: Expr) -> Fragment:
        """Return the address of a byte of a storage."""
        lines = self._lines
        if memory.slot is not None and not lines.homes.is_fetched(memory):
            assert memory.handle is not None
            number = lines.line_number()
            lines.writer.emit_line(
                "{} = data_of({}, {});", memory.base, memory.handle, number
            )
            lines.homes.scopes[-1].fetched.add(memory)
        step = difference(byte, memory.first)
        if step == 0:
            return memory.base
        if isinstance(step, int) and step < 0:
            return fragment("{} - {}", memory.base, format_int(-step))
        return fragment("{} + {}", memory.base, lines.expressions.format_index(step))

    def is_aligned(self, name: str, bytes: int) -> bool:
        """Say whether the address of a tensor is known to be a multiple of ``bytes``."""
        home = self._lines.homes[name]
        region = self._lines.arena.regions.get(CPU)
        if home.memory.constant != -1 or region is None or region.alignment % bytes:
            return False
        step = difference(home.first, home.memory.first)
        on_cpu = isinstance(home.type, TensorType) and own_device(home.type.device) == CPU
        return on_cpu and isinstance(step, int) and step % bytes == 0

    def emit_zero(self, name: str, type: TensorType) -> None:
        """Append the zeroing of a buffer's bytes."""
        lines, home = self._lines, self._lines.homes[name]
        extent = storage_extent(type)
        static = all(isinstance(n, int) for n in (*type.size, *type.stride, type.offset))
        if static and isinstance(extent, int):
            count = (type.offset + extent) * type.dtype.itemsize if extent else 0
            address = self.address_of_byte(home.memory, home.begin)
            bytes = lines.expressions.format_index(count)
            if own_device(type.device) == CPU:
                lines.writer.emit_line("memset({}, 0, {});", address, bytes)
            else:
                lines.streams.emit_zero(type.device, address, bytes)
            return
        handle = self.handle(home, name)
        lines.streams.emit_wait_for_all()
        lines.writer.emit_line(
            "check(aoti_torch_zero_({}), {});", handle, lines.line_number()
        )
        lines.streams.emit_go_on()

    def _format_layout(self, type: TensorType) -> tuple[Fragment, Fragment]:
        return self.format_ints(type.size), self.format_ints(type.stride)

    def format_ints(self, values: Sequence[Expr]) -> Fragment:
        """Return a list of sizes or strides: a static array, or numbers in braces."""
        numbers = [value for value in values if isinstance(value, int)]
        if len(numbers) == len(values):
            return self._lines.module.table(numbers)
        parts = [self._lines.expressions.format_index(value) for value in values]
        return fragment("{{{}}}", joined(", ", parts))

    def _format_device(self, device: Device) -> Fragment:
        """Return the last arguments of what makes a tensor; none on the CPU."""
        if own_device(device) == CPU:
            return fragment("")
        return fragment(", Device::cuda, {}", format_int(device.index or 0))


def _root(type: TensorType | PoolType) -> TensorType:
    """Return the type of the tensor that holds a storage: bytes, if it is no plain one."""
    aligned = (type.alignment or 0) > natural_alignment(type.device)
    if isinstance(type, TensorType):
        if type.offset == 0 and not aligned:
            return evolve(type, alignment=None)
        reach = add(type.offset, storage_extent(type))
        bytes = mul(reach, type.dtype.itemsize)
        if storage_extent(type) == 0:
            bytes = 0
    else:
        bytes = type.size
    if not isinstance(bytes, int):
        bytes = maximum(bytes, 0)
    return TensorType(
        dtype=DType.U8,
        size=(bytes,),
        stride=(1,),
        device=type.device,
        pinned=type.pinned,
        alignment=type.alignment if aligned else None,
    )


def format_dtype(dtype: DType) -> Fragment:
    """Return the enumerator of an element type."""
    name = "boolean" if dtype is DType.BOOL else dtype.value
    return fragment("DType::{}", Fragment(name))
