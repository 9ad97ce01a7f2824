"""Writes a linked program as one page that needs no network."""

from collections.abc import Iterable, Sequence
from typing import cast

from attrs import fields_dict, frozen

from wrapperir.report import (
    MemoryChange,
    MemoryReport,
    PageData,
    PagePart,
    buffer_kinds,
    format_page,
    kind_data,
    version_data,
    visible,
)
from wrapperir.view.links import (
    CodeFile,
    EmittedCode,
    LinkedCopy,
    LinkedKernel,
    LinkedLine,
    LinkedNode,
    LinkedParameter,
    LinkedPlace,
    LinkedProgram,
    LinkedValue,
    ShownDecision,
    ShownFile,
)
from wrapperir.view.pass_steps import DiffRow, PassStep

_PANELS = {
    "source": "Source",
    "program": "Program",
    "code": "Code",
    "kernels": "Kernels",
    "graph": "Graph",
    "memory": "Memory",
    "passes": "Passes",
    "decisions": "Decisions",
    "details": "Details",
}
_SHARED = ("format.js", "charts.js", "rows.js", "tooltip.js")
_PRISM = ("core", "clike", "c", "cpp", "python")
_OWN = (
    *("highlight.js", "layers.js", "links.js", "texts.js", "code_pane.js"),
    *("target_list.js", "lists.js", "moving_canvas.js", "graph_drawing.js"),
    *(
        "memory_pane.js",
        "memory_changes.js",
        "passes_pane.js",
        "decisions.js",
        "copies.js",
        "alive_values.js",
        "details.js",
        "searched_texts.js",
        "search.js",
        "view.js",
    ),
)
_TAB = 4
"""Columns of a tab, which becomes spaces."""


@frozen(kw_only=True)
class ProgramView:
    """What a page shows: a program with its links, and its memory in one version.

    ``source`` says where the program is from, and ``reused`` is the memory that its
    frontend chose to reuse.  ``decisions`` are those of the lowering, and ``steps`` the
    passes that ran after it.
    """

    source: str
    program: LinkedProgram
    memory: MemoryReport
    reused: tuple[MemoryChange, ...] = ()
    decisions: tuple[ShownDecision, ...] = ()
    steps: tuple[PassStep, ...] = ()


def format_view(view: ProgramView) -> str:
    """Return the page.  Jinja2 is loaded here."""
    own = "wrapperir.view"
    prism = [PagePart(f"prism/prism-{name}.min.js", own) for name in _PRISM]
    return format_page(
        PagePart("view.html.j2", own),
        styles=[PagePart("base.css"), PagePart("view.css", own)],
        scripts=[
            *(PagePart(name) for name in _SHARED),
            *(PagePart("prism_manual.js", own), *prism),
            PagePart("dagre/dagre.min.js", own),
            *(PagePart(name, own) for name in _OWN),
        ],
        data=_page_data(view),
        name=view.program.name,
        source=view.source,
        panels=[each for each in _PANELS.items() if each[0] not in _left_out(view)],
        kinds=buffer_kinds(),
    )


def _left_out(view: ProgramView) -> set[str]:
    """Return the panels that would be empty."""
    sizes = {"passes": len(view.steps), "decisions": len(view.decisions)}
    return {name for name, size in sizes.items() if not size}


def _page_data(view: ProgramView) -> PageData:
    program = view.program
    text = _rows(program.text)
    begin = next((n for n, row in enumerate(text) if row.startswith("program ")), 0)
    return {
        "text": text,
        "begin": begin,
        "lines": _columns(LinkedLine, program.lines),
        "operators": _operators(program.lines),
        "nodes": _columns(LinkedNode, program.nodes),
        "places": _columns(LinkedPlace, program.places),
        "kernels": _columns(LinkedKernel, program.kernels),
        "copies": _columns(LinkedCopy, program.copies),
        "values": _columns(LinkedValue, program.values),
        "parameters": _columns(LinkedParameter, program.parameters),
        "files": [_file(each) for each in program.files],
        "codes": [_code(each) for each in program.codes],
        **kind_data(),
        "decisions": _columns(ShownDecision, view.decisions),
        "reused": _changes(view.reused),
        "steps": [_step(each) for each in view.steps],
        "memory": version_data(view.memory.versions[-1]),
    }


def _columns(kind: type, items: Sequence[object]) -> dict[str, PageData]:
    """Return the values of each field of the items in a list."""
    return {
        name: [_cell(getattr(item, name)) for item in items] for name in fields_dict(kind)
    }


def _cell(value: object) -> PageData:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, tuple):
        return [_cell(each) for each in cast(tuple[object, ...], value)]
    assert value is None or isinstance(value, int)
    return value


def _operators(lines: Iterable[LinkedLine]) -> PageData:
    """Return the operators that lines call, and the lines that call each."""
    calls: dict[str, list[int]] = {}
    for index, line in enumerate(lines):
        if line.operator is not None:
            calls.setdefault(line.operator, []).append(index)
    return {"name": [visible(name) for name in calls], "calls": list(calls.values())}


def _file(file: ShownFile) -> PageData:
    lines: list[PageData] = [_row(line) for line in file.lines]
    missing = None if file.missing is None else visible(file.missing)
    return {"path": visible(file.path), "lines": lines, "missing": missing}


def _code(code: EmittedCode) -> PageData:
    return {
        "emitter": visible(code.emitter),
        "files": [_code_file(file) for file in code.files],
        "refusals": [visible(reason) for reason in code.refusals],
    }


def _code_file(file: CodeFile) -> PageData:
    ranges: list[PageData] = [
        [x.begin, x.end, x.line, x.kernel, x.nodes, x.others, x.source] for x in file.ranges
    ]
    return {"path": visible(file.path), "text": _rows(file.text), "ranges": ranges}


def _step(step: PassStep) -> PageData:
    return {
        "call": visible(step.call),
        "rows": _columns(DiffRow, step.rows),
        "added": step.added,
        "removed": step.removed,
        "lines": step.lines,
        "peaks": [[visible(name), peak] for name, peak in step.peaks],
        "removedValues": list(step.removed_values),
        "addedValues": list(step.added_values),
        "memory": _changes(step.memory),
    }


def _changes(changes: Sequence[MemoryChange]) -> PageData:
    return {
        "value": [each.value for each in changes],
        "kind": [each.kind.value for each in changes],
        "text": [each.text for each in changes],
        "bytes": [each.bytes for each in changes],
    }


def _rows(text: str) -> list[str]:
    return [_row(line) for line in text.split("\n")]


def _row(line: str) -> str:
    return visible(line.removesuffix("\r").expandtabs(_TAB))
