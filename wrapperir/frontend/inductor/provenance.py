"""Where lines come from: nodes of the traced graph, operators, places in the source."""

from collections.abc import Iterable
from typing import Any, TypeAlias

from wrapperir.frontend.source_places import user_location
from wrapperir.ir.line import Provenance, SourceLocation

Facts: TypeAlias = dict[Any, tuple[str | None, SourceLocation | None]]
"""Operator and place of each node of the traced graph that was asked for."""


def provenance_of(origins: Iterable[Any], known: Facts) -> Provenance | None:
    """Return the provenance of what was made from these nodes of the traced graph.

    Operator and place are those of the first node that has one: of a call to an operator
    that is the one that was lowered, before those that were fused into it.
    """
    nodes = [node for node in origins if node.op == "call_function"]
    if not nodes:
        return None
    facts = [known.get(node) or _find_facts(node, known) for node in nodes]
    return Provenance(
        nodes=tuple([node.name for node in nodes]),
        operator=next((operator for operator, _ in facts if operator), None),
        location=next((location for _, location in facts if location), None),
    )


def _find_facts(node: Any, known: Facts) -> tuple[str | None, SourceLocation | None]:
    original = node.meta.get("original_aten")
    location = user_location(node.meta.get("stack_trace"))
    known[node] = facts = (None if original is None else str(original), location)
    return facts
