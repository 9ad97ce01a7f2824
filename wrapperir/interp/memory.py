"""Runs the lines of memory, symbols and asserts."""

import torch
from attrs import define, evolve

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, FaultError, LinePath
from wrapperir.emit.assert_messages import (
    alignment_message,
    format_layout_mismatch,
    layout_subject,
    not_nan_message,
    scalar_message,
)
from wrapperir.interp.fault import value_fault
from wrapperir.interp.frame import Frame, define_symbol
from wrapperir.interp.layout import integer_of, layout_of, same_elements, value_of
from wrapperir.interp.pool import allocate_pool, pool_bytes
from wrapperir.interp.storage import Owner, ShadowStorage, require_cpu
from wrapperir.interp.streams import StreamClocks
from wrapperir.interp.values import RunValue, TensorValue, allocate

Workspaces = dict[LinePath, TensorValue]
"""The ``zero_per_program`` workspaces of a program, by the path of their lines."""


@define(eq=False, kw_only=True)
class MemoryExecutor(wir.LineVisitor[None]):
    """Runs lines in ``frame``; ``path`` is the place of the line being run."""

    workspaces: Workspaces
    streams: StreamClocks
    frame: Frame
    path: LinePath = ()

    def visit_allocate(self, line: wir.AllocateLine) -> None:
        """Allocate, or take the program's workspace."""
        layout = layout_of(line.type, self.frame.symbols)
        if line.workspace is not wir.ZeroMode.ZERO_PER_PROGRAM:
            zeroed = line.workspace is wir.ZeroMode.ZERO_ON_CALL
            fresh = allocate(line.type, layout, zeroed=zeroed)
            self._fill(line, fresh.storage)
            self.frame.define(line.result, fresh, self.path)
            return
        value = self.workspaces.get(self.path)
        if value is None or value.layout != layout:
            value = allocate(line.type, layout, zeroed=True)
            value.storage.owner = Owner.PROGRAM
            self.workspaces[self.path] = value
        self.frame.borrow(line.result, value)  # from the program, which keeps it

    def _fill(self, line: wir.AllocateLine | wir.PlaceLine, storage: ShadowStorage) -> None:
        """Note that stream 0 fills a ``zero_on_call`` workspace."""
        if line.workspace is wir.ZeroMode.ZERO_ON_CALL:
            launch = self.streams.launch(line.type.device, 0, self.path)
            launch.write(storage.history, f"%{line.result}")

    def visit_allocate_pool(self, line: wir.AllocatePoolLine) -> None:
        """Allocate a pool."""
        nbytes = pool_bytes(line.type, self.frame.symbols)
        self.frame.define(line.result, allocate_pool(line.type, nbytes), self.path)

    def visit_place(self, line: wir.PlaceLine) -> None:
        """Begin a storage or a pool in a pool."""
        pool = self.frame.pool(line.pool)
        zeroed = line.workspace is wir.ZeroMode.ZERO_ON_CALL
        is_pool = isinstance(line.type, wir.PoolType)
        if line.workspace is wir.ZeroMode.ZERO_PER_PROGRAM or (zeroed and is_pool):
            problem = f"cannot be placed as {line.workspace}"
            raise value_fault(Code.RUN_PLACEMENT_MISMATCH, line.result, problem)
        offset = integer_of(line.offset, self.frame.symbols)
        if isinstance(line.type, wir.PoolType):
            nbytes = pool_bytes(line.type, self.frame.symbols)
            storage = pool.place(line.result, line.type, offset, nbytes, zeroed=False)
            value: RunValue = pool.inner(line.type, storage, offset)
        else:
            layout = layout_of(line.type, self.frame.symbols)
            nbytes = layout.nbytes
            storage = pool.place(line.result, line.type, offset, nbytes, zeroed=zeroed)
            self._fill(line, storage)
            value = TensorValue(storage.tensor(layout), layout, storage)
        self.frame.define(line.result, value, self.path)

    def visit_free(self, line: wir.FreeLine) -> None:
        """Drop a name."""
        self.frame.drop(line.buffer, "freed", self.path)

    def visit_reinterpret(self, line: wir.ReinterpretLine) -> None:
        """Name a view of the source's storage."""
        require_cpu(line.type.device)
        layout = layout_of(line.type, self.frame.symbols)
        view = self.frame.tensor(line.source).view(layout)
        self.frame.define(line.result, view, self.path)

    def visit_reuse(self, line: wir.ReuseLine) -> None:
        """Move a name's reference to another name, of a type that fits the storage."""
        if line.source in self.frame.dropped:
            self.frame.drop(line.source, "reused", self.path)  # raises
        source = self.frame.tensor(line.source)
        storage = source.storage
        self._check_reuse(line, storage)
        layout = layout_of(line.type, self.frame.symbols)
        try:
            value = source.view(layout)
        except FaultError as fault:
            subject = f"%{line.source}"
            code = Code.RUN_REUSE_MISMATCH
            raise FaultError(code, str(fault), subject=subject) from None
        storage.keep()  # so that dropping the source does not poison the bytes
        self.frame.drop(line.source, "reused", self.path)
        self.frame.define(line.result, value, self.path)
        storage.drop()
        # The alignment of the memory does not change with the new name.
        known = [t.alignment or 1 for t in (storage.type, line.type) if t is not None]
        storage.type = evolve(line.type, alignment=max(known))
        storage.history.renew()

    def _check_reuse(self, line: wir.ReuseLine, storage: ShadowStorage) -> None:
        is_lent = storage in self.frame.borrowed_storages()
        if is_lent or storage.owner not in (Owner.BLOCK, Owner.DONATED):
            problem = "is memory that is only lent: it cannot be reused"
            raise value_fault(Code.RUN_BORROWED, line.source, problem)
        old = storage.type
        mismatch = None if old is None else _reuse_mismatch(old, line.type)
        if mismatch is not None:
            problem = f"cannot be reused as %{line.result}: {mismatch}"
            raise value_fault(Code.RUN_REUSE_MISMATCH, line.source, problem)

    def visit_symbol_definition(self, line: wir.SymbolDefinitionLine) -> None:
        """Give a symbol its value."""
        define_symbol(self.frame, line)

    def visit_assert_size_stride(self, line: wir.AssertSizeStrideLine) -> None:
        """Check a size, and the strides that matter."""
        actual, symbols = self.frame.tensor(line.buffer).layout, self.frame.symbols
        size = tuple(integer_of(expr, symbols) for expr in line.size)
        stride = tuple(integer_of(expr, symbols) for expr in line.stride)
        wanted = evolve(actual, size=size, stride=stride)
        if len(size) != len(stride) or not same_elements(actual, wanted):
            given = actual.size, actual.stride
            message = format_layout_mismatch(layout_subject(line), given, (size, stride))
            raise _failed(Code.RUN_ASSERT_SIZE_STRIDE, message, line.buffer)

    def visit_assert_alignment(self, line: wir.AssertAlignmentLine) -> None:
        """Check the address of the first element."""
        value = self.frame.tensor(line.buffer)
        if line.bytes <= 0 or value.tensor.data_ptr() % line.bytes:
            raise _failed(Code.RUN_ASSERT_ALIGNMENT, alignment_message(line), line.buffer)

    def visit_assert_scalar(self, line: wir.AssertScalarLine) -> None:
        """Check that a condition is not zero."""
        if not value_of(line.condition, self.frame.symbols):
            raise FaultError(Code.RUN_ASSERT_SCALAR, scalar_message(line))

    def visit_assert_not_nan(self, line: wir.AssertNotNanLine) -> None:
        """Check that every element is written and finite."""
        value = self.frame.tensor(line.buffer)
        value.require_written(line.buffer)
        tensor = value.tensor
        if tensor.is_floating_point() and tensor.element_size() == 1:
            tensor = tensor.float()  # PyTorch tests no fp8
        if not bool(torch.isfinite(tensor).all()):
            raise _failed(Code.RUN_ASSERT_NOT_NAN, not_nan_message(line), line.buffer)


def _reuse_mismatch(old: wir.TensorType, new: wir.TensorType) -> str | None:
    if old.device != new.device:
        return f"it is on {old.device}, not {new.device}"
    if old.space != new.space:
        return f"it is in the space {old.space}, not {new.space}"
    if old.pinned != new.pinned:
        return "only one of them is pinned"
    if old.layout != new.layout:
        return "their vendor layouts differ"
    if new.alignment is not None and new.alignment > (old.alignment or 1):
        return f"it promises no alignment of {new.alignment} bytes"
    return None


def _failed(code: Code, message: str, buffer: str) -> FaultError:
    return FaultError(code, message, subject=f"%{buffer}")
