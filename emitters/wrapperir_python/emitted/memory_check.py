"""Checks, while an emitted program runs, that its memory is as the program declares.

Each call of the program has a :class:`Memory`, which is told of every buffer that begins,
is written and is dropped, and looks at the tensors.  It holds addresses and weak
references, no tensor, so that memory goes when it would go otherwise.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias, cast

import torch
from torch.multiprocessing.reductions import StorageWeakRef

LinePlace: TypeAlias = tuple[int | str, ...]
"""Where a line stands in the program: ``("lines", 3, "body", "lines", 0)``."""

TensorLayout: TypeAlias = tuple[Sequence[int], Sequence[int], int, torch.dtype]
"""Size, stride and offset in elements, and dtype."""


class MemoryPlanError(RuntimeError):
    """Memory is not as declared: ``buffer`` differs at the line at ``place``."""

    code = "WIR842"

    def __init__(self, buffer: str, place: LinePlace, difference: str) -> None:
        """Describe which buffer differs, where and how."""
        self.buffer = buffer
        self.place = place
        self.difference = difference
        where = ".".join(map(str, place))
        super().__init__(f"{self.code}: %{buffer} {difference}, at {where}")


class _Reference:
    """A weak reference to a tensor's memory."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._reference: Any = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
        self.identity: int = self._reference.cdata

    def is_gone(self) -> bool:
        return bool(self._reference.expired())


class _NamedBytes:
    """Bytes ``[begin, end)`` that have names; ``pool`` is where they are placed."""

    def __init__(self, name: str, begin: int, end: int, pool: "_NamedBytes | None") -> None:
        self.name = name
        self.begin = begin
        self.end = end
        self.pool = pool
        self.names = 0
        self.memory: _Reference | None = None
        self.escaped = False
        self.placed: list[tuple[int, int, _NamedBytes]] = []


class _View:
    """The address, layout and known storages of a value when it was last seen.

    ``dense`` are the bytes that a tensor fills; none if it leaves some of them out.
    """

    def __init__(self, tensor: torch.Tensor | None, *storages: _NamedBytes) -> None:
        self.storages = storages
        self.seen = () if tensor is None else _layout(tensor)
        begin, end = (0, 0) if tensor is None else _span(tensor)
        fills = tensor is not None and end - begin == tensor.numel() * tensor.itemsize
        self.dense = (begin, end) if fills else (0, 0)


class Memory:
    """The buffers of one call."""

    def __init__(self) -> None:
        """Start with none."""
        self._views: dict[str, _View] = {}
        self._pools: dict[str, _NamedBytes] = {}
        self._allocated: dict[int, _NamedBytes] = {}

    def entered(self, name: str, value: object) -> None:
        """Record an input or constant: its storage bounds the views of it."""
        for tensor in _tensors(value):
            if self._storage_of(tensor) is None:
                memory = tensor.untyped_storage()
                begin = memory.data_ptr()
                storage = _NamedBytes(name, begin, begin + memory.nbytes(), None)
                storage.memory = _Reference(tensor)
                storage.escaped = True  # the caller may hold it
                self._allocated[storage.memory.identity] = storage
        self.given(name, value)

    def donated(self, name: str, place: LinePlace) -> None:
        """Check that a dense input, which was entered, shares no memory with another."""
        begin, end = self._views[name].dense
        for other, seen in self._views.items():
            first, last = seen.dense
            if other != name and first < end and begin < last:
                raise MemoryPlanError(name, place, f"shares the memory of %{other}")

    def given(self, name: str, value: object) -> None:
        """Record the value that an operator or block returned."""
        found = [self._storage_of(tensor) for tensor in _tensors(value)]
        tensor = value if isinstance(value, torch.Tensor) else None
        self._name(name, tensor, *[storage for storage in found if storage is not None])

    def made(self, name: str, place: LinePlace, value: object) -> None:
        """Check that what an operator returned has memory of its own."""
        for tensor in _tensors(value):
            storage = self._storage_of(tensor)
            if storage is not None:
                difference = f"shares the memory of %{storage.name}"
                raise MemoryPlanError(name, place, difference)
        self.given(name, value)

    def allocated(
        self,
        name: str,
        place: LinePlace,
        tensor: torch.Tensor,
        layout: TensorLayout,
        spare: int,
    ) -> None:
        """Check an allocation: its layout, and that it has that memory and no more.

        ``spare`` bytes more are for alignment.
        """
        self._check_layout(name, place, tensor, layout)
        nbytes = _nbytes(layout)
        begin = tensor.data_ptr() - layout[2] * tensor.itemsize
        self._begin(name, place, tensor, begin, nbytes, spare)

    def allocated_pool(
        self, name: str, place: LinePlace, tensor: torch.Tensor, nbytes: int, spare: int
    ) -> None:
        """Check the allocation of a pool."""
        begin = tensor.data_ptr()
        self._pools[name] = self._begin(name, place, tensor, begin, nbytes, spare)

    def placed(
        self,
        name: str,
        place: LinePlace,
        pool: str,
        offset: int,
        tensor: torch.Tensor,
        layout: TensorLayout,
    ) -> None:
        """Check that a buffer is at its offset of a pool, where nothing else lives."""
        self._check_layout(name, place, tensor, layout)
        nbytes = _nbytes(layout)
        within = self._pools[pool]
        wanted = within.begin + offset
        found = tensor.data_ptr() - layout[2] * tensor.itemsize
        if nbytes and found != wanted:
            raise MemoryPlanError(
                name,
                place,
                f"is at byte {found - within.begin} of %{pool}, planned at {offset}",
            )
        self._name(name, tensor, self._place(name, place, within, offset, nbytes))

    def placed_pool(
        self, name: str, place: LinePlace, pool: str, offset: int, nbytes: int
    ) -> None:
        """Check a pool in a pool."""
        within = self._pools[pool]
        self._pools[name] = self._place(name, place, within, offset, nbytes)
        self._name(name, None, self._pools[name])

    def lent(self, parameter: str, pool: str) -> None:
        """Record that a block's parameter is a pool."""
        self._pools[parameter] = self._pools[pool]

    def viewed(
        self, name: str, place: LinePlace, source: str, tensor: torch.Tensor
    ) -> None:
        """Check that a view lies within the memory of what it views."""
        known = self._views.get(source)
        found = [self._storage_of(tensor)] if known is None else known.storages
        storage = next(iter(found), None)
        begin, end = _span(tensor)
        if storage and begin < end and not storage.begin <= begin <= end <= storage.end:
            raise MemoryPlanError(
                name,
                place,
                f"takes bytes {begin - storage.begin}..{end - storage.begin} of the"
                f" {storage.end - storage.begin} of %{storage.name}",
            )
        self._name(name, tensor, *([] if storage is None else [storage]))

    def written(self, name: str, place: LinePlace, tensor: torch.Tensor) -> None:
        """Check that an operator left a tensor where and as it was."""
        view = self._views.get(name)
        if view is None:
            raise MemoryPlanError(name, place, "is written where it is not alive")
        found = _layout(tensor)
        if found[1:] != view.seen[1:]:
            changed = f"was changed from {view.seen[1:]} to {found[1:]}"
            raise MemoryPlanError(name, place, changed)
        if found != view.seen:
            raise MemoryPlanError(name, place, "was moved")

    def freed(self, name: str, place: LinePlace) -> None:
        """Check that a name is there to drop, and that its memory goes with the last."""
        view = self._views.pop(name, None)
        if view is None:
            raise MemoryPlanError(name, place, "is freed where it is not alive")
        for storage in view.storages:
            self._drop(storage, name, place)

    def returned(self, names: Iterable[str]) -> None:
        """Record that a block's results have become names of its line."""
        for name in names:
            for storage in self._views.pop(name).storages:
                holder: _NamedBytes | None = storage
                while holder is not None:
                    holder.escaped = True
                    holder = holder.pool
                self._drop(storage, name, ())

    def finish(self, kept: Iterable[str]) -> None:
        """Check that nothing but inputs and outputs is alive at the end."""
        kept = set(kept)
        for name, view in self._views.items():
            if view.storages and name not in kept:
                difference = "is alive, and neither freed nor returned"
                raise MemoryPlanError(name, ("outputs",), difference)

    def _begin(
        self,
        name: str,
        place: LinePlace,
        tensor: torch.Tensor,
        begin: int,
        nbytes: int,
        spare: int,
    ) -> _NamedBytes:
        memory = tensor.untyped_storage()
        if not nbytes <= memory.nbytes() <= nbytes + spare:
            raise MemoryPlanError(
                name, place, f"has {memory.nbytes()} bytes, planned are {nbytes}"
            )
        storage = _NamedBytes(name, begin, begin + nbytes, None)
        storage.memory = _Reference(tensor)
        self._allocated[storage.memory.identity] = storage
        self._name(name, tensor, storage)
        return storage

    def _place(
        self, name: str, place: LinePlace, pool: _NamedBytes, offset: int, nbytes: int
    ) -> _NamedBytes:
        begin = pool.begin + offset
        storage = _NamedBytes(name, begin, begin + nbytes, pool)
        if not pool.begin <= begin <= storage.end <= pool.end:
            size = pool.end - pool.begin
            difference = f"takes bytes {offset}..{offset + nbytes} of a pool of {size}"
            raise MemoryPlanError(name, place, difference)
        if nbytes:
            at = bisect_right(pool.placed, begin, key=_first)
            for other in pool.placed[max(0, at - 1) : at + 1]:
                if other[0] < storage.end and begin < other[1]:
                    raise MemoryPlanError(
                        name, place, f"overlaps %{other[2].name}, which is alive"
                    )
            insort(pool.placed, (begin, storage.end, storage), key=_first)
        pool.names += 1
        return storage

    def _name(self, name: str, tensor: torch.Tensor | None, *storages: _NamedBytes) -> None:
        for storage in storages:
            storage.names += 1
        self._views[name] = _View(tensor, *storages)

    def _drop(self, storage: _NamedBytes, name: str, place: LinePlace) -> None:
        storage.names -= 1
        if storage.names:
            return
        pool = storage.pool
        if pool is not None:
            if storage.begin < storage.end:
                at = bisect_right(pool.placed, storage.begin, key=_first) - 1
                del pool.placed[at]
            self._drop(pool, name, place)
        elif storage.memory is not None:
            del self._allocated[storage.memory.identity]
            if not storage.escaped and not storage.memory.is_gone():
                raise MemoryPlanError(
                    storage.name, place, f"keeps its memory when %{name} is dropped"
                )

    def _storage_of(self, tensor: torch.Tensor) -> _NamedBytes | None:
        """Return the storage that an operator's result has its memory in, if known."""
        storage = self._allocated.get(_Reference(tensor).identity)
        if storage is None or tensor.numel() == 0:
            return storage
        while True:
            at = bisect_right(storage.placed, tensor.data_ptr(), key=_first) - 1
            if at < 0 or storage.placed[at][1] <= tensor.data_ptr():
                return storage
            storage = storage.placed[at][2]

    @staticmethod
    def _check_layout(
        name: str,
        place: LinePlace,
        tensor: torch.Tensor,
        layout: TensorLayout,
    ) -> None:
        size, stride, _, dtype = layout
        wanted = tuple(size), tuple(stride), dtype
        found = tuple(tensor.shape), tensor.stride(), tensor.dtype
        if found != wanted:
            raise MemoryPlanError(name, place, _difference(wanted, found))


def _tensors(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in cast(Sequence[object], value):
            yield from _tensors(item)


def _first(item: tuple[int, int, _NamedBytes]) -> int:
    return item[0]


def _layout(tensor: torch.Tensor) -> tuple[object, ...]:
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def _difference(wanted: object, found: object) -> str:
    return f"is {found}, planned is {wanted}"


def _nbytes(layout: TensorLayout) -> int:
    """Return the bytes of a storage that just holds a layout."""
    size, stride, offset, dtype = layout
    if 0 in size:
        return 0
    reach = sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    return (offset + 1 + reach) * dtype.itemsize


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    begin = tensor.data_ptr()
    layout = tuple(tensor.shape), tensor.stride(), 0, tensor.dtype
    return begin, begin + _nbytes(layout)
