"""Makes a program's timeline from what the analysis knows of its storages."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from wrapperir.analysis import StorageKind, analyze_memory
from wrapperir.diagnostics import LinePath, Position
from wrapperir.ir import (
    DEFAULT_SPACE,
    Number,
    PoolType,
    Program,
    ReuseLine,
    TensorType,
)
from wrapperir.planning import Buffer, Sections, first_fit
from wrapperir.report.spans import (
    FlatLines,
    StorageSpan,
    find_spans,
    flatten,
    format_provenance,
)
from wrapperir.report.timeline import (
    GIVEN,
    BufferKind,
    MemoryTimeline,
    ProgramTimeline,
    TimelineBuffer,
    TimelinePool,
    TimelineValue,
    bytes_at_lines,
)
from wrapperir.text import format_type

_KINDS = {
    StorageKind.ALLOCATED: BufferKind.ALLOCATED,
    StorageKind.PLACED: BufferKind.PLACED,
    StorageKind.OPERATOR: BufferKind.RESULT,
    StorageKind.RESULT: BufferKind.BLOCK_RESULT,
    StorageKind.PROGRAM: BufferKind.WORKSPACE,
    StorageKind.INPUT: BufferKind.INPUT,
    StorageKind.DONATED: BufferKind.DONATED,
    StorageKind.SCATTERED: BufferKind.SCATTERED,
    StorageKind.CONSTANT: BufferKind.CONSTANT,
}

_UNWRITTEN = (BufferKind.ALLOCATED, BufferKind.PLACED)
"""Kinds of memory whose bytes another line writes than the one that makes it."""


def build_timeline(
    program: Program,
    positions: Mapping[LinePath, Position],
    values: Mapping[str, Number],
    label: str,
) -> ProgramTimeline:
    """Return what a valid program holds where its symbols have these values.

    ``positions`` are of the program's parts, in the text whose lines are counted.  A
    size that has no value counts as nothing, one beyond all memory as
    :data:`~wrapperir.report.spans.MOST` bytes.
    """
    memory = analyze_memory(program, values)
    flat = flatten(memory, positions, program)
    memories: dict[str, list[StorageSpan]] = {}
    for span in find_spans(memory, flat, values):
        memories.setdefault(_memory_name(span.storage.type), []).append(span)
    reuses = _reuses(flat)
    timelines = [_timeline(name, spans, flat, reuses) for name, spans in memories.items()]
    timelines.sort(key=lambda timeline: (-timeline.peak, timeline.memory))
    return ProgramTimeline(label=label, lines=flat.lines, memories=tuple(timelines))


def _memory_name(type: TensorType | PoolType) -> str:
    space = "" if type.space == DEFAULT_SPACE else f" {type.space}"
    return f"{type.device}{space}{' pinned' if type.pinned else ''}"


def _timeline(
    name: str,
    spans: Sequence[StorageSpan],
    flat: FlatLines,
    reuses: Mapping[str, Sequence[int]],
) -> MemoryTimeline:
    addresses = _addresses(spans)
    count = len(flat.lines)
    buffers = tuple(
        _buffer(span, addresses[id(span)], flat, reuses)
        for span in spans
        if not _is_pool(span)
    )
    pools = tuple(_pool(span, addresses[id(span)]) for span in spans if _is_pool(span))
    counted = [buffer for buffer in buffers if buffer.kind.counted]
    taken: Sequence[TimelineBuffer | TimelinePool] = (*counted, *pools)
    return MemoryTimeline(
        memory=name,
        buffers=buffers,
        pools=pools,
        live=bytes_at_lines(counted, count),
        held=bytes_at_lines([b for b in taken if b.pool is None], count),
        uncounted=bytes_at_lines([b for b in buffers if not b.kind.counted], count),
    )


def _is_pool(span: StorageSpan) -> bool:
    return isinstance(span.storage.type, PoolType)


def _is_counted(span: StorageSpan) -> bool:
    return _is_pool(span) or _KINDS[span.storage.kind].counted


def _addresses(spans: Sequence[StorageSpan]) -> dict[int, int]:
    """Return an address for each span; uncounted spans lie above all counted ones."""
    addresses: dict[int, int] = {}
    base = 0
    for counted in (True, False):
        free = [s for s in spans if s.within is None and _is_counted(s) is counted]
        found = lowest_addresses([Buffer(s.size, s.begin, s.end) for s in free])
        for span, address in zip(free, found, strict=True):
            addresses[id(span)] = base + address
        base = max((addresses[id(s)] + s.size for s in free), default=0)
    for span in spans:  # a pool comes before the buffers placed in it
        if span.within is not None:
            addresses[id(span)] = addresses[id(span.within)] + span.offset
    return addresses


def lowest_addresses(buffers: Sequence[Buffer]) -> list[int]:
    """Return an address in bytes for each buffer: the lowest that is free as it begins.

    This is first fit in order of time (Knuth, The Art of Computer Programming 1, 2.5).
    """
    sections = Sections.of(buffers)
    begins = [(buffers[index].begin, index) for index in sections.buffers]
    order = sorted(range(len(begins)), key=begins.__getitem__)
    offsets, _ = first_fit(sections, order, below=None, probes=sys.maxsize)
    found = dict(zip(sections.buffers, offsets or (), strict=True))
    return [found.get(index, 0) for index in range(len(buffers))]


def _reuses(flat: FlatLines) -> dict[str, list[int]]:
    """Return the lines that give memory to each name that reuses some."""
    found: dict[str, list[int]] = {}
    for index, line in enumerate(flat.bodies):
        if isinstance(line, ReuseLine):
            found.setdefault(line.result, []).append(index)
    return found


def _buffer(
    span: StorageSpan, address: int, flat: FlatLines, reuses: Mapping[str, Sequence[int]]
) -> TimelineBuffer:
    storage = span.storage
    kind = _KINDS[storage.kind]
    if kind is BufferKind.RESULT and storage.perhaps:
        kind = BufferKind.PERHAPS_RESULT
    before = kind in (*GIVEN, BufferKind.INPUT, BufferKind.CONSTANT)
    reused = tuple(_reused(span, flat, reuses))
    until = next((value.line for value in reused if value.line is not None), span.end)
    writer = _first(span.writes, span.line, until) if kind in _UNWRITTEN else None
    return TimelineBuffer(
        name=storage.name,
        aliases=tuple(dict.fromkeys(n for n in storage.names if n != storage.name)),
        kind=kind,
        type=format_type(storage.type),
        size=span.size,
        begin=span.begin,
        end=span.end,
        address=address,
        pool=None if span.within is None else span.within.storage.name,
        offset=None if span.within is None else span.offset,
        line=None if before else span.line,
        writer=writer,
        reuses=reused,
        provenance=flat.given.get(storage.name, "")
        if before
        else _provenance(flat, span.line, writer),
    )


def _reused(
    span: StorageSpan, flat: FlatLines, reuses: Mapping[str, Sequence[int]]
) -> Iterator[TimelineValue]:
    """Yield the values that lines reuse a storage for, in their order."""
    names = dict.fromkeys(span.storage.names)
    found = sorted(index for name in names for index in reuses.get(name, ()))
    lines = [index for index in found if span.begin <= index < span.end]
    for index, until in pairwise((*lines, span.end)):
        line = flat.bodies[index]
        if isinstance(line, ReuseLine):
            writer = _first(span.writes, index, until)
            yield TimelineValue(
                name=line.result,
                type=format_type(line.type),
                line=index,
                writer=writer,
                provenance=_provenance(flat, index, writer),
            )


def _first(lines: Sequence[int], begin: int, end: int) -> int | None:
    """Return the first of some lines from ``begin`` up to ``end``."""
    return next((line for line in lines if begin <= line < end), None)


def _provenance(flat: FlatLines, *lines: int | None) -> str:
    """Return where the first of some lines came from that says so."""
    known = (flat.bodies[at].provenance for at in lines if at is not None)
    return next(filter(None, (format_provenance(x, flat.origins) for x in known)), "")


def _pool(span: StorageSpan, address: int) -> TimelinePool:
    return TimelinePool(
        name=span.storage.name,
        size=span.size,
        begin=span.begin,
        end=span.end,
        address=address,
        line=span.line,
        pool=None if span.within is None else span.within.storage.name,
    )
