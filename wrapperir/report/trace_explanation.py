"""Where the kernels in a trace of torch.profiler came from, as text and as JSON."""

import json
from collections.abc import Iterator, Mapping

from attrs import frozen

from wrapperir.diagnostics import LinePath, Position
from wrapperir.ir import Program
from wrapperir.ir.blocks import called_names
from wrapperir.report.explained_parts import Explanation
from wrapperir.report.explanation import explain_kernels
from wrapperir.report.explanation_text import (
    line_object,
    line_rows,
    node_object,
    source_rows,
)
from wrapperir.report.profile_text import format_ns
from wrapperir.report.text import counted
from wrapperir.report.traced_kernels import (
    TracedKernel,
    kernels_of_trace,
    with_multi_kernels,
)


@frozen
class TraceExplanation:
    """The kernels of a program in a trace, the slowest first, and where they came from.

    ``absent`` are the called kernels that have no event.
    """

    program: str
    kernels: tuple[tuple[TracedKernel, Explanation], ...]
    absent: tuple[str, ...]


def explain_trace(
    program: Program, positions: Mapping[LinePath, Position], trace: str
) -> TraceExplanation:
    """Return what the kernels in a trace, the text of a file, came from.

    Raises:
        ValueError: it is not a trace in Chrome's JSON format.
    """
    kernels = kernels_of_trace(program, trace)
    explained = explain_kernels(program, positions, [each.names for each in kernels])
    seen = {name for kernel in kernels for name in kernel.names}
    unseen = called_names(program) - with_multi_kernels(program, seen)
    return TraceExplanation(
        program=program.name,
        kernels=tuple(zip(kernels, explained, strict=True)),
        absent=tuple(x.name for x in program.definitions if x.name in unseen),
    )


def format_trace_explanation(explanation: TraceExplanation) -> str:
    """Return the kernels in a trace, with their lines and source, as text for people."""
    return "".join(f"{row}\n" for row in _rows(explanation))


def _rows(explanation: TraceExplanation) -> Iterator[str]:
    kernels = [kernel for kernel, _ in explanation.kernels]
    total = sum(kernel.ns for kernel in kernels)
    yield f"kernels of @{explanation.program} in the trace"
    events = counted(sum(each.events for each in kernels), "event")
    yield f"{counted(len(kernels), 'kernel')}, {events}, {format_ns(total)}"
    for kernel, found in explanation.kernels:
        share = f"{kernel.ns / total:.0%}, " if total else ""
        names = " or ".join(f"@{name}" for name in kernel.names)
        yield ""
        yield f"{format_ns(kernel.ns)}, {share}{counted(kernel.events, 'event')}: {names}"
        yield from line_rows(found.lines)
        yield from source_rows(found.nodes)
    if explanation.absent:
        yield ""
        yield f"not in the trace: {', '.join(f'@{name}' for name in explanation.absent)}"


def format_trace_explanation_json(explanation: TraceExplanation) -> str:
    """Return the kernels in a trace as a JSON object, on several lines."""
    document = {
        "program": explanation.program,
        "kernels": [
            {
                "names": kernel.names,
                "events": kernel.events,
                "ns": kernel.ns,
                "host_ns": round(kernel.host_ns),
                "device_ns": round(kernel.device_ns) if kernel.device_events else None,
                "lines": [line_object(line) for line in found.lines],
                "nodes": [node_object(node) for node in found.nodes],
            }
            for kernel, found in explanation.kernels
        ],
        "absent": explanation.absent,
    }
    return json.dumps(document, indent=2) + "\n"
