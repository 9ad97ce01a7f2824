"""The values of a body whose memory a call may give to its result."""

from collections.abc import Collection, Sequence

from attrs import define, evolve, field

from wrapperir import ir as wir
from wrapperir.analysis import (
    BlockStorages,
    Body,
    Entry,
    Storage,
    StorageKind,
    StreamOrder,
    find_storages,
    order_streams,
    storage_bytes,
)
from wrapperir.ir.effects import Effects
from wrapperir.ir.line_effects import LineEffects

_GIVEN = frozenset({StorageKind.ALLOCATED, StorageKind.DONATED})


@define
class BodyNames:
    """Each name's type, and the lines that allocate it, free it and use it otherwise."""

    types: dict[str, wir.ValueType] = field(factory=dict[str, wir.ValueType])
    allocated: dict[str, int] = field(factory=dict[str, int])
    freed: dict[str, int] = field(factory=dict[str, int])
    first: dict[str, int] = field(factory=dict[str, int])
    last: dict[str, int] = field(factory=dict[str, int])

    @classmethod
    def of(
        cls, lines: Sequence[wir.BodyLine], effects: Sequence[Effects], entry: Entry
    ) -> "BodyNames":
        """Return the facts about the names that lines define or use."""
        names = cls({name: type for name, type, _ in entry})
        for index, (line, found) in enumerate(zip(lines, effects, strict=True)):
            for made in found.definitions:
                names.types[made.name] = made.type
            if isinstance(line, wir.FreeLine):
                names.freed[line.buffer] = index
                continue
            for name in found.uses:
                names.first.setdefault(name, index)
                names.last[name] = index
            if isinstance(line, wir.AllocateLine) and line.workspace is None:
                names.allocated[line.result] = index
        return names


@define
class GivenMemory:
    """What is known of the memory of a body's values."""

    found: BlockStorages
    names: BodyNames
    order: StreamOrder

    @classmethod
    def of(cls, body: Body, effects: LineEffects) -> "GivenMemory":
        """Return what is known of a body."""
        found = find_storages(body.lines, body.results, body.entry, effects)
        names = BodyNames.of(body.lines, found.effects, body.entry)
        return cls(found, names, order_streams(found.effects))

    def of_argument(
        self,
        name: str,
        target: wir.TensorType,
        index: int,
        line: wir.ExternKernelLine,
        making: Collection[int] = (),
    ) -> Storage | None:
        """Return the storage of an argument if a call's result of a type may take it whole.

        It is a buffer of the block, the result of one of the lines ``making``, or a dense
        donated input, and nothing uses it after the call at ``index``.  On several streams
        all earlier uses are ordered before the call.
        """
        source, held = self.names.types.get(name), self.found.of_name[name]
        if name not in self.names.freed or len(held) != 1:
            return None
        (storage,) = held
        is_given = (
            isinstance(source, wir.TensorType)
            and (storage.kind in _GIVEN or storage.begin in making)
            and evolve(source, alignment=target.alignment) == target
            and (target.alignment or 1) <= (source.alignment or 1)
            and source.layout is None
            and storage_bytes(storage.type) == storage_bytes(target)
            and all(self.names.last.get(n, -1) <= index for n in storage.names)
            and not storage.escapes
            and self._comes_last(storage, index, line)
        )
        return storage if is_given else None

    def _comes_last(self, storage: Storage, index: int, line: wir.ExternKernelLine) -> bool:
        """Say whether all earlier uses of a storage are ordered before a call."""
        if self.order.is_trivial:
            return True
        call = {wir.Stream(line.device, line.stream): [index]}
        return all(
            self.order.settled(use.line, use.stream, call) <= index
            for use in storage.uses
            if use.stream is not None and use.line < index
        )
