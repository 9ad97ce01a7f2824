"""The storages of a block: their names, lifetimes and uses.

A name refers to the storages whose memory it holds.  A view refers to the storage of its
source, a tuple to the storages of all its elements, and an operator's result that may
alias arguments to its own storage and theirs.  A storage ends with its last name
(``docs/reference/semantics.md``).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TypeAlias

from attrs import define, evolve, field, frozen

from wrapperir import ir as wir
from wrapperir.analysis.sizes import same_bytes
from wrapperir.ir.blocks import rewrite_blocks
from wrapperir.ir.effects import (
    Actor,
    Effects,
    Origin,
    ValueDefinition,
)
from wrapperir.ir.line_effects import LineEffects, stream_of
from wrapperir.ir.mentions import buffers_in


class StorageKind(StrEnum):
    """The origin of a storage's memory."""

    ALLOCATED = "allocated"
    PLACED = "placed"
    POOL = "pool"
    OPERATOR = "operator result"
    RESULT = "block result"
    INPUT = "input"
    DONATED = "donated input"
    SCATTERED = "scattered donated input"
    """A donated input that is not dense: the bytes between its elements are not its own."""
    CONSTANT = "constant"
    PARAMETER = "parameter"
    PROGRAM = "program workspace"


@define
class Use:
    """A line that accesses a storage's bytes.

    ``stream`` is ``None`` where the host reads them, which waits for all streams.
    """

    line: int
    writes: bool
    stream: wir.Stream | None


@define(eq=False)
class Storage:
    """Memory from the line ``begin`` until the line ``end`` drops its last name.

    ``name`` is its first name, with an index for an element of a tuple.  ``end`` is the
    number of lines if it outlives them: then it ``escapes``, or is not the block's own.
    ``perhaps`` says that it may be another storage's memory.  A placed storage has a
    ``pool`` and its ``offset`` in it.
    """

    name: str
    kind: StorageKind
    type: wir.TensorType | wir.PoolType
    begin: int
    end: int
    perhaps: bool = False
    pool: "Storage | None" = None
    offset: wir.Expr = 0
    escapes: bool = False
    names: list[str] = field(factory=list[str])
    uses: list[Use] = field(factory=list[Use])
    references: int = 0
    is_owned: bool = True

    @property
    def is_donated(self) -> bool:
        """Whether it is a donated input's, which is there before all lines."""
        return self.kind in (StorageKind.DONATED, StorageKind.SCATTERED)

    @property
    def released(self) -> int:
        """The first line without its memory."""
        return max(self.end, 1) if self.is_donated else self.end


@define
class BlockStorages:
    """Storages in the order they begin, the storages of each name, and lines' effects."""

    storages: list[Storage] = field(factory=list[Storage])
    of_name: dict[str, tuple[Storage, ...]] = field(factory=dict[str, tuple[Storage, ...]])
    effects: list[Effects] = field(factory=list[Effects])


Entry: TypeAlias = Sequence[tuple[str, wir.ValueType, StorageKind]]
"""Names that a block begins with."""


def program_entry(program: wir.Program) -> Entry:
    """Return the names that a program begins with: inputs, then constants.

    The type of a scattered donated input has its elements in a row.
    """
    return (
        *map(_input_entry, program.inputs),
        *((given.name, given.type, StorageKind.CONSTANT) for given in program.constants),
    )


def _input_entry(given: wir.Input) -> tuple[str, wir.ValueType, StorageKind]:
    type = given.type
    if not given.donated or not isinstance(type, wir.TensorType):
        return given.name, type, StorageKind.INPUT
    if wir.is_dense(type):
        return given.name, type, StorageKind.DONATED
    row = evolve(type, stride=wir.contiguous_stride(type.size), offset=0)
    return given.name, row, StorageKind.SCATTERED


def block_entry(block: wir.Block) -> Entry:
    """Return the names that a nested block begins with: its parameters."""
    return [(p.name, p.type, StorageKind.PARAMETER) for p in block.parameters]


@frozen
class Body:
    """The lines of a program or of a nested block, with its results and entry."""

    lines: Sequence[wir.BodyLine]
    results: Sequence[wir.Argument]
    entry: Entry
    is_nested: bool


def rewrite_bodies(
    program: wir.Program, rewrite: Callable[[Body], Iterable[wir.BodyLine]]
) -> wir.Program:
    """Return the program with the lines of each body rewritten, inner bodies first."""

    def nested(block: wir.Block) -> wir.Block:
        inner = Body(rewritten(block.lines), block.results, block_entry(block), True)
        return evolve(block, lines=tuple(rewrite(inner)))

    def rewritten(lines: Sequence[wir.BodyLine]) -> Sequence[wir.BodyLine]:
        return [rewrite_blocks(line, nested) for line in lines]

    entry = program_entry(program)
    body = Body(rewritten(program.lines), program.outputs, entry, False)
    return evolve(program, lines=tuple(rewrite(body)))


def find_storages(
    lines: Sequence[wir.BodyLine],
    results: Iterable[wir.Argument],
    entry: Entry,
    effects: LineEffects,
) -> BlockStorages:
    """Return the storages of one block, nested blocks not included."""
    walk = _StorageFinder(len(lines), effects)
    for name, type, kind in entry:
        walk.begin(name, type, kind, 0)
    walk.found.effects = [effects.visit(line) for line in lines]
    for index, of_line in enumerate(walk.found.effects):
        walk.take(index, of_line)
    for result in results:
        for name in buffers_in(result):
            for storage in walk.found.of_name.get(name, ()):
                storage.escapes = True
    return walk.found


@define
class _StorageFinder:
    count: int
    effects: LineEffects
    found: BlockStorages = field(factory=BlockStorages)
    elements: dict[str, dict[tuple[int, ...], tuple[Storage, ...]]] = field(
        factory=dict[str, dict[tuple[int, ...], tuple[Storage, ...]]]
    )

    def begin(
        self,
        name: str,
        type: wir.ValueType,
        kind: StorageKind,
        line: int,
        shared: tuple[Storage, ...] = (),
    ) -> None:
        """Name new storages, one for each tensor of ``type``, and those in ``shared``."""
        is_owned = kind not in _BORROWED
        if isinstance(type, wir.TensorType) and not shared:  # the usual case
            storage = Storage(name, kind, type, line, self.count, is_owned=is_owned)
            self.found.storages.append(storage)
            self.elements[name] = {(): (storage,)}
            self.refer(name, (storage,))
            return
        parts: dict[tuple[int, ...], tuple[Storage, ...]] = {}
        for indices, part in _leaves(type):
            label = name + "".join(f"[{index}]" for index in indices)
            storage = Storage(label, kind, part, line, self.count, bool(shared))
            storage.is_owned = is_owned
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
        if storage.references == 0 and storage.is_owned:
            storage.end = line
            if storage.pool is not None:
                self._release(storage.pool, line)

    def take(self, index: int, effects: Effects) -> None:
        """Note what a line does to storages."""
        for made in effects.definitions:
            self._define(index, made)
        if effects.blocks:
            self._take_results(index, effects)
        for access in effects.accesses:
            for storage in self.found.of_name.get(access.name, ()):
                stream = access.by if isinstance(access.by, wir.Stream) else None
                if stream is None and access.by is not Actor.HOST:
                    stream = stream_of(storage.type.device)
                storage.uses.append(Use(index, access.writes, stream))
        if effects.drops is not None:
            self.drop(effects.drops, index)

    def _define(self, index: int, made: ValueDefinition) -> None:
        match made.origin:
            case Origin.VIEW | Origin.MOVED:
                self.refer(made.name, self._source(made))
            case Origin.ALLOCATED | Origin.OPERATOR | Origin.POOL | Origin.PROGRAM:
                shared = [s for n in made.may_alias for s in self.found.of_name.get(n, ())]
                distinct = tuple(dict.fromkeys(shared))
                self.begin(made.name, made.type, _KINDS[made.origin], index, distinct)
            case Origin.PLACED:
                self.begin(made.name, made.type, StorageKind.PLACED, index)
                (storage,) = self.found.of_name[made.name]
                storage.offset = made.offset
                for pool in self._source(made)[:1]:
                    storage.pool = pool
                    pool.references += 1
            case Origin.ELEMENT:
                self._take_element(made)
            case Origin.BLOCK | Origin.NONE:
                pass  # all results of blocks are taken together; events hold no memory

    def _source(self, made: ValueDefinition) -> tuple[Storage, ...]:
        return self.found.of_name.get(made.source or "", ())

    def _take_element(self, made: ValueDefinition) -> None:
        depth = len(made.indices)
        parts = {
            indices[depth:]: storages
            for indices, storages in self.elements.get(made.source or "", {}).items()
            if indices[:depth] == made.indices
        }
        self.elements[made.name] = parts
        held = tuple(dict.fromkeys(s for group in parts.values() for s in group))
        self.refer(made.name, held)

    def _take_results(self, index: int, effects: Effects) -> None:
        """Name the storages of a line's results: mostly a separate one for each result.

        But a block may return the same buffer by two names, a part of a buffer, or a
        buffer in a pool, which then stays alive.
        """
        results = effects.definitions
        returning = [nested for nested in effects.blocks if nested.returns]
        # A loop may have further results, the stacks of what its body returns.
        ways = [
            [
                *(way := _returned(nested.block, self.effects)),
                *(_own(item.type) for item in results[len(way) :]),
            ]
            for nested in returning
        ]
        if all(_are_plain(way, results) for way in ways):
            for item in results:
                self.begin(item.name, item.type, StorageKind.RESULT, index)
            return
        if any(nested.repeats for nested in returning):  # with no iteration, copies
            ways.append([_own(item.type) for item in results])
        held: dict[str, list[Storage]] = {item.name: [] for item in results}
        for way in ways:
            known: dict[int, Storage] = {}
            for item, homes in zip(results, way, strict=False):
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
        for item in results:
            storages = tuple(dict.fromkeys(held[item.name]))
            self.elements[item.name] = {i: storages for i, _ in _leaves(item.type)}
            self.refer(item.name, storages)


_KINDS = {
    Origin.ALLOCATED: StorageKind.ALLOCATED,
    Origin.PROGRAM: StorageKind.PROGRAM,
    Origin.POOL: StorageKind.POOL,
    Origin.OPERATOR: StorageKind.OPERATOR,
}
_BORROWED = frozenset({StorageKind.CONSTANT, StorageKind.PARAMETER, StorageKind.PROGRAM})


def _leaves(
    type: wir.ValueType, indices: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[int, ...], wir.TensorType | wir.PoolType]]:
    if isinstance(type, wir.TensorType | wir.PoolType):
        yield indices, type
    elif isinstance(type, wir.TupleType):
        for index, element in enumerate(type.elements):
            yield from _leaves(element, (*indices, index))


def _returned(block: wir.Block, effects: LineEffects) -> list[tuple[Storage, ...]]:
    """Return the storages of the block's own that each of its results keeps."""
    if not any(buffers_in(result) for result in block.results):
        return [()] * len(block.results)
    found = find_storages(block.lines, block.results, block_entry(block), effects)
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


def _are_plain(
    way: Sequence[tuple[Storage, ...]], results: Sequence[ValueDefinition]
) -> bool:
    """Say whether each result has exactly the memory of its type, not shared."""
    all_homes = [home for homes in way for home in homes]
    return len({id(home) for home in all_homes}) == len(all_homes) and all(
        len(homes) == len(own) and all(map(_is_like, homes, own))
        for homes, own in zip(way, (_own(item.type) for item in results), strict=False)
    )


def _is_like(storage: Storage, own: Storage) -> bool:
    left, right = storage.type, own.type
    if left == right:
        return True
    if isinstance(left, wir.PoolType) or isinstance(right, wir.PoolType):
        return False
    return not storage.perhaps and same_bytes(left, right)


def _own(type: wir.ValueType) -> tuple[Storage, ...]:
    """Return unnamed storages of a type."""
    return tuple(Storage("", StorageKind.RESULT, part, 0, 0) for _, part in _leaves(type))


def _bytes_of(type: wir.TensorType | wir.PoolType) -> wir.TensorType:
    """Return the type of a block's result: bytes for a pool."""
    return type if isinstance(type, wir.TensorType) else wir.pool_bytes(type)
