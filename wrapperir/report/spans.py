"""The lines and storages of a program and its nested blocks, on one axis.

Nested lines follow the line that holds them, in the order of the text.
"""

from collections.abc import Mapping

from attrs import define, evolve, field, frozen

from wrapperir import ir as wir
from wrapperir.analysis import (
    UNIT,
    BlockMemory,
    ProgramMemory,
    Storage,
    StorageKind,
    storage_bytes,
)
from wrapperir.diagnostics import LinePath, Position
from wrapperir.ir.blocks import nested_blocks
from wrapperir.ir.line_effects import LineEffects
from wrapperir.report.timeline import TimelineLine
from wrapperir.text import format_line

_EFFECTS = LineEffects(None)

MOST = 1 << 50
"""The upper limit of sizes and offsets; no memory has as many bytes."""


@frozen
class FlatLines:
    """Lines in the order of the text, and the indices of each block's lines.

    ``starts`` has an index for each line of a block, and one more for where it ends;
    ``origins`` are what lines came from, and ``given`` says where inputs did, by name.
    """

    lines: tuple[TimelineLine, ...]
    bodies: tuple[wir.BodyLine, ...]
    origins: wir.OriginTable
    given: Mapping[str, str] = field(factory=dict[str, str])
    starts: Mapping[LinePath, list[int]] = field(factory=dict[LinePath, list[int]])


def flatten(
    memory: ProgramMemory,
    positions: Mapping[LinePath, Position],
    program: wir.Program,
) -> FlatLines:
    """Return the lines with their numbers in the text that ``positions`` are of."""
    origins = wir.OriginTable(program)
    given = {x.name: format_provenance(x.provenance, origins) for x in program.inputs}
    lines: list[TimelineLine] = []
    bodies: list[wir.BodyLine] = []
    starts: dict[LinePath, list[int]] = {}

    def visit(block: BlockMemory, depth: int) -> None:
        own = starts[block.path] = list[int]()
        for index, line in enumerate(block.lines):
            own.append(len(lines))
            path = (*block.path, "lines", index)
            number = positions[path].line
            lines.append(TimelineLine(number=number, text=line_head(line), depth=depth))
            bodies.append(line)
            for name, _ in nested_blocks(line):
                visit(memory.blocks[*path, name], depth + 1)
        own.append(len(lines))

    visit(memory.top, 0)
    return FlatLines(tuple(lines), tuple(bodies), origins, given, starts)


def line_head(line: wir.AnyLine) -> str:
    """Return a line's text without provenance and nested blocks."""
    text = format_line(evolve(line, provenance=None))
    return text.partition("\n")[0].strip().removesuffix(" {")


def format_provenance(provenance: wir.Provenance | None, table: wir.OriginTable) -> str:
    """Return where a line came from: its place, operator, module and first node.

    That is ``model.py:7, aten.mm.default in layers.0, mm_1 and 3 more``; operator and
    module are of the first node that has an operator.
    """
    if provenance is None or not provenance.origins:
        return ""
    parts = list[str]()
    origins = table.of(provenance)
    if (place := next(filter(None, map(table.place, origins)), None)) is not None:
        parts.append(f"{place.file}:{place.line}")
    called = next((each for each in origins if each.operator is not None), None)
    if called is not None:
        module = f" in {called.module}" if called.module else ""
        parts.append(f"{called.operator}{module}")
    more = len(provenance.origins) - 1
    parts.append(provenance.origins[0] + (f" and {more} more" if more else ""))
    return ", ".join(parts)


@frozen(eq=False)
class StorageSpan:
    """A storage of ``size`` bytes, alive at the lines from ``begin`` up to ``end``.

    ``within`` is the pool that it is placed in, at ``offset`` bytes.  ``line`` is the
    index of the line that makes it, and ``writes`` are those that write its bytes.
    """

    storage: Storage
    size: int
    begin: int
    end: int
    line: int
    writes: tuple[int, ...]
    within: "StorageSpan | None"
    offset: int


def find_spans(
    memory: ProgramMemory, flat: FlatLines, values: Mapping[str, wir.Number]
) -> list[StorageSpan]:
    """Return the storages of all blocks, parameters of nested ones not repeated.

    Sizes are rounded up to 64 bytes.  Sizes of placed storages are not if some offset is
    not a multiple of 64, since neighbours would overlap.
    """
    walk = _SpanFinder(memory, flat, values)
    placed = (s for b in memory.blocks.values() for s in b.storages if s.pool is not None)
    walk.rounds_placed = all(walk.offset(storage) % UNIT == 0 for storage in placed)
    walk.block(memory.top, {})
    return walk.found


@define
class _SpanFinder:
    memory: ProgramMemory
    flat: FlatLines
    values: Mapping[str, wir.Number]
    found: list[StorageSpan] = field(factory=list[StorageSpan])
    rounds_placed: bool = True

    def block(self, block: BlockMemory, lent: Mapping[str, StorageSpan]) -> None:
        """Add a block's storages; ``lent`` has the pools among its parameters by name."""
        spans: dict[int, StorageSpan] = {}
        for storage, size in zip(block.storages, block.bytes, strict=True):
            if storage.kind is not StorageKind.PARAMETER:
                pool = None if storage.pool is None else spans[id(storage.pool)]
                span = self._span(block, storage, self._size(storage, size), pool)
                self.found.append(span)
                spans[id(storage)] = span
            elif storage.name in lent:
                spans[id(storage)] = lent[storage.name]
        for index, line in enumerate(block.lines):
            for inner in _EFFECTS.visit(line).blocks:
                pools: dict[str, StorageSpan] = {}
                for parameter, operand in zip(
                    inner.block.parameters, inner.operands, strict=True
                ):
                    if isinstance(parameter.type, wir.PoolType):
                        assert isinstance(operand, wir.BufferRef)
                        (storage,) = block.found.of_name[operand.name]
                        pools[parameter.name] = spans[id(storage)]
                path = (*block.path, "lines", index, inner.field)
                self.block(self.memory.blocks[path], pools)

    def _span(
        self, block: BlockMemory, storage: Storage, size: int, pool: StorageSpan | None
    ) -> StorageSpan:
        starts = self.flat.starts[block.path]
        begin = line = starts[storage.begin] if block.lines else 0
        if storage.kind is StorageKind.RESULT:
            # A loop holds what its last iteration left while the next one runs; what
            # other blocks return is theirs until they end.
            blocks = _EFFECTS.visit(block.lines[storage.begin]).blocks
            if not any(nested.repeats for nested in blocks):
                begin = starts[storage.begin + 1]
        elif storage.kind is StorageKind.PROGRAM:
            begin = 0
        return StorageSpan(
            storage=storage,
            size=size,
            begin=begin,
            end=max(begin, starts[storage.released]),
            line=line,
            writes=tuple(starts[use.line] for use in storage.uses if use.writes),
            within=pool,
            offset=0 if pool is None else self.offset(storage),
        )

    def _size(self, storage: Storage, rounded: int) -> int:
        if storage.pool is None or self.rounds_placed or rounded == 0:
            return _plausible(rounded)
        return _plausible(wir.evaluate_int(storage_bytes(storage.type), self.values))

    def offset(self, storage: Storage) -> int:
        """Return where a placed storage begins in its pool."""
        try:
            return _plausible(wir.evaluate_int(storage.offset, self.values))
        except wir.EvaluationError:
            return 0  # as a size that has no value counts as nothing


def _plausible(bytes: int) -> int:
    return min(max(0, bytes), MOST)
