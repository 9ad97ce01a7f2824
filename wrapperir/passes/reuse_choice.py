"""The choice of freed memory for each allocation of a block."""

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import TypeAlias

from attrs import define, field, frozen

from wrapperir.analysis import (
    STATIC,
    BlockStorages,
    Footprints,
    Storage,
    StorageKind,
    StreamOrder,
    storage_bytes,
)
from wrapperir.ir import (
    AllocateLine,
    BodyLine,
    FreeLine,
    ReuseLine,
    TensorType,
    ValueType,
    ZeroMode,
)
from wrapperir.passes.live_units import LiveUnits

_ReuseClass: TypeAlias = tuple[object, ...]
"""The properties that a freed buffer and the buffer in its memory share."""


@frozen(eq=False)
class BufferSize:
    """The size of a buffer in ``units``; ``amount`` orders the sizes of a class.

    The amount is the bytes, not rounded, where they are constant.
    """

    amount: int
    units: int


@frozen(eq=False)
class Freed:
    """A freed buffer: its size, and the name and the line that free it."""

    size: BufferSize
    name: str
    line: int


@define
class _Shelf:
    """Freed buffers of a class: amounts in order, and a stack of buffers for each."""

    amounts: list[int] = field(factory=list[int])
    stacks: dict[int, list[Freed]] = field(factory=dict[int, list[Freed]])

    def put(self, freed: Freed) -> None:
        amount = freed.size.amount
        if amount not in self.stacks:
            insort(self.amounts, amount)
            self.stacks[amount] = []
        self.stacks[amount].append(freed)

    def find(self, amount: int) -> Freed | None:
        """Return the buffer freed last among the smallest that are large enough."""
        at = bisect_left(self.amounts, amount)
        return self.stacks[self.amounts[at]][-1] if at < len(self.amounts) else None

    def take(self, freed: Freed) -> None:
        """Remove a buffer that ``find`` returned."""
        amount = freed.size.amount
        self.stacks[amount].pop()
        if not self.stacks[amount]:
            del self.stacks[amount]
            del self.amounts[bisect_left(self.amounts, amount)]


@define
class ReuseSearch:
    """Chooses the freed buffer that each allocation of a block takes.

    ``types`` has the types of the names that the block begins with.
    """

    lines: Sequence[BodyLine]
    found: BlockStorages
    order: StreamOrder
    footprints: Footprints
    live: LiveUnits
    types: dict[str, ValueType]
    chosen: dict[int, Freed] = field(factory=dict[int, Freed])
    _shelves: dict[_ReuseClass, dict[int, _Shelf]] = field(
        factory=dict[_ReuseClass, dict[int, _Shelf]]
    )
    _sizes: dict[int, BufferSize] = field(factory=dict[int, BufferSize])

    def run(self) -> None:
        """Fill ``chosen``: for the line of an allocation, the memory that it takes."""
        ended: dict[int, Storage] = {}
        begun: dict[int, Storage] = {}
        for storage in self.found.storages:
            if self._is_suited(storage):
                if storage.kind is StorageKind.ALLOCATED:
                    begun[storage.begin] = storage
                if self._is_freed_alone(storage):
                    ended[storage.end] = storage
        ready: dict[int, list[tuple[Storage, str, int]]] = {}
        for index, line in enumerate(self.lines):
            for made in self.found.effects[index].definitions:
                self.types[made.name] = made.type
            for storage, name, at in ready.pop(index, ()):
                self._offer(storage, name, at)
            if isinstance(line, AllocateLine) and index in begun:
                self._place(index, line, begun[index])
            elif isinstance(line, FreeLine) and index in ended:
                freed = (ended[index], line.buffer, index)
                ready.setdefault(self._settled(ended[index], index), []).append(freed)

    def _is_freed_alone(self, storage: Storage) -> bool:
        """Say whether the last name to be freed can only be this storage."""
        if storage.end >= len(self.lines):
            return False
        line = self.lines[storage.end]
        return isinstance(line, FreeLine) and self.found.of_name[line.buffer] == (storage,)

    def _is_suited(self, storage: Storage) -> bool:
        if storage.kind not in (StorageKind.ALLOCATED, StorageKind.DONATED):
            return False
        size = self.footprints.sizes.of(storage.type)
        return size.count > 0 and (size.exact or size.unit is STATIC)

    def _settled(self, storage: Storage, freed: int) -> int:
        """Return the first line whose later launches all come after its uses."""
        settled = freed + 1
        if not self.order.is_trivial:
            for use in storage.uses:
                if use.stream is not None:
                    settled = max(settled, self.order.settled(use.line, use.stream))
        return settled

    def _class_of(self, storage: Storage) -> _ReuseClass:
        type = storage.type
        assert isinstance(type, TensorType)
        layout = None if type.layout is None else type
        unit = self.footprints.sizes.of(type).unit
        return (type.device, type.space, type.pinned, layout, unit)

    def _size_of(self, storage: Storage) -> BufferSize:
        known = self._sizes.get(storage.begin)
        if known is not None:
            return known
        size = self.footprints.sizes.of(storage.type)
        bytes = storage_bytes(storage.type)
        return BufferSize(bytes if isinstance(bytes, int) else size.count, size.count)

    def _offer(self, storage: Storage, freed: str, line: int) -> None:
        """Put a freed buffer on the shelf of its class and alignment."""
        type, whole = self.types[freed], storage.type
        assert isinstance(type, TensorType)
        assert isinstance(whole, TensorType)
        if type.layout != whole.layout or (type.layout is not None and type != whole):
            return
        shelves = self._shelves.setdefault(self._class_of(storage), {})
        shelf = shelves.setdefault(type.alignment or 1, _Shelf())
        shelf.put(Freed(self._size_of(storage), freed, line))

    def _place(self, index: int, line: AllocateLine, storage: Storage) -> None:
        """Choose a freed buffer for an allocation, if one is suitable."""
        if line.workspace not in (None, ZeroMode.UNINITIALIZED):
            return
        own = self._size_of(storage)
        dimension, _ = self.footprints.dimension(storage)
        shelves = self._shelves.get(self._class_of(storage), {})
        offers: list[tuple[int, int, _Shelf, Freed]] = []
        for alignment, shelf in shelves.items():
            freed = shelf.find(own.amount)
            if freed is not None and alignment >= (line.type.alignment or 1):
                offers.append((freed.size.amount, -freed.line, shelf, freed))
        for amount, _, shelf, freed in sorted(offers, key=lambda offer: offer[:2]):
            if storage.escapes and amount > own.amount:
                continue
            kept, more = freed.size.units, freed.size.units - own.units
            if not self.live.may_add(dimension, freed.line, index, kept):
                continue
            if not self.live.may_add(dimension, index, storage.end, more):
                continue
            self.live.add(dimension, freed.line, index, kept)
            self.live.add(dimension, index, storage.end, more)
            shelf.take(freed)
            self.chosen[index] = freed
            self._sizes[index] = freed.size
            return


def reuse_line(line: BodyLine, source: str) -> ReuseLine:
    """Return the line that gives an allocation the memory of ``source``."""
    assert isinstance(line, AllocateLine)
    return ReuseLine(
        result=line.result, source=source, type=line.type, provenance=line.provenance
    )
