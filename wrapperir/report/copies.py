"""Why a line of a program copies a value: the views that it copies, and who reads that."""

from collections.abc import Iterable, Iterator, Mapping

from attrs import frozen

from wrapperir.ir import (
    ExternKernelLine,
    KernelCallLine,
    NodeOrigin,
    OriginTable,
    Program,
)
from wrapperir.report.line_flow import LineFlow, LineWrite, origins_of

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

    ``values`` are what it writes the copy to, ``nodes`` those that copy, or whose arguments
    are copied for them; ``views`` the nodes whose views are copied, in the order of the
    graph; ``readers`` the lines that read the copy.  What is ``whole`` is only a copy.
    """

    values: tuple[str, ...]
    nodes: tuple[str, ...]
    views: tuple[str, ...]
    readers: tuple[int, ...]
    whole: bool


def copy_reasons(program: Program, flow: LineFlow) -> Mapping[int, tuple[CopyReason, ...]]:
    """Return why lines copy, by their indices, as far as operators of their nodes tell.

    A kernel copies if a value that it writes is what a clone returns, if all its nodes are
    views, or if all others are computed by an operator that reads what it writes.  A clone
    that other nodes of the value compute with is not in memory.  A kernel of several loops
    may have several reasons: its values of the same nodes have one.
    """
    finder = _CopyFinder(program, flow)
    found: dict[int, tuple[CopyReason, ...]] = {}
    for index, line in enumerate(flow.lines):
        if isinstance(line, KernelCallLine | ExternKernelLine):
            reasons = tuple(finder.reasons(index))
            if reasons:
                found[index] = reasons
    return found


class _CopyFinder:
    """Finds the reasons of the copies that lines make."""

    def __init__(self, program: Program, flow: LineFlow) -> None:
        """Find the readers of what lines write."""
        self._flow = flow
        self._table = OriginTable(program)
        self._order = {x.name: index for index, x in enumerate(program.origins)}
        self._readers = flow.readers()

    def reasons(self, index: int) -> Iterator[CopyReason]:
        """Yield the reasons of a line, for each list of nodes that it writes values for."""
        groups: dict[tuple[str, ...], list[LineWrite]] = {}
        for value in self._flow.writes[index]:
            groups.setdefault(value.origins, []).append(value)
        for origins, values in groups.items():
            reason = self._reason(index, origins, values)
            if reason is not None:
                yield reason

    def _reason(
        self, index: int, origins: tuple[str, ...], values: list[LineWrite]
    ) -> CopyReason | None:
        line = self._flow.lines[index]
        by_name = self._table.by_name
        nodes = [by_name[name] for name in origins if name in by_name]
        readers = sorted(
            {x for each in values for x in self._readers.get((index, each.memory), ())}
        )
        views = [node for node in nodes if _is_view(node)]
        others = [node for node in nodes if not _is_view(node)]
        # The last one in the graph makes the value, as it depends on the others.
        last = sorted(others, key=self._place)[-1:]
        copies = [node for node in last if operation(node) in _COPIES]
        if isinstance(line, KernelCallLine) and nodes and not copies:
            called = self._called_by(readers)
            if all(node.name in called for node in others):
                copies = others or views
        if not copies:
            return None
        viewed = {node.name for node in views}
        if origins == origins_of(line):  # or it may be another loop that reads the view
            lines = self._flow.views[index]
            through = (x for each in lines for x in origins_of(self._flow.lines[each]))
            viewed.update(name for name in through if _is_view(by_name.get(name)))
        viewed.difference_update(node.name for node in copies)
        order = self._order
        return CopyReason(
            values=tuple(each.name for each in values),
            nodes=tuple(node.name for node in copies),
            views=tuple(sorted(viewed, key=lambda name: order.get(name, len(order)))),
            readers=tuple(readers),
            whole=not {node.name for node in others} - {node.name for node in copies},
        )

    def _place(self, node: NodeOrigin) -> int:
        """Return the place of a node in the order of the graph."""
        return self._order.get(node.name, -1)

    def _called_by(self, lines: Iterable[int]) -> set[str]:
        """Return the nodes of the operator calls among lines."""
        found = map(self._flow.lines.__getitem__, lines)
        calls = [line for line in found if isinstance(line, ExternKernelLine)]
        return {name for call in calls for name in origins_of(call)}


def operation(node: NodeOrigin) -> str:
    """Return the name of a node's operator without namespace and overload."""
    parts = (node.operator or "").split(".")
    return parts[1] if len(parts) > 1 else ""


def _is_view(node: NodeOrigin | None) -> bool:
    return node is not None and operation(node) in _VIEWS
