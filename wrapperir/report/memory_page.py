"""Writes a memory report as one page that needs no network."""

from collections.abc import Sequence

from wrapperir.report.offline_page import PageData, PagePart, format_page
from wrapperir.report.text import LARGEST, UNCOUNTED, format_bytes, summary, visible
from wrapperir.report.timeline import (
    BufferKind,
    MemoryReport,
    MemoryTimeline,
    ProgramTimeline,
    TimelineBuffer,
    TimelinePool,
    TimelineValue,
    at_peak,
)


def format_html(report: MemoryReport) -> str:
    """Return the page.  Jinja2 is loaded here."""
    names = ("format.js", "charts.js", "rows.js", "tooltip.js", "listing.js", "memory.js")
    return format_page(
        PagePart("memory.html.j2"),
        styles=[PagePart("base.css"), PagePart("memory.css")],
        scripts=[PagePart(name) for name in names],
        data=_page_data(report),
        report=report,
        summary=summary,
        uncounted=UNCOUNTED,
        format_bytes=format_bytes,
        kinds=buffer_kinds(),
    )


def _page_data(report: MemoryReport) -> dict[str, PageData]:
    """Return what the page's script draws; kinds are positions in ``BufferKind``."""
    return {
        **kind_data(),
        "versions": [version_data(version) for version in report.versions],
    }


def buffer_kinds() -> list[tuple[int, BufferKind]]:
    """Return the kinds of buffers for the legend of a map, numbered."""
    return list(enumerate(BufferKind))


def kind_data() -> dict[str, PageData]:
    """Return the kinds of buffers, and whether a call takes memory of each."""
    return {
        "kinds": [kind.value for kind in BufferKind],
        "counted": [int(kind.counted) for kind in BufferKind],
        "uncounted": UNCOUNTED,
    }


def version_data(version: ProgramTimeline) -> PageData:
    """Return a version's lines and memories, as the charts draw them."""
    return {
        "label": visible(version.label),
        "numbers": [line.number for line in version.lines],
        "texts": [visible(line.text) for line in version.lines],
        "depths": [line.depth for line in version.lines],
        "memories": [_memory(memory) for memory in version.memories],
    }


def _memory(memory: MemoryTimeline) -> PageData:
    buffers = memory.buffers
    positions = {id(buffer): i for i, buffer in enumerate(buffers)}
    kinds = list(BufferKind)
    return {
        "name": visible(memory.memory),
        "live": list(memory.live),
        "held": list(memory.held),
        "uncounted": list(memory.uncounted),
        "peak": memory.peak,
        "peakLine": memory.peak_line,
        "peakRise": list(memory.peak_rise) if memory.peak else [],
        "lowerBound": memory.lower_bound,
        "largest": [positions[id(buffer)] for buffer in at_peak(memory)[:LARGEST]],
        "buffers": {
            **_columns(buffers, "name", "type", "size", "begin", "end", "address"),
            **_columns(buffers, "line", "writer", "provenance"),
            "also": [visible(", ".join(f"%{n}" for n in b.aliases)) for b in buffers],
            "reuses": [
                _columns(b.reuses, "line", "name", "type", "writer", "provenance")
                if b.reuses
                else None
                for b in buffers
            ],
            "kind": [kinds.index(b.kind) for b in buffers],
            "place": [_place(b) for b in buffers],
        },
        "pools": _columns(memory.pools, "name", "size", "begin", "end", "address", "line"),
    }


def _columns(
    items: Sequence[TimelineBuffer | TimelinePool | TimelineValue], *fields: str
) -> dict[str, PageData]:
    """Return the values of each field in a list; ``None`` becomes -1."""
    return {field: [_cell(getattr(item, field)) for item in items] for field in fields}


def _cell(value: str | int | None) -> PageData:
    if isinstance(value, str):
        return visible(value)
    return -1 if value is None else value


def _place(buffer: TimelineBuffer) -> str:
    if buffer.pool is None:
        return ""
    return f"byte {buffer.offset:,} of %{visible(buffer.pool)}"
