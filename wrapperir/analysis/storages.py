"""The storages of a block: their names, lifetimes and uses.

A name refers to the storages whose memory it holds: a view to that of its source, a tuple
to those of all its elements, an operator's result that may alias arguments to its own and
theirs.  A storage ends with the last name of it (``docs/reference/semantics.md``).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from attrs import define, field, frozen

from wrapperir.ir.expr import Expr
from wrapperir.ir.kernel import Access, BufferParameter, Parameter, runtime_parameters
from wrapperir.ir.line import (
    AllocateLine,
    AllocatePoolLine,
    Argument,
    AssertNotNanLine,
    BodyLine,
    BufferRef,
    ConditionalLine,
    DefinitionLine,
    ExternKernelLine,
    ItemOf,
    KernelCallLine,
    MultiOutputLine,
    PlaceLine,
    ReinterpretLine,
    ReuseLine,
    SubgraphCallLine,
    SymbolDefinitionLine,
    WhileLoopLine,
    ZeroMode,
)
from wrapperir.ir.types import Device, PoolType, TensorType, TupleType, ValueType
from wrapperir.ir.uses import buffers_in, drops, uses


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
    accesses: dict[str, tuple[bool, ...]] = field(factory=dict[str, tuple[bool, ...]])

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
                for item in line.results:
                    self.begin(item.name, item.type, StorageKind.RESULT, index)
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

    def _note_uses(self, index: int, line: BodyLine) -> None:
        for name, writes, device, stream in self._accesses(line):
            for storage in self.found.of_name.get(name, ()):
                on = storage.type.device if device is None else device
                storage.uses.append(Use(index, writes, on, stream))

    def _accesses(
        self, line: BodyLine
    ) -> Iterator[tuple[str, bool, Device | None, int | None]]:
        """Yield the names that a line touches: whether it writes, device, stream."""
        match line:
            case KernelCallLine():
                for argument, writes in zip(
                    line.arguments, self._parameter_writes(line.kernel), strict=False
                ):
                    if isinstance(argument, BufferRef):
                        yield argument.name, writes, line.device, line.stream
            case ExternKernelLine():
                written = frozenset(line.writes)
                for name in dict.fromkeys(uses(line)):
                    yield name, name in written, line.device, line.stream
            case ConditionalLine() | WhileLoopLine() | SubgraphCallLine():
                for name in dict.fromkeys(uses(line)):
                    yield name, True, None, 0
                if isinstance(line, ConditionalLine) and isinstance(
                    line.predicate, BufferRef
                ):
                    yield line.predicate.name, False, None, None
            case SymbolDefinitionLine(source=ItemOf(buffer=name)):
                yield name, False, None, None
            case AssertNotNanLine():
                yield line.buffer, False, None, None
            case _:
                pass

    def _parameter_writes(self, kernel: str) -> tuple[bool, ...]:
        known = self.accesses.get(kernel)
        if known is None:
            definition = self.definitions.get(kernel)
            parameters = () if definition is None else definition.parameters
            known = tuple(_writes(p) for p in runtime_parameters(parameters))
            self.accesses[kernel] = known
        return known


_BORROWED = frozenset({StorageKind.CONSTANT, StorageKind.PARAMETER, StorageKind.PROGRAM})


def _writes(parameter: Parameter) -> bool:
    return isinstance(parameter, BufferParameter) and parameter.access is not Access.READ


def _leaves(
    type: ValueType, indices: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[int, ...], TensorType | PoolType]]:
    if isinstance(type, TensorType | PoolType):
        yield indices, type
    elif isinstance(type, TupleType):
        for index, element in enumerate(type.elements):
            yield from _leaves(element, (*indices, index))
