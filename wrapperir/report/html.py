"""Writes a memory report as one page that needs no network.

The page's data is JSON in an element that no browser runs; its script writes text only as
text.  A content security policy lets nothing run or load but the page's own style and
script, by their hashes.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib import resources
from typing import TypeAlias, Union

from wrapperir.report.text import LARGEST, UNCOUNTED, format_bytes, summary, visible
from wrapperir.report.timeline import (
    BufferKind,
    MemoryReport,
    MemoryTimeline,
    ProgramTimeline,
    TimelineBuffer,
    TimelinePool,
    at_peak,
)

_Data: TypeAlias = Union[str, int, list["_Data"], dict[str, "_Data"], list[int], list[str]]

_SCRIPTS = ("format.js", "charts.js", "listing.js", "page.js")


def format_html(report: MemoryReport) -> str:
    """Return the page.  Jinja2 is loaded here."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    style = _part("page.css")
    script = "\n".join(_part(name) for name in _SCRIPTS)
    environment = Environment(
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    template = environment.from_string(_part("page.html.j2"))
    return template.render(
        report=report,
        summary=summary,
        uncounted=UNCOUNTED,
        format_bytes=format_bytes,
        kinds=list(enumerate(BufferKind)),
        style=Markup(style),  # noqa: S704  # parts of this package, not of the program
        style_hash=_hash(style),
        script=Markup(script),  # noqa: S704
        script_hash=_hash(script),
        data=Markup(_in_element(_page_data(report))),  # noqa: S704
    )


def _shown(value: object) -> object:
    """Return what a template writes of a value; markup is of this package alone."""
    return value if hasattr(value, "__html__") else visible(str(value))


def _part(name: str) -> str:
    return resources.files("wrapperir.report").joinpath("page", name).read_text("utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _in_element(data: object) -> str:
    """Return JSON that neither ends the element it is in nor begins a comment."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _page_data(report: MemoryReport) -> dict[str, _Data]:
    """Return what the page's script draws; kinds are positions in ``BufferKind``."""
    return {
        "kinds": [kind.value for kind in BufferKind],
        "counted": [int(kind.counted) for kind in BufferKind],
        "versions": [_version(version) for version in report.versions],
    }


def _version(version: ProgramTimeline) -> _Data:
    return {
        "label": visible(version.label),
        "numbers": [line.number for line in version.lines],
        "texts": [visible(line.text) for line in version.lines],
        "depths": [line.depth for line in version.lines],
        "memories": [_memory(memory) for memory in version.memories],
    }


def _memory(memory: MemoryTimeline) -> _Data:
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
        "lowerBound": memory.lower_bound,
        "largest": [positions[id(buffer)] for buffer in at_peak(memory)[:LARGEST]],
        "buffers": {
            **_columns(buffers, "name", "type", "size", "begin", "end", "address"),
            **_columns(buffers, "line", "writer", "provenance"),
            "also": [visible(", ".join(f"%{n}" for n in b.aliases)) for b in buffers],
            "kind": [kinds.index(b.kind) for b in buffers],
            "place": [_place(b) for b in buffers],
        },
        "pools": _columns(memory.pools, "name", "size", "begin", "end", "address", "line"),
    }


def _columns(
    items: Sequence[TimelineBuffer | TimelinePool], *fields: str
) -> dict[str, _Data]:
    """Return the values of each field in a list; ``None`` becomes -1."""
    return {field: [_cell(getattr(item, field)) for item in items] for field in fields}


def _cell(value: str | int | None) -> _Data:
    if isinstance(value, str):
        return visible(value)
    return -1 if value is None else value


def _place(buffer: TimelineBuffer) -> str:
    if buffer.pool is None:
        return ""
    return f"byte {buffer.offset:,} of %{visible(buffer.pool)}"
