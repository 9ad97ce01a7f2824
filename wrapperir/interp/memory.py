"""The lines that allocate, place, free, view and reuse storages."""

from attrs import evolve

from wrapperir.diagnostics import Code, LinePath
from wrapperir.interp.allocation import allocate, nbytes_of
from wrapperir.interp.fault import FaultError
from wrapperir.interp.frame import Frame
from wrapperir.interp.layout import integer_of, layout_of
from wrapperir.interp.pool import allocate_pool, pool_bytes
from wrapperir.interp.storage import Owner, Storage, require_cpu
from wrapperir.interp.streams import Streams
from wrapperir.interp.values import TensorValue
from wrapperir.ir import (
    AllocateLine,
    AllocatePoolLine,
    FreeLine,
    PlaceLine,
    PoolType,
    ReinterpretLine,
    ReuseLine,
    TensorType,
    ZeroMode,
)

Workspaces = dict[LinePath, TensorValue]
"""The ``zero_per_program`` workspaces of a program, by the path of their lines."""


def run_allocate(
    line: AllocateLine,
    frame: Frame,
    path: LinePath,
    workspaces: Workspaces,
    streams: Streams,
) -> None:
    """Allocate, or take up the program's workspace; stream 0 fills it with zeros."""
    layout = layout_of(line.type, frame.symbols)
    if line.workspace is not ZeroMode.ZERO_PER_PROGRAM:
        zeroed = line.workspace is ZeroMode.ZERO_ON_CALL
        fresh = allocate(line.type, layout, zeroed=zeroed)
        if zeroed:
            launch = streams.launch(line.type.device, 0, path)
            launch.write(fresh.storage.history, f"%{line.result}")
        frame.define(line.result, fresh, path)
        return
    value = workspaces.get(path)
    if value is None or value.layout != layout:
        value = allocate(line.type, layout, zeroed=True)
        value.storage.owner = Owner.PROGRAM
        workspaces[path] = value
    frame.borrow(line.result, value)  # from the program, which keeps it


def run_allocate_pool(line: AllocatePoolLine, frame: Frame, path: LinePath) -> None:
    """Allocate memory to place buffers in."""
    nbytes = pool_bytes(line.type, frame.symbols)
    frame.define(line.result, allocate_pool(line.type, nbytes), path)


def run_place(line: PlaceLine, frame: Frame, path: LinePath, streams: Streams) -> None:
    """Begin a storage or a pool in a pool; stream 0 fills it with zeros where asked."""
    pool = frame.pool(line.pool)
    zeroed = line.workspace is ZeroMode.ZERO_ON_CALL
    if line.workspace is ZeroMode.ZERO_PER_PROGRAM or (
        zeroed and isinstance(line.type, PoolType)
    ):
        message = f"%{line.result} cannot be placed as {line.workspace}"
        raise FaultError(Code.RUN_PLACEMENT_MISMATCH, message, subject=f"%{line.result}")
    offset = integer_of(line.offset, frame.symbols)
    if isinstance(line.type, PoolType):
        nbytes = pool_bytes(line.type, frame.symbols)
        storage = pool.place(line.result, line.type, offset, nbytes, zeroed=False)
        frame.define(line.result, pool.inner(line.type, storage, offset), path)
        return
    layout = layout_of(line.type, frame.symbols)
    storage = pool.place(line.result, line.type, offset, nbytes_of(layout), zeroed=zeroed)
    if zeroed:
        launch = streams.launch(line.type.device, 0, path)
        launch.write(storage.history, f"%{line.result}")
    frame.define(line.result, TensorValue(storage.tensor(layout), layout, storage), path)


def run_free(line: FreeLine, frame: Frame, path: LinePath) -> None:
    """Drop a name."""
    frame.drop(line.buffer, "freed", path)


def run_reinterpret(line: ReinterpretLine, frame: Frame, path: LinePath) -> None:
    """Name a view of the source's storage."""
    require_cpu(line.type.device)
    layout = layout_of(line.type, frame.symbols)
    frame.define(line.result, frame.tensor(line.source).view(layout), path)


def run_reuse(line: ReuseLine, frame: Frame, path: LinePath) -> None:
    """Move a name's reference to another name, of a type that fits the storage."""
    if line.source in frame.dropped:
        frame.drop(line.source, "reused", path)  # raises: it was dropped before
    source = frame.tensor(line.source)
    storage = source.storage
    _check_reuse(line, storage, frame)
    layout = layout_of(line.type, frame.symbols)
    try:
        value = source.view(layout)
    except FaultError as fault:
        raise FaultError(
            Code.RUN_REUSE_MISMATCH, str(fault), subject=f"%{line.source}"
        ) from None
    storage.keep()  # so that dropping the source does not poison the bytes
    frame.drop(line.source, "reused", path)
    frame.define(line.result, value, path)
    storage.drop()
    # The memory stays as aligned as it is, whatever its new name promises.
    known = [t.alignment or 1 for t in (storage.type, line.type) if t is not None]
    storage.type = evolve(line.type, alignment=max(known))
    storage.history.renew()


def _check_reuse(line: ReuseLine, storage: Storage, frame: Frame) -> None:
    subject = f"%{line.source}"
    lent = storage in frame.borrowed_storages()
    if lent or storage.owner is not Owner.BLOCK:
        message = f"{subject} is memory that is only lent: it cannot be reused"
        raise FaultError(Code.RUN_BORROWED, message, subject=subject)
    if storage.type is not None:
        problem = _reuse_problem(storage.type, line.type)
        if problem is not None:
            message = f"{subject} cannot be reused as %{line.result}: {problem}"
            raise FaultError(Code.RUN_REUSE_MISMATCH, message, subject=subject)


def _reuse_problem(old: TensorType, new: TensorType) -> str | None:
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
