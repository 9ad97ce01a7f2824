"""Bytes that a program's lines hold: whole pools, and the buffers outside them.

Like :mod:`bench.memory.lower_bound`, it shares no code with the analyses of planning.
"""

from collections.abc import Iterable
from typing import TypeAlias

from attrs import define, field, frozen

from bench.memory.lower_bound import round_up, storage_bytes, tensors_in
from wrapperir.ir import (
    AllocateLine,
    AllocatePoolLine,
    BodyLine,
    ExternKernelLine,
    FreeLine,
    Input,
    MultiOutputLine,
    PlaceLine,
    PoolType,
    Program,
    ReinterpretLine,
    ReuseLine,
    TensorType,
    ZeroMode,
)
from wrapperir.ir.blocks import blocks_of
from wrapperir.ir.line_effects import definitions


@frozen
class PlannedMemory:
    """Bytes of a program with pools.

    ``height`` is the most bytes held at once: pools whole from their line to their end,
    and buffers outside of pools.  ``placed`` and ``outside`` are the sizes of all buffers
    in and outside of pools, those that reuse another's memory included.
    """

    height: int
    placed: int
    outside: int

    @property
    def share_placed(self) -> float:
        """The share of the buffers' bytes that are in pools."""
        return self.placed / (self.placed + self.outside)


def planned_memory(program: Program) -> PlannedMemory:
    """Return what the lines of a program hold; constants and workspaces do not count.

    Of inputs, donated ones count, from the start.

    Raises:
        ValueError: a size is not a number, or a line has nested blocks.
    """
    walk = _Walk()
    walk.begin(program.inputs)
    for line in program.lines:
        if blocks_of(line):
            raise ValueError(f"a line of {program.name} has nested blocks")
        walk.visit(line)
    return PlannedMemory(walk.peak, walk.placed, walk.outside)


@define(eq=False)
class _Storage:
    """Memory with ``references`` to it; in ``pool``, it is not counted by itself."""

    bytes: int
    pool: "_Storage | None" = None
    references: int = 1


_Elements: TypeAlias = dict[tuple[int, ...], _Storage]


@define
class _Walk:
    held: int = 0
    peak: int = 0
    placed: int = 0
    outside: int = 0
    _storages: dict[str, _Storage] = field(factory=dict[str, _Storage])
    _tuples: dict[str, _Elements] = field(factory=dict[str, _Elements])

    def begin(self, inputs: Iterable[Input]) -> None:
        """Hold the donated inputs."""
        for each in inputs:
            if each.donated:
                assert isinstance(each.type, TensorType)
                self._storages[each.name] = self._hold(storage_bytes(each.type))

    def visit(self, line: BodyLine) -> None:
        match line:
            case FreeLine(buffer=name):
                self._free(name)
            case ReuseLine(result=name, source=source, type=type):
                if source in self._storages:
                    storage = self._storages[name] = self._storages.pop(source)
                    self._count(storage_bytes(type), in_pool=storage.pool is not None)
            case ReinterpretLine(result=name, source=source):
                self._share(name, self._storages.get(source))
            case MultiOutputLine(result=name, source=source, indices=indices):
                self._share(name, self._tuples.get(source, {}).get(indices))
            case AllocatePoolLine(result=name, type=type):
                self._storages[name] = self._hold(_pool_bytes(type))
            case PlaceLine(result=name, type=type, pool=source):
                self._place(name, type, self._storages[source])
            case AllocateLine(result=name, type=type, workspace=workspace):
                if workspace is not ZeroMode.ZERO_PER_PROGRAM:
                    self._storages[name] = self._buffer(type)
            case ExternKernelLine(result=str(name), aliases=(source, *_)):
                self._share(name, self._storages.get(source))
            case ExternKernelLine():
                self._results(line)
            case _:
                pass

    def _results(self, line: ExternKernelLine) -> None:
        for name, type in definitions(line):
            if isinstance(type, TensorType):
                self._storages[name] = self._buffer(type)
            else:
                self._tuples[name] = {
                    path: self._buffer(element) for path, element in tensors_in(type)
                }

    def _buffer(self, type: TensorType) -> _Storage:
        size = storage_bytes(type)
        self._count(size, in_pool=False)
        return self._hold(size)

    def _count(self, size: int, *, in_pool: bool) -> None:
        if in_pool:
            self.placed += size
        else:
            self.outside += size

    def _hold(self, size: int) -> _Storage:
        self.held += size
        self.peak = max(self.peak, self.held)
        return _Storage(size)

    def _place(self, name: str, type: TensorType | PoolType, pool: _Storage) -> None:
        pool.references += 1
        size = _pool_bytes(type) if isinstance(type, PoolType) else storage_bytes(type)
        self._storages[name] = _Storage(size, pool)
        if isinstance(type, TensorType):
            self._count(size, in_pool=True)

    def _share(self, name: str, storage: _Storage | None) -> None:
        if storage is not None:
            storage.references += 1
            self._storages[name] = storage

    def _free(self, name: str) -> None:
        storage = self._storages.pop(name, None)
        if storage is not None:
            self._drop(storage)
        for element in self._tuples.pop(name, {}).values():
            self._drop(element)

    def _drop(self, storage: _Storage) -> None:
        storage.references -= 1
        if storage.references:
            return
        if storage.pool is None:
            self.held -= storage.bytes
        else:
            self._drop(storage.pool)


def _pool_bytes(type: PoolType) -> int:
    if not isinstance(type.size, int):
        raise ValueError("the size of a pool is not a number")
    return round_up(type.size)
