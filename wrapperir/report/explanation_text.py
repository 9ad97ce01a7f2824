"""Explanations as text and as JSON."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from attrs import field, frozen

from wrapperir.analysis.line_traffic import LineTraffic
from wrapperir.ir import NodeOrigin, SourcePlace
from wrapperir.report.copies import CopyReason
from wrapperir.report.equal_lines import join_modules, layer_pattern
from wrapperir.report.explained_parts import (
    ExplainedLine,
    ExplainedNode,
    Explanation,
    SubjectKind,
)
from wrapperir.report.model_parameters import ModelParameter
from wrapperir.report.text import counted, format_bytes, visible
from wrapperir.text import format_type

_MOST = 6
"""Names of nodes that a line of the text shows."""

_DEEPEST = 60
"""Calls within calls that are indented further."""

_TITLES = {
    SubjectKind.PROGRAM: "the kernels and calls of",
    SubjectKind.PLACE: "what became of",
    SubjectKind.MODULE: "what became of module",
    SubjectKind.NODE: "what became of node",
    SubjectKind.KERNEL: "where kernel {} came from",
    SubjectKind.BUFFER: "where buffer {} came from, and its uses",
}


def format_explanation(explanation: Explanation) -> str:
    """Return an explanation as text for people."""
    return "".join(f"{line}\n" for line in _rows(explanation))


def _rows(explanation: Explanation) -> Iterator[str]:
    title = _TITLES[explanation.kind]
    subject = visible(explanation.subject)
    if explanation.kind is SubjectKind.PROGRAM:
        subject = f"@{subject}"
    yield title.format(subject) if "{}" in title else f"{title} {subject}"
    counts = (
        counted(len(explanation.lines), "line"),
        counted(len(explanation.kernels), "kernel"),
        counted(len(explanation.nodes), "node"),
    )
    held = counted(len(explanation.parameters), "parameter")
    yield ", ".join((*counts, held) if explanation.parameters else counts)
    if explanation.parameters:
        yield ""
        yield "parameters:"
        yield from _parameter_rows(explanation.parameters)
    if explanation.lines:
        yield ""
        yield "lines:"
    yield from line_rows(explanation.lines)
    if explanation.nodes:
        yield ""
        yield "source:"
        yield from source_rows(explanation.nodes)


def _parameter_rows(parameters: Iterable[ModelParameter]) -> Iterator[str]:
    """Yield a row for each parameter, with equal ones of later layers."""
    found: dict[object, list[ModelParameter]] = {}
    for each in parameters:
        patterns = tuple(map(layer_pattern, each.paths))
        key = patterns, each.type, each.mutated
        found.setdefault(key, []).append(each)
    for equal in found.values():
        first = equal[0]
        mutated = "mutated " if first.mutated else ""
        paths = visible(join_modules(each.path for each in equal))
        times = f", {len(equal)} times" if len(equal) > 1 else ""
        tied = f", tied to {visible(', '.join(first.tied))}" if first.tied else ""
        yield f"  {paths}{times}{tied}: %{first.name}: {mutated}{format_type(first.type)}"


def line_rows(lines: Iterable[ExplainedLine]) -> Iterator[str]:
    """Yield lines in order as text, with later ones that do the same for equal layers."""
    found: dict[object, list[ExplainedLine]] = {}
    for line in lines:
        found.setdefault((line.equal_to or line, line.does), []).append(line)
    for equal in found.values():
        yield from _rows_of_equal(equal)


def _rows_of_equal(equal: list[ExplainedLine]) -> Iterator[str]:
    line, *others = equal
    does = f"{' and '.join(line.does)}: " if line.does else ""
    number = "" if line.number is None else f"{line.number}: "
    yield f"  {number}{does}{visible(line.text)}"
    if others:
        modules = join_modules(path for x in equal for path in x.modules)
        where = f", in {visible(modules)}" if modules else ""
        numbers = listed(tuple(f"{each.number}" for each in others if each.number))
        yield f"      {len(equal)} times{where}; also {numbers}"
    if line.nodes:
        yield f"      from {listed(line.nodes)}"
    if line.others:
        yield f"      fused with {listed(line.others)}"
    if line.traffic is not None:
        yield f"      {_traffic_words(line.traffic)}"
    for copy in line.copies:
        yield f"      {''.join(_copy_words(copy))}"
    for read in line.read_copies:
        of = f" of {_values(read.sources)}" if read.sources else ""
        yield f"      reads a copy{of} in {_values(read.values)}, made by line {read.line}"
    if line.by_frontend:
        yield "      reuse chosen by the frontend, not by a pass"
    if line.passes:
        yield f"      by {', '.join(line.passes)}"


def _traffic_words(traffic: LineTraffic) -> str:
    read, written = map(format_bytes, (traffic.read, traffic.written))
    of = "" if traffic.touched else ", of whole values"
    return f"reads {read}, writes {written}{of}"


def _copy_words(copy: CopyReason) -> Iterator[str]:
    """Yield what a line copies to where, what for, and what it does beside that."""
    to = f" to {_values(copy.values)}" if copy.values else ""
    if copy.values == (copy.part_of,):
        to = f" to a part of %{copy.part_of}"
    elif copy.part_of is not None:
        to += f", a part of %{copy.part_of}"
    views = f" through {listed(copy.views)}" if copy.views else ""
    is_stored_twice = copy.sources and not copy.whole
    if copy.whole:
        yield f"copies {_values(copy.sources) or 'what it reads'}{views}{to}"
    elif is_stored_twice:
        yield f"writes what it computes for {_values(copy.sources)}{views}{to} too"
        yield ", without reading it again"
    else:
        yield f"writes what it computes{to} as {listed(copy.nodes)} lays it out"
        yield ", without a copy"
        yield f", and reads{views}" if views else ""
    if copy.layouts:
        yield f", from {' and '.join(copy.layouts[:-1])} to {copy.layouts[-1]}"
    if copy.bytes is not None:
        yield f", {format_bytes(copy.bytes)}"
    if copy.nodes and (copy.whole or is_stored_twice):
        yield f", for {listed(copy.nodes)}"
    if copy.readers:
        numbers = listed(tuple(map(str, copy.readers)))
        yield f", read by line{'s'[: len(copy.readers) > 1]} {numbers}"
    if copy.returned:
        yield ", returned"
    if copy.fused:
        yield f"; fused with {listed(copy.fused)}"


def _values(names: Iterable[str]) -> str:
    return listed(tuple(f"%{name}" for name in names))


def listed(names: tuple[str, ...]) -> str:
    """Return names of nodes, and how many more there are."""
    shown, more = names[:_MOST], len(names) - _MOST
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


@frozen
class _SourceTree:
    """The places that one place calls, and the nodes that it makes itself.

    ``nodes`` has nodes by operator and module, with those of equal layers.
    """

    called: dict[SourcePlace, "_SourceTree"] = field(factory=dict[SourcePlace, Any])
    nodes: dict[object, list[NodeOrigin]] = field(factory=dict[object, list[NodeOrigin]])

    @classmethod
    def of(cls, nodes: Iterable[ExplainedNode]) -> "_SourceTree":
        """Return the tree of the stacks of nodes."""
        root = cls()
        for node in nodes:
            tree, origin = root, node.origin
            for place in node.stack:
                tree = tree.called.setdefault(place, cls())
            module = origin.module and layer_pattern(origin.module)
            tree.nodes.setdefault((origin.operator, module), []).append(origin)
        return root


def source_rows(nodes: Iterable[ExplainedNode]) -> Iterator[str]:
    """Yield each place with the nodes that it makes, then those that it calls."""
    waiting: list[tuple[str, _SourceTree, int]] = [("", _SourceTree.of(nodes), 0)]
    while waiting:
        place, tree, depth = waiting.pop()
        indent = "  " * min(depth, _DEEPEST)
        if place:
            yield indent + place
        for equal in tree.nodes.values():
            yield f"{indent}  {_format_nodes(equal)}"
        waiting += [
            (_format_place(called), inner, depth + 1)
            for called, inner in reversed(tree.called.items())
        ]


def _format_nodes(nodes: Sequence[NodeOrigin]) -> str:
    """Return nodes of one operator as text: of equal layers, those of the first."""
    first = nodes[0]
    names = ", ".join(each.name for each in nodes if each.module == first.module)
    operator = "" if first.operator is None else f" ({visible(first.operator)})"
    if first.module is None:
        return names + operator
    modules = dict.fromkeys(each.module for each in nodes if each.module is not None)
    times = f", {len(modules)} times" if len(modules) > 1 else ""
    return f"{names}{operator} in {visible(join_modules(modules))}{times}"


def _format_place(place: SourcePlace) -> str:
    function = "" if place.function is None else f", in {visible(place.function)}"
    return f"{visible(place.file)}:{place.line}{function}"


def format_explanation_json(explanation: Explanation) -> str:
    """Return an explanation as a JSON object, on several lines."""
    document = {
        "program": explanation.program,
        "kind": explanation.kind.value,
        "subject": explanation.subject,
        "kernels": explanation.kernels,
        "parameters": [_parameter_object(each) for each in explanation.parameters],
        "lines": [line_object(line) for line in explanation.lines],
        "nodes": [node_object(node) for node in explanation.nodes],
    }
    return json.dumps(document, indent=2) + "\n"


def _parameter_object(parameter: ModelParameter) -> dict[str, object]:
    return {
        "name": parameter.name,
        "path": parameter.path,
        "type": format_type(parameter.type),
        "mutated": parameter.mutated,
        "tied": parameter.tied,
    }


def line_object(line: ExplainedLine) -> dict[str, object]:
    """Return a line as the object that JSON has."""
    return {
        "line": line.number,
        "text": line.text,
        "nodes": line.nodes,
        "fused_with": line.others,
        "passes": line.passes,
        "kernel": line.kernel,
        "values": line.values,
        "does": line.does,
        "modules": line.modules,
        "equal_to": line.equal_to,
        "read_bytes": None if line.traffic is None else line.traffic.read,
        "written_bytes": None if line.traffic is None else line.traffic.written,
        "touched": line.traffic is not None and line.traffic.touched,
        "reuse_by_frontend": line.by_frontend,
        "copies": [
            {
                "values": copy.values,
                "views": copy.views,
                "readers": copy.readers,
                "whole": copy.whole,
                "nodes": copy.nodes,
                "sources": copy.sources,
                "layouts": copy.layouts,
                "part_of": copy.part_of,
                "bytes": copy.bytes,
                "fused_with": copy.fused,
                "returned": copy.returned,
            }
            for copy in line.copies
        ],
        "read_copies": [
            {"line": read.line, "values": read.values, "sources": read.sources}
            for read in line.read_copies
        ],
    }


def node_object(node: ExplainedNode) -> dict[str, object]:
    """Return a node as the object that JSON has."""
    return {
        "name": node.origin.name,
        "operator": node.origin.operator,
        "module": node.origin.module,
        "stack": [
            {"file": place.file, "line": place.line, "function": place.function}
            for place in node.stack
        ],
    }
