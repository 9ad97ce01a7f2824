"""Where lines come from: nodes of the traced graph, operators, places in the source."""

import re
from collections.abc import Iterable
from typing import Any, TypeAlias

from wrapperir.ir.line import Provenance, SourceLocation

_FRAME = re.compile(r'File "([^"\n]+)", line (\d+)')

Facts: TypeAlias = dict[Any, tuple[str | None, SourceLocation | None]]
"""Operator and place of each node of the traced graph that was asked for."""


def provenance_of(origins: Iterable[Any], known: Facts) -> Provenance | None:
    """Return the provenance of what was made from these nodes of the traced graph.

    The operator is given where they agree on one, the place is that of the first.
    """
    nodes = [node for node in origins if node.op == "call_function"]
    if not nodes:
        return None
    facts = [known.get(node) or _find_facts(node, known) for node in nodes]
    operators = {operator for operator, _ in facts if operator}
    return Provenance(
        nodes=tuple([node.name for node in nodes]),
        operator=operators.pop() if len(operators) == 1 else None,
        location=next((location for _, location in facts if location), None),
    )


def _find_facts(node: Any, known: Facts) -> tuple[str | None, SourceLocation | None]:
    original = node.meta.get("original_aten")
    trace = node.meta.get("stack_trace") or ""
    # The innermost frame is the last; traces run to many frames.
    frame = _FRAME.match(trace, trace.rfind('File "')) if trace else None
    location = None if frame is None else SourceLocation(frame[1], int(frame[2]))
    known[node] = facts = (None if original is None else str(original), location)
    return facts
