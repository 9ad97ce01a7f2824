"""Why a line of a program copies a value: the views that it copies, and who reads that."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeGuard

from attrs import frozen

from wrapperir.analysis.line_traffic import value_bytes
from wrapperir.ir import (
    BufferRef,
    EvaluationError,
    ExternKernelLine,
    KernelCallLine,
    NodeOrigin,
    Number,
    OriginTable,
    Program,
    TensorType,
    ValueType,
    product,
)
from wrapperir.ir.line_effects import value_types
from wrapperir.ir.mentions import buffers_in
from wrapperir.report.declared_copies import DeclaredCopies, DeclaredCopy
from wrapperir.report.layouts import copied_layout, layout_name
from wrapperir.report.line_flow import LineFlow, LineWrite, origins_of

_COPIES = frozenset({"clone", "contiguous", "copy", "copy_"})
_JOINS = frozenset({"cat", "concat", "concatenate", "hstack", "stack", "vstack"})
_SCATTERS = frozenset(
    {
        *("as_strided_scatter", "constant_pad_nd", "diagonal_backward", "diagonal_scatter"),
        *("pad", "select_backward", "select_scatter", "slice_backward", "slice_scatter"),
    }
)
"""Operators that copy an operand to a part of a result."""
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
    graph; ``readers`` the lines that read the copy.  What is not ``whole`` is computed by
    other nodes and written as a copy of that would be: nothing is read again.  If it has
    ``sources``, it is written to these too.

    ``sources`` are the values that are copied, as far as they are known, ``layouts`` those
    of what is copied of them and of the copy, if these differ, and ``part_of`` the value
    that the copy is a part of.  ``bytes`` are those that are written, at most.  ``fused``
    are other nodes that the line computes.  What is ``returned`` is an output of the
    program.
    """

    values: tuple[str, ...]
    nodes: tuple[str, ...]
    views: tuple[str, ...]
    readers: tuple[int, ...]
    whole: bool
    sources: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()
    part_of: str | None = None
    bytes: int | None = None
    fused: tuple[str, ...] = ()
    returned: bool = False


def copy_reasons(
    program: Program, flow: LineFlow, values: Mapping[str, Number] | None = None
) -> Mapping[int, tuple[CopyReason, ...]]:
    """Return why lines copy, by their indices.

    Kernels of the frontends here say what they copy.  That is told if it is for a node that
    copies, joins or scatters, for a call that reads the copy, or only changes the layout.
    Other kernels copy as far as operators of their nodes tell: if a value that they write
    is what a clone returns, if all its nodes are views, or if all others are computed by an
    operator that reads what it writes.  A clone that other nodes of the value compute with
    is not in memory.  Workspaces are not among the values.  A kernel of several loops may
    have several reasons.  ``values`` are those of the symbols that bytes are counted with.
    """
    finder = _CopyFinder(program, flow, values or {})
    found: dict[int, tuple[CopyReason, ...]] = {}
    for index, line in enumerate(flow.lines):
        if isinstance(line, KernelCallLine | ExternKernelLine):
            reasons = tuple(finder.reasons(index))
            if reasons:
                found[index] = reasons
    return found


class _CopyFinder:
    """Finds the reasons of the copies that lines make."""

    def __init__(
        self, program: Program, flow: LineFlow, values: Mapping[str, Number]
    ) -> None:
        """Find the readers of what lines write."""
        self._flow = flow
        self._values = values
        self._table = OriginTable(program)
        self._order = {x.name: index for index, x in enumerate(program.origins)}
        self._readers = flow.readers()
        self._users = flow.users()
        self._declared = DeclaredCopies(program)
        self._types = value_types(program, flow.effects)
        self._origins = flow.origins_of_values()
        self._workspaces = {
            made.name
            for done in flow.effects
            for made in done.definitions
            if made.workspace is not None
        }
        outputs = (x.name for x in program.outputs if isinstance(x, BufferRef))
        self._returned = {flow.roots.get(name, name) for name in outputs}

    def reasons(self, index: int) -> Iterator[CopyReason]:
        """Yield the reasons of a line: of the copies that it declares, then of others.

        These are one for each list of nodes that the line writes values for.
        """
        declared: dict[str, list[DeclaredCopy]] = {}
        for copy in self._declared.of(self._flow.lines[index]):
            declared.setdefault(copy.target, []).append(copy)
        groups: dict[tuple[str, ...], list[LineWrite]] = {}
        for value in self._flow.writes[index]:
            if value.memory in self._workspaces:
                continue
            if value.name in declared:
                for is_computed in (False, True):
                    copies = [
                        x for x in declared[value.name] if x.made.computed is is_computed
                    ]
                    if copies and (found := self._declared_reason(index, value, copies)):
                        yield found
            else:
                groups.setdefault(value.origins, []).append(value)
        for origins, values in groups.items():
            reason = self._reason(index, origins, values)
            if reason is not None:
                yield reason

    def _declared_reason(
        self, index: int, value: LineWrite, copies: Sequence[DeclaredCopy]
    ) -> CopyReason | None:
        """Return why a kernel makes copies, unless another node asked for them.

        That is an operator such as ``flip``, which moves elements.
        """
        line_nodes = origins_of(self._flow.lines[index])
        sources = tuple(copy.source for copy in copies)
        made = {name for source in sources for name in self._origins.get(source, ())}
        is_part = self._is_part(value, copies)
        readers = self._readers_of(index, value, is_part=is_part)
        called = self._called_by(readers)
        own = self._nodes(value.origins)
        others = [node.name for node in own if not _is_view(node)]
        copying = [x.name for x in own if operation(x) in _COPIES | _JOINS]
        scatters = [x for x in own if operation(x) in _SCATTERS]
        # Earlier ones fill what the last ones copy to: they may be of the same operator.
        last = sorted(scatters, key=self._place)[-len(copies) :]
        copying += [x.name for x in last]
        nodes = copying or [name for name in others if name in called]
        if not nodes and not made.issuperset(others):
            return None
        nodes = nodes or sorted(called) or [x.name for x in own if _is_view(x)]
        returned = value.memory in self._returned
        if not (nodes or readers or returned):
            return None
        written = {each.name for each in self._flow.writes[index]}
        computed = written.intersection(sources)
        known = {*nodes, *(() if computed else made)}
        fused = [x for x in self._nodes(line_nodes) if not _is_view(x)]
        return CopyReason(
            values=(value.name,),
            nodes=tuple(nodes),
            views=self._sorted({x.name for x in own if _is_view(x)} - {*nodes} - made),
            readers=tuple(readers),
            whole=not any(copy.made.computed for copy in copies),
            sources=sources,
            layouts=() if is_part else self._layouts(copies, value.name),
            part_of=value.memory if is_part else None,
            bytes=self._bytes(value.name, copies),
            fused=tuple(x.name for x in fused if x.name not in known),
            returned=returned,
        )

    def _reason(
        self, index: int, origins: tuple[str, ...], values: list[LineWrite]
    ) -> CopyReason | None:
        line = self._flow.lines[index]
        nodes = self._nodes(origins)
        readers = sorted(
            {x for each in values for x in self._readers.get((index, each.memory), ())}
        )
        views = [node for node in nodes if _is_view(node)]
        others = [node for node in nodes if not _is_view(node)]
        # The last one in the graph makes the value, as it depends on the others.
        last = sorted(others, key=self._place)[-1:]
        is_call = isinstance(line, ExternKernelLine)
        makers = _COPIES | _JOINS if is_call else _COPIES
        copies = [node for node in last if operation(node) in makers]
        if not is_call and nodes and not copies:
            called = self._called_by(readers)
            if all(node.name in called for node in others):
                copies = others or views
        if not copies:
            return None
        viewed = {node.name for node in views}
        if {*origins} == {*origins_of(line)}:  # or another loop may read the view
            lines = self._flow.views[index]
            through = (x for each in lines for x in origins_of(self._flow.lines[each]))
            by_name = self._table.by_name
            viewed.update(name for name in through if _is_view(by_name.get(name)))
        names = [each.name for each in values]
        whole = not {node.name for node in others} - {node.name for node in copies}
        if not whole and len(names) > 1:  # it is not known which is laid out so
            return None
        sources: tuple[str, ...] = ()
        layouts: tuple[str, ...] = ()
        if isinstance(line, ExternKernelLine):
            sources, layouts = self._given(line, names)
        return CopyReason(
            values=tuple(names),
            nodes=tuple(node.name for node in copies),
            views=self._sorted(viewed - {node.name for node in copies}),
            readers=tuple(readers),
            whole=whole,
            sources=sources,
            layouts=layouts,
            bytes=self._size(names[0]) if len(names) == 1 else None,
            returned=any(each.memory in self._returned for each in values),
        )

    def _given(
        self, call: ExternKernelLine, written: Sequence[str]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what a call copies, and the layouts of that and of its copy."""
        found = (name for argument in call.arguments for name in buffers_in(argument))
        sources = tuple(dict.fromkeys(name for name in found if name not in written))
        types = [self._types.get(name) for name in (*sources, *written)]
        return sources, _differing([x for x in types if isinstance(x, TensorType)])

    def _nodes(self, names: Iterable[str]) -> list[NodeOrigin]:
        by_name = self._table.by_name
        return [by_name[name] for name in names if name in by_name]

    def _place(self, node: NodeOrigin) -> int:
        """Return the place of a node in the order of the graph."""
        return self._order.get(node.name, -1)

    def _sorted(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return names of nodes in the order of the graph."""
        order = self._order
        return tuple(sorted(names, key=lambda name: (order.get(name, len(order)), name)))

    def _called_by(self, lines: Iterable[int]) -> set[str]:
        """Return the nodes of the operator calls among lines."""
        found = map(self._flow.lines.__getitem__, lines)
        calls = [line for line in found if isinstance(line, ExternKernelLine)]
        return {name for call in calls for name in origins_of(call)}

    def _readers_of(self, index: int, value: LineWrite, *, is_part: bool) -> list[int]:
        """Return the lines that read a copy.

        Other lines may write other parts of its memory before that is read.
        """
        if not is_part:
            return sorted(set(self._readers.get((index, value.memory), ())))
        found: list[int] = []
        users = self._users.get(value.memory, ())
        for line in users[bisect_right(users, index) :]:
            if value.memory not in self._flow.memories[line]:
                continue
            found.append(line)
            if any(x.memory == value.memory for x in self._flow.writes[line]):
                break
        return found

    def _is_part(self, value: LineWrite, copies: Iterable[DeclaredCopy]) -> bool:
        """Say whether copies are a part of what a value or its memory holds."""
        own, whole = (self._size(name) for name in (value.name, value.memory))
        if own is None:
            return False
        counts = [copy.made.count for copy in copies]
        is_less = None not in counts and (self._bytes(value.name, copies) or own) < own
        return is_less or (whole is not None and own < whole)

    def _bytes(self, target: str, copies: Iterable[DeclaredCopy]) -> int | None:
        """Return the bytes that copies write at most, if sizes are known."""
        own, type = self._size(target), self._types.get(target)
        if own is None or not isinstance(type, TensorType):
            return own
        found = 0
        for copy in copies:
            size = own if copy.made.whole else self._size(copy.source)
            count = copy.made.count
            if count is not None:
                size = count * type.dtype.itemsize
            found += own if size is None else size
        return min(found, own)

    def _size(self, name: str) -> int | None:
        """Return the bytes of a value, if they are known."""
        type = self._types.get(name)
        try:
            return None if type is None else value_bytes(type, self._values)
        except EvaluationError:
            return None

    def _layouts(self, copies: Iterable[DeclaredCopy], target: str) -> tuple[str, ...]:
        """Return the layouts of what is copied and of the copy, if they differ."""
        to = self._types.get(target)
        types: list[TensorType] = []
        for copy in copies:
            of = self._types.get(copy.source)
            if copy.made.axes is not None and self._is_whole(to, copy):
                of = copied_layout(to, copy.made.axes)
            types += [of] if isinstance(of, TensorType) else []
        return _differing([*types, *([to] if isinstance(to, TensorType) else ())])

    @staticmethod
    def _is_whole(to: ValueType | None, copy: DeclaredCopy) -> TypeGuard[TensorType]:
        """Say whether a copy writes all elements of a tensor."""
        if not isinstance(to, TensorType):
            return False
        return copy.made.whole or copy.made.count == product(to.size)


def _differing(types: Sequence[TensorType]) -> tuple[str, ...]:
    """Return the layouts of tensors of one shape, if they differ."""
    names = tuple(dict.fromkeys(map(layout_name, types)))
    is_same_shape = len({type.size for type in types}) == 1
    return names if is_same_shape and len(names) > 1 else ()


def operation(node: NodeOrigin) -> str:
    """Return the name of a node's operator without namespace and overload."""
    parts = (node.operator or "").split(".")
    return parts[1] if len(parts) > 1 else ""


def _is_view(node: NodeOrigin | None) -> bool:
    return node is not None and operation(node) in _VIEWS
