"""Why a line of a program copies a value: the views that it copies, and who reads that."""

from collections.abc import Mapping

from attrs import frozen

from wrapperir.ir import (
    BodyLine,
    ExternKernelLine,
    KernelCallLine,
    NodeOrigin,
    OriginTable,
    Program,
)
from wrapperir.report.line_flow import LineFlow

_COPIES = frozenset({"clone", "contiguous", "copy", "copy_"})
_VIEWS = frozenset(
    {
        *("alias", "as_strided", "chunk", "detach", "diagonal", "expand", "expand_as"),
        *("flatten", "movedim", "narrow", "numpy_T", "permute", "reshape", "select"),
        *("slice", "split", "split_with_sizes", "squeeze", "swapaxes", "swapdims", "t"),
        *("tensor_split", "transpose", "unbind", "unflatten", "unfold", "unsqueeze"),
        *("unsafe_chunk", "unsafe_split", "view", "view_as", "_reshape_alias"),
        *("_unsafe_view", "adjoint", "mT", "mH"),
    }
)


@frozen
class CopyReason:
    """A copy that a line makes.

    ``nodes`` are those that copy, or whose arguments are copied for them; ``views`` the
    nodes whose views are copied, in the order of the graph; ``readers`` the lines that read
    the copy.  A line that is ``whole`` does nothing else.
    """

    nodes: tuple[str, ...]
    views: tuple[str, ...]
    readers: tuple[int, ...]
    whole: bool


def copy_reasons(program: Program, flow: LineFlow) -> Mapping[int, CopyReason]:
    """Return why lines copy, by their indices, as far as operators of their nodes tell.

    A kernel copies if one of its nodes is a clone, if all are views, or if all others are
    computed by an operator that reads what it writes.
    """
    table = OriginTable(program)
    order = {origin.name: index for index, origin in enumerate(program.origins)}
    readers = flow.readers()
    found: dict[int, CopyReason] = {}
    for index, line in enumerate(flow.lines):
        if not isinstance(line, KernelCallLine | ExternKernelLine):
            continue
        nodes = table.of(line.provenance)
        views = [node for node in nodes if operation(node) in _VIEWS]
        others = [node for node in nodes if operation(node) not in _VIEWS]
        copies = [node for node in others if operation(node) in _COPIES]
        if isinstance(line, KernelCallLine) and nodes and not copies:
            called = _called_by(flow, readers[index])
            if all(node.name in called for node in others):
                copies = others or views
        if not copies:
            continue
        through = (
            node for line in flow.views[index] for node in _origins(flow.lines[line])
        )
        by_name = table.by_name
        viewed = {name for name in through if _is_view(by_name.get(name))}
        viewed.update(node.name for node in views)
        viewed.difference_update(node.name for node in copies)
        found[index] = CopyReason(
            nodes=tuple(node.name for node in copies),
            views=tuple(sorted(viewed, key=lambda name: order.get(name, len(order)))),
            readers=tuple(readers[index]),
            whole=not {node.name for node in others} - {node.name for node in copies},
        )
    return found


def operation(node: NodeOrigin) -> str:
    """Return the name of a node's operator without namespace and overload."""
    parts = (node.operator or "").split(".")
    return parts[1] if len(parts) > 1 else ""


def _is_view(node: NodeOrigin | None) -> bool:
    return node is not None and operation(node) in _VIEWS


def _origins(line: BodyLine) -> tuple[str, ...]:
    return () if line.provenance is None else line.provenance.origins


def _called_by(flow: LineFlow, readers: list[int]) -> set[str]:
    """Return the nodes of the operator calls among lines."""
    calls = (flow.lines[line] for line in readers)
    return {
        x for line in calls if isinstance(line, ExternKernelLine) for x in _origins(line)
    }
