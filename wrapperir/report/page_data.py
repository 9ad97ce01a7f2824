"""The data of a report's page: columns of plain values, short for large programs."""

from collections.abc import Sequence
from typing import TypeAlias, Union

from wrapperir.report.text import LARGEST
from wrapperir.report.timeline import (
    BufferKind,
    MemoryReport,
    MemoryTimeline,
    ProgramTimeline,
    TimelineBuffer,
    TimelinePool,
    at_peak,
)
from wrapperir.report.visible import visible

Data: TypeAlias = Union[str, int, list["Data"], dict[str, "Data"], list[int], list[str]]


def page_data(report: MemoryReport) -> dict[str, Data]:
    """Return what the page's script draws; kinds are positions in ``BufferKind``."""
    kinds = [kind.value for kind in BufferKind]
    counted = [int(kind.counted) for kind in BufferKind]
    return {
        "kinds": kinds,
        "counted": counted,
        "versions": [_version(v) for v in report.versions],
    }


def _version(version: ProgramTimeline) -> Data:
    return {
        "label": visible(version.label),
        "numbers": [line.number for line in version.lines],
        "texts": [visible(line.text) for line in version.lines],
        "depths": [line.depth for line in version.lines],
        "memories": [_memory(memory) for memory in version.memories],
    }


def _memory(memory: MemoryTimeline) -> Data:
    positions = {id(buffer): i for i, buffer in enumerate(memory.buffers)}
    return {
        "name": visible(memory.memory),
        "live": list(memory.live),
        "held": list(memory.held),
        "uncounted": list(memory.uncounted),
        "peak": memory.peak,
        "peakLine": memory.peak_line,
        "lowerBound": memory.lower_bound,
        "largest": [positions[id(buffer)] for buffer in at_peak(memory)[:LARGEST]],
        "buffers": _buffers(memory.buffers),
        "pools": _pools(memory.pools),
    }


def _buffers(buffers: Sequence[TimelineBuffer]) -> Data:
    kinds = list(BufferKind)
    return {
        "name": [visible(b.name) for b in buffers],
        "also": [visible(", ".join(f"%{n}" for n in b.aliases)) for b in buffers],
        "kind": [kinds.index(b.kind) for b in buffers],
        "type": [visible(b.type) for b in buffers],
        "size": [b.size for b in buffers],
        "begin": [b.begin for b in buffers],
        "end": [b.end for b in buffers],
        "address": [b.address for b in buffers],
        "place": [_place(b) for b in buffers],
        "line": [-1 if b.line is None else b.line for b in buffers],
        "writer": [-1 if b.writer is None else b.writer for b in buffers],
        "from": [visible(b.provenance) for b in buffers],
    }


def _place(buffer: TimelineBuffer) -> str:
    if buffer.pool is None:
        return ""
    return f"byte {buffer.offset:,} of %{visible(buffer.pool)}"


def _pools(pools: Sequence[TimelinePool]) -> Data:
    return {
        "name": [visible(p.name) for p in pools],
        "size": [p.size for p in pools],
        "begin": [p.begin for p in pools],
        "end": [p.end for p in pools],
        "address": [p.address for p in pools],
        "line": [p.line for p in pools],
    }
