"""Collectives of graphs: calls of PyTorch's functional collectives become lines.

Graphs call operators of ``_c10d_functional`` and wait with ``wait_tensor``.  A call
becomes a ``collective``, its first wait a ``wait_collective``, if both are in one block
and nothing between them uses the result, or changes what is read.  What is read is freed
after the wait.  Other calls stay operator calls.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from attrs import define, evolve, field

from wrapperir import ir as wir
from wrapperir.frontend.aten.collective_calls import (
    WAIT,
    GivenToCall,
    operation_of,
    refuse_hidden_receive,
)
from wrapperir.ir.blocks import rewrite_blocks, walk_lines
from wrapperir.ir.effects import Effects, Origin
from wrapperir.ir.line_effects import LineEffects, value_names, value_types

GroupSize: TypeAlias = Callable[[str], int | None]
"""Returns the number of ranks of a group; ``None`` if this process does not have it."""


def group_size(name: str) -> int | None:
    """Return the number of ranks of a group of this process."""
    from torch import distributed

    if not distributed.is_available():
        return None
    c10d: Any = distributed.distributed_c10d
    try:
        size: int = c10d._resolve_process_group(name).size()
        return size
    except (RuntimeError, ValueError, KeyError):
        return None


def lower_collectives(program: wir.Program, size_of: GroupSize = group_size) -> wir.Program:
    """Return the program with lines for the collectives that it calls operators for.

    Raises:
        DiagnosticError: WIR602, an operator receives into a tensor, and hides that.
    """
    for line in walk_lines(program.lines):
        refuse_hidden_receive(line)
    calls = [line for line in walk_lines(program.lines) if operation_of(line) is not None]
    if not calls:
        return program
    lowering = _CallsToLines(
        value_types(program), wir.FreshNames(value_names(program)), size_of
    )
    lines = tuple(lowering.of_lines(program.lines))
    groups = [
        wir.ProcessGroup(name=name, size=size) for name, size in lowering.sizes.items()
    ]
    return evolve(program, lines=lines, groups=(*program.groups, *groups))


@define(eq=False)
class _RaisedCall:
    """A call at ``index`` that becomes a collective.

    ``before`` are lines that make its tensors, ``parts`` the lines that name elements of
    its results.  ``first`` is the line of the first wait, ``waits`` are all of them.
    """

    index: int
    start: wir.CollectiveLine
    before: list[wir.BodyLine] = field(factory=list[wir.BodyLine])
    parts: set[int] = field(factory=set[int])
    unnamed: list[str] = field(factory=list[str])
    first: int = -1
    waits: set[int] = field(factory=set[int])
    delayed: list[int] = field(factory=list[int])


@define(eq=False)
class _CallsToLines:
    """Makes lines of the calls in each block; ``sizes`` has the groups that they use."""

    types: Mapping[str, wir.ValueType]
    names: wir.FreshNames
    size_of: GroupSize
    sizes: dict[str, int] = field(factory=dict[str, int])
    effects: LineEffects = field(factory=LineEffects)

    def of_lines(self, lines: Sequence[wir.BodyLine]) -> list[wir.BodyLine]:
        """Return the lines of a block, with collectives for its calls."""
        found = [self.effects.visit(line) for line in lines]
        roots = _roots(found)
        calls = [self._call(lines, index, roots) for index in range(len(lines))]
        kept = [c for c in calls if c is not None and _is_sound(c, lines, found, roots)]
        for call in kept:
            self.sizes.setdefault(call.start.group, self._size(call.start.group) or 1)
        return self._rewritten(lines, kept)

    def _size(self, group: str) -> int | None:
        return self.sizes.get(group) or self.size_of(group)

    def _rewritten(
        self, lines: Sequence[wir.BodyLine], calls: Sequence[_RaisedCall]
    ) -> list[wir.BodyLine]:
        by_start = {call.index: call for call in calls}
        by_first = {call.first: call for call in calls}
        delayed: dict[int, int] = {}  # a free that several collectives delay
        for call in calls:
            for each in call.delayed:
                delayed[each] = max(call.first, delayed.get(each, -1))
        skipped = {*delayed, *(i for call in calls for i in call.parts)}
        waits = {index for call in calls for index in call.waits}
        made: list[wir.BodyLine] = []
        for index, line in enumerate(lines):
            if index in by_start:
                call = by_start[index]
                made += [*call.before, call.start]
                continue
            if index in by_first:
                made.append(_wait(by_first[index], line))
            if index in waits:
                assert isinstance(line, wir.ExternKernelLine)
                made += _renamed_result(line)
            elif index not in skipped:
                made.append(rewrite_blocks(line, self._in_block))
            if index in by_first:
                made += [lines[each] for each, last in delayed.items() if last == index]
                unnamed = by_first[index].unnamed
                made += [wir.FreeLine(buffer=name) for name in unnamed]
        return made

    def _in_block(self, block: wir.Block) -> wir.Block:
        return evolve(block, lines=tuple(self.of_lines(block.lines)))

    def _call(
        self, lines: Sequence[wir.BodyLine], index: int, roots: Mapping[str, str]
    ) -> _RaisedCall | None:
        """Return the collective of a call, if there is a line for it."""
        line = lines[index]
        operation = operation_of(line)
        if operation is None or not isinstance(line, wir.ExternKernelLine):
            return None
        given = GivenToCall.of(line, operation)
        if given is None or self._size(given.group) is None:
            return None
        if not all(_is_row_major(self.types.get(name)) for name in given.reads):
            return None
        call = _RaisedCall(index, given.line(line, operation, ""))
        writes = self._results(call, lines, line, given)
        if writes is None:
            return None
        reads = writes if operation.in_place else given.reads
        name = self.names.new(None, "work")
        call.start = evolve(call.start, result=name, reads=reads, writes=writes)
        return call

    def _results(
        self,
        call: _RaisedCall,
        lines: Sequence[wir.BodyLine],
        line: wir.ExternKernelLine,
        given: GivenToCall,
    ) -> tuple[str, ...] | None:
        """Return the tensors that a collective writes, and add lines that make them."""
        if line.result is None:
            return given.reads if call.start.operation.in_place else given.writes
        if given.writes or line.writes or line.aliases:
            return None
        named = self._named_results(call, lines, line)
        if named is None or len(named) != len(given.reads):
            return None
        for source, (name, type) in zip(given.reads, named, strict=True):
            if not _is_row_major(type):
                return None
            if call.start.operation.in_place:
                made: wir.BodyLine = wir.ExternKernelLine(
                    result=name,
                    type=type,
                    operator="aten.clone.default",
                    arguments=(wir.BufferRef(source),),
                    device=line.device,
                    stream=line.stream,
                    provenance=line.provenance,
                )
            else:
                made = wir.AllocateLine(result=name, type=type, provenance=line.provenance)
            call.before.append(made)
        return tuple(name for name, _ in named)

    def _named_results(
        self, call: _RaisedCall, lines: Sequence[wir.BodyLine], line: wir.ExternKernelLine
    ) -> list[tuple[str, wir.TensorType]] | None:
        """Return the names and types of results; those of a tuple are its elements'."""
        assert line.result is not None
        if isinstance(line.type, wir.TensorType):
            return [(line.result, line.type)]
        if not isinstance(line.type, wir.TupleType):
            return None
        found: dict[int, tuple[str, wir.TensorType]] = {}
        for index, other in enumerate(lines):
            if isinstance(other, wir.MultiOutputLine) and other.source == line.result:
                if len(other.indices) != 1 or not isinstance(other.type, wir.TensorType):
                    return None
                if other.indices[0] in found:
                    return None
                found[other.indices[0]] = other.result, other.type
                call.parts.add(index)
            elif isinstance(other, wir.FreeLine) and other.buffer == line.result:
                call.parts.add(index)
            elif line.result in self.effects.visit(other).uses:
                return None
        named: list[tuple[str, wir.TensorType]] = []
        for place, type in enumerate(line.type.elements):
            if not isinstance(type, wir.TensorType):
                return None
            if place not in found:
                found[place] = self.names.new(None, "buf"), type
                call.unnamed.append(found[place][0])
            named.append(found[place])
        return named


def _is_row_major(type: wir.ValueType | None) -> bool:
    return isinstance(type, wir.TensorType) and all(
        size == 1 or step == wanted
        for size, step, wanted in zip(
            type.size, type.stride, wir.contiguous_stride(type.size), strict=True
        )
    )


def _roots(found: Sequence[Effects]) -> dict[str, str]:
    """Return the first name of the storage of each view and moved name."""
    roots: dict[str, str] = {}
    for effects in found:
        for made in effects.definitions:
            if made.origin in (Origin.VIEW, Origin.MOVED) and made.source is not None:
                roots[made.name] = roots.get(made.source, made.source)
    return roots


def _is_sound(
    call: _RaisedCall,
    lines: Sequence[wir.BodyLine],
    found: Sequence[Effects],
    roots: Mapping[str, str],
) -> bool:
    """Find the waits for a call; return whether it may be in flight until the first."""
    started = call.start
    if wir.operand_fault(started, None) is not None:
        return False
    read = {roots.get(name, name) for name in started.reads}
    written = {roots.get(name, name) for name in started.writes}
    left = set(written)
    for index in range(call.index + 1, len(lines)):
        if index in call.parts:
            continue
        line, effects = lines[index], found[index]
        waited = _waited_root(line, roots)
        if waited in left:
            if call.first < 0:
                call.first = index
                if effects.stream != wir.Stream(started.device, started.stream):
                    return False
            call.waits.add(index)
            left.remove(waited)
            if not left:
                break
        elif call.first < 0:
            if not _may_be_between(line, effects, read, written, roots):
                return False
            if roots.get(effects.drops or "", effects.drops) in read | written:
                call.delayed.append(index)
        elif operation_of(line) is not None:
            used = {roots.get(name, name) for name in effects.uses}
            left -= used  # a later wait is for the other collective
    return call.first >= 0


def _waited_root(line: wir.BodyLine, roots: Mapping[str, str]) -> str:
    """Return the storage that a line waits for; empty if it does not wait."""
    if not isinstance(line, wir.ExternKernelLine) or line.operator != WAIT:
        return ""
    (given,) = line.arguments
    is_tensor = line.type is None or isinstance(line.type, wir.TensorType)
    if not is_tensor or not isinstance(given, wir.BufferRef):
        return ""
    return roots.get(given.name, given.name)


def _may_be_between(
    line: wir.BodyLine,
    effects: Effects,
    read: set[str],
    written: set[str],
    roots: Mapping[str, str],
) -> bool:
    """Say whether a line leaves alone what a collective in flight needs."""
    for access in effects.accesses:
        root = roots.get(access.name, access.name)
        if root in written or (access.writes and root in read):
            return False
    drops = roots.get(effects.drops or "", effects.drops)
    return isinstance(line, wir.FreeLine) or drops not in read | written


def _wait(call: _RaisedCall, line: wir.BodyLine) -> wir.WaitCollectiveLine:
    return wir.WaitCollectiveLine(
        work=call.start.result,
        reads=call.start.reads,
        writes=call.start.writes,
        device=call.start.device,
        stream=call.start.stream,
        provenance=line.provenance,
    )


def _renamed_result(line: wir.ExternKernelLine) -> list[wir.BodyLine]:
    """Return the line that names the result of a wait, if it has one."""
    (given,) = line.arguments
    assert isinstance(given, wir.BufferRef)
    if line.result is None or not isinstance(line.type, wir.TensorType):
        return []
    return [
        wir.ReinterpretLine(
            result=line.result,
            source=given.name,
            type=line.type,
            provenance=line.provenance,
        )
    ]
