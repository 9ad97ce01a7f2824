"""The storages of a block: their names, lifetimes and uses.

A name refers to the storages whose memory it holds: a view to that of its source, a tuple
to those of all its elements, an operator's result that may alias arguments to its own and
theirs.  A storage ends with the last name of it (``docs/reference/semantics.md``).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from attrs import define, field, frozen

from wrapperir.analysis.accesses import Accesses
from wrapperir.analysis.sizes import same_bytes
from wrapperir.ir.effects import drops
from wrapperir.ir.expr import Expr
from wrapperir.ir.line import (
    AllocateLine,
    AllocatePoolLine,
    Argument,
    Block,
    BodyLine,
    ConditionalLine,
    DefinitionLine,
    ExternKernelLine,
    MultiOutputLine,
    PlaceLine,
    ReinterpretLine,
    Result,
    ReuseLine,
    SubgraphCallLine,
    WhileLoopLine,
    ZeroMode,
)
from wrapperir.ir.mentions import buffers_in
from wrapperir.ir.types import Device, DType, PoolType, TensorType, TupleType, ValueType


class StorageKind(StrEnum):
    """What memory a storage has."""

    ALLOCATED = "allocated"
    PLACED = "placed"
    POOL = "pool"
    OPERATOR = "operator result"
    RESULT = "block result"
    INPUT = "input"
    CONSTANT = "constant"
    PARAMETER = "parameter"
    PROGRAM = "program workspace"


@frozen
class Use:
    """A line that touches a storage's bytes.

    ``stream`` is ``None`` where the host reads, which waits for all streams of
    ``device``.
    """

    line: int
    writes: bool
    device: Device
    stream: int | None


@define(eq=False)
class Storage:
    """Memory from the line ``begin`` until the line ``end`` drops the last name of it.

    ``name`` is the name that it began with, with an index where that is a tuple's.
    ``end`` is the number of lines where it outlives them: then it ``escapes``, or is not
    the block's own.  ``perhaps`` says that it may be another storage's memory.  A placed
    storage has its ``pool`` and ``offset`` in it.
    """

    name: str
    kind: StorageKind
    type: TensorType | PoolType
    begin: int
    end: int
    perhaps: bool = False
    pool: "Storage | None" = None
    offset: Expr = 0
    escapes: bool = False
    names: list[str] = field(factory=list[str])
    uses: list[Use] = field(factory=list[Use])
    references: int = 0


@define
class BlockStorages:
    """Storages in the order they begin, and those that each name refers to."""

    storages: list[Storage] = field(factory=list[Storage])
    of_name: dict[str, tuple[Storage, ...]] = field(factory=dict[str, tuple[Storage, ...]])


Entry = Sequence[tuple[str, ValueType, StorageKind]]
"""Names that a block begins with."""


def find_storages(
    lines: Sequence[BodyLine],
    results: Iterable[Argument],
    entry: Entry,
    definitions: Mapping[str, DefinitionLine],
) -> BlockStorages:
    """Return the storages of one block, nested blocks not included."""
    walk = _Walk(len(lines), definitions)
    for name, type, kind in entry:
        walk.begin(name, type, kind, 0)
    for index, line in enumerate(lines):
        walk.take(index, line)
    for result in results:
        for name in buffers_in(result):
            for storage in walk.found.of_name.get(name, ()):
                storage.escapes = True
    return walk.found


@define
class _Walk:
    count: int
    definitions: Mapping[str, DefinitionLine]
    found: BlockStorages = field(factory=BlockStorages)
    elements: dict[str, dict[tuple[int, ...], tuple[Storage, ...]]] = field(
        factory=dict[str, dict[tuple[int, ...], tuple[Storage, ...]]]
    )
    accesses: Accesses = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Let accesses know the kernels."""
        self.accesses = Accesses(self.definitions)

    def begin(
        self,
        name: str,
        type: ValueType,
        kind: StorageKind,
        line: int,
        shared: tuple[Storage, ...] = (),
    ) -> None:
        """Name new storages, one for each tensor of ``type``, and those in ``shared``."""
        parts: dict[tuple[int, ...], tuple[Storage, ...]] = {}
        for indices, part in _leaves(type):
            label = name + "".join(f"[{index}]" for index in indices)
            storage = Storage(label, kind, part, line, self.count, bool(shared))
            self.found.storages.append(storage)
            parts[indices] = (storage, *shared)
        self.elements[name] = parts
        held = tuple(dict.fromkeys(s for group in parts.values() for s in group))
        self.refer(name, held)

    def refer(self, name: str, storages: tuple[Storage, ...]) -> None:
        """Have a name hold storages."""
        self.found.of_name[name] = storages
        for storage in storages:
            storage.names.append(name)
            storage.references += 1

    def drop(self, name: str, line: int) -> None:
        """Let go of what a name holds."""
        for storage in self.found.of_name.get(name, ()):
            self._release(storage, line)

    def _release(self, storage: Storage, line: int) -> None:
        storage.references -= 1
        if storage.references == 0 and storage.kind not in _BORROWED:
            storage.end = line
            if storage.pool is not None:
                self._release(storage.pool, line)

    def take(self, index: int, line: BodyLine) -> None:
        """Note what a line does to storages."""
        self._note_uses(index, line)
        match line:
            case AllocateLine():
                kept = line.workspace is ZeroMode.ZERO_PER_PROGRAM
                kind = StorageKind.PROGRAM if kept else StorageKind.ALLOCATED
                self.begin(line.result, line.type, kind, index)
                self._note_zeroing(index, line)
            case AllocatePoolLine():
                self.begin(line.result, line.type, StorageKind.POOL, index)
            case PlaceLine():
                self._place(index, line)
            case ReinterpretLine():
                self.refer(line.result, self.found.of_name.get(line.source, ()))
            case ReuseLine():
                self.refer(line.result, self.found.of_name.get(line.source, ()))
            case MultiOutputLine():
                self._take_element(line)
            case ExternKernelLine(result=str(result), type=type) if type is not None:
                shared = [
                    s for name in line.aliases for s in self.found.of_name.get(name, ())
                ]
                distinct = tuple(dict.fromkeys(shared))
                self.begin(result, type, StorageKind.OPERATOR, index, distinct)
            case ConditionalLine() | WhileLoopLine() | SubgraphCallLine():
                self._take_results(index, line)
            case _:
                pass
        dropped = drops(line)
        if dropped is not None:
            self.drop(dropped, index)

    def _place(self, index: int, line: PlaceLine) -> None:
        self.begin(line.result, line.type, StorageKind.PLACED, index)
        (storage,) = self.found.of_name[line.result]
        storage.offset = line.offset
        pools = self.found.of_name.get(line.pool, ())
        if pools:
            storage.pool = pools[0]
            pools[0].references += 1
        self._note_zeroing(index, line)

    def _note_zeroing(self, index: int, line: AllocateLine | PlaceLine) -> None:
        if line.workspace is ZeroMode.ZERO_ON_CALL:
            for storage in self.found.of_name[line.result]:
                storage.uses.append(Use(index, True, line.type.device, 0))

    def _take_element(self, line: MultiOutputLine) -> None:
        depth = len(line.indices)
        parts = {
            indices[depth:]: storages
            for indices, storages in self.elements.get(line.source, {}).items()
            if indices[:depth] == line.indices
        }
        self.elements[line.result] = parts
        held = tuple(dict.fromkeys(s for group in parts.values() for s in group))
        self.refer(line.result, held)

    def _take_results(
        self, index: int, line: ConditionalLine | WhileLoopLine | SubgraphCallLine
    ) -> None:
        """Name what blocks return: memory of each result's own, nearly always.

        But a block may return one buffer by two names, or a part of one, or what lies in
        a pool, which then stays whole.
        """
        ways = [_returned(block, self.definitions) for block in _returning(line)]
        if all(_are_plain(way, line.results) for way in ways):
            for item in line.results:
                self.begin(item.name, item.type, StorageKind.RESULT, index)
            return
        if isinstance(line, WhileLoopLine):  # without an iteration, copies
            ways.append([_own(item.type) for item in line.results])
        held: dict[str, list[Storage]] = {item.name: [] for item in line.results}
        for way in ways:
            known: dict[int, Storage] = {}
            for item, homes in zip(line.results, way, strict=False):
                for home in homes:
                    if id(home) not in known:
                        perhaps = home.perhaps or len(ways) > 1
                        storage = Storage(
                            item.name,
                            StorageKind.RESULT,
                            _bytes_of(home.type),
                            index,
                            self.count,
                            perhaps,
                        )
                        known[id(home)] = storage
                        self.found.storages.append(storage)
                    held[item.name].append(known[id(home)])
        for item in line.results:
            storages = tuple(dict.fromkeys(held[item.name]))
            self.elements[item.name] = {i: storages for i, _ in _leaves(item.type)}
            self.refer(item.name, storages)

    def _note_uses(self, index: int, line: BodyLine) -> None:
        for name, writes, device, stream in self.accesses.of(line):
            for storage in self.found.of_name.get(name, ()):
                on = storage.type.device if device is None else device
                storage.uses.append(Use(index, writes, on, stream))


_BORROWED = frozenset({StorageKind.CONSTANT, StorageKind.PARAMETER, StorageKind.PROGRAM})


def _leaves(
    type: ValueType, indices: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[int, ...], TensorType | PoolType]]:
    if isinstance(type, TensorType | PoolType):
        yield indices, type
    elif isinstance(type, TupleType):
        for index, element in enumerate(type.elements):
            yield from _leaves(element, (*indices, index))


def _returning(
    line: ConditionalLine | WhileLoopLine | SubgraphCallLine,
) -> tuple[Block, ...]:
    """Return the blocks that return what a line returns."""
    match line:
        case ConditionalLine():
            return line.on_true, line.on_false
        case WhileLoopLine() | SubgraphCallLine():
            return (line.body,)


def _returned(
    block: Block, definitions: Mapping[str, DefinitionLine]
) -> list[tuple[Storage, ...]]:
    """Return the storages of the block's own that each of its results keeps."""
    if not any(buffers_in(result) for result in block.results):
        return [()] * len(block.results)
    entry = [(p.name, p.type, StorageKind.PARAMETER) for p in block.parameters]
    found = find_storages(block.lines, block.results, entry, definitions)
    kept: list[tuple[Storage, ...]] = []
    for result in block.results:
        storages = [s for name in buffers_in(result) for s in found.of_name.get(name, ())]
        homes = dict.fromkeys(_outermost(storage) for storage in storages)
        kept.append(tuple(home for home in homes if home.kind not in _BORROWED))
    return kept


def _outermost(storage: Storage) -> Storage:
    while storage.pool is not None:
        storage = storage.pool
    return storage


def _are_plain(way: Sequence[tuple[Storage, ...]], results: Sequence[Result]) -> bool:
    """Say whether each result has just the memory of its type, and has it alone."""
    all_homes = [home for homes in way for home in homes]
    return len({id(home) for home in all_homes}) == len(all_homes) and all(
        len(homes) == len(own) and all(map(_is_like, homes, own))
        for homes, own in zip(way, (_own(item.type) for item in results), strict=False)
    )


def _is_like(storage: Storage, own: Storage) -> bool:
    left, right = storage.type, own.type
    if left == right:
        return True
    if isinstance(left, PoolType) or isinstance(right, PoolType):
        return False
    return not storage.perhaps and same_bytes(left, right)


def _own(type: ValueType) -> tuple[Storage, ...]:
    """Return storages of a type that is nobody's yet."""
    return tuple(Storage("", StorageKind.RESULT, part, 0, 0) for _, part in _leaves(type))


def _bytes_of(type: TensorType | PoolType) -> TensorType:
    """Return the type of memory as a block's result is: a pool's is bytes."""
    if isinstance(type, TensorType):
        return type
    return TensorType(
        dtype=DType.U8,
        size=(type.size,),
        stride=(1,),
        device=type.device,
        space=type.space,
        pinned=type.pinned,
        alignment=type.alignment,
    )
