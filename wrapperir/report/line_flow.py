"""Which lines write the bytes that a line reads."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from attrs import field, frozen

from wrapperir.ir import (
    BodyLine,
    BufferRef,
    ExternKernelLine,
    Input,
    KernelCallLine,
    Program,
)
from wrapperir.ir.blocks import walk_places
from wrapperir.ir.effects import Effects, NestedBlock, Origin
from wrapperir.ir.line_effects import LineEffects
from wrapperir.ir.mentions import buffers_in
from wrapperir.report.declared_copies import DeclaredCopies

T = TypeVar("T")

_SHARING = (Origin.VIEW, Origin.MOVED, Origin.ELEMENT)
"""Where the memory of a value is from, if it holds what its source held."""


@frozen
class LineWrite:
    """A value that a line writes: its name there, that of its memory, and its nodes.

    A kernel of several values may compute them from different nodes.  The line that makes
    memory names the nodes of what writes it first, and so of the first kernel that writes
    it only these are ``origins``.  A copy has those of the line that names it.
    """

    name: str
    memory: str
    origins: tuple[str, ...]


@frozen
class LineFlow:
    """The flow of values between the lines of a program, of nested blocks too.

    Lines are indices in the order of the text.  ``sources`` has the lines that last wrote
    what a line reads, ``reads`` these with the name of the memory that they wrote, and
    ``views`` the lines whose views it reads that through.  ``writes`` has what a line
    writes, and ``memories`` the names of all memory that it reads.  ``roots`` are the names
    of the memory of views and elements.
    """

    inputs: tuple[Input, ...]
    lines: tuple[BodyLine, ...]
    effects: tuple[Effects, ...]
    sources: tuple[tuple[int, ...], ...]
    reads: tuple[tuple[tuple[int, str], ...], ...]
    views: tuple[tuple[int, ...], ...]
    writes: tuple[tuple[LineWrite, ...], ...]
    memories: tuple[tuple[str, ...], ...]
    roots: Mapping[str, str]

    def users(self) -> dict[str, tuple[int, ...]]:
        """Return the lines that read or write memory, by its name."""
        found: dict[str, dict[int, None]] = {}
        for line, (read, writes) in enumerate(zip(self.memories, self.writes, strict=True)):
            for name in (*read, *(each.memory for each in writes)):
                found.setdefault(name, {})[line] = None
        return {name: tuple(lines) for name, lines in found.items()}

    def readers(self) -> dict[tuple[int, str], list[int]]:
        """Return the lines that read what a line wrote, by that line and the memory."""
        found: dict[tuple[int, str], list[int]] = {}
        for reader, reads in enumerate(self.reads):
            for written in reads:
                found.setdefault(written, []).append(reader)
        return found

    def origins_of_values(self) -> dict[str, tuple[str, ...]]:
        """Return the nodes of the inputs, and of lines that make or write each value."""
        found = {
            each.name: dict.fromkeys(each.provenance.origins)
            for each in self.inputs
            if each.provenance is not None
        }
        for line, done, writes in zip(self.lines, self.effects, self.writes, strict=True):
            for made in done.definitions:
                found.setdefault(made.name, {}).update(dict.fromkeys(origins_of(line)))
            for value in writes:
                found.setdefault(value.name, {}).update(dict.fromkeys(value.origins))
        return {name: tuple(origins) for name, origins in found.items()}


def origins_of(line: BodyLine) -> tuple[str, ...]:
    """Return the names of the nodes that a line came from."""
    return () if line.provenance is None else line.provenance.origins


def line_flow(program: Program) -> LineFlow:
    """Return the flow of values of a valid program, as if each block ran once.

    What has different names for one memory, such as views, is one value.  What an operator
    writes by keyword, as ``out``, it does not read.
    """
    effects_of = LineEffects.of_program(program)
    lines = tuple(line for line, _ in walk_places(program.lines))
    effects = tuple(map(effects_of.visit, lines))
    values = _Values(DeclaredCopies(program))
    for index, done in enumerate(effects):
        values.enter(index, lines[index], done)
    return LineFlow(
        inputs=program.inputs,
        lines=lines,
        effects=effects,
        sources=tuple(_each(line for line, _ in each) for each in values.reads),
        reads=tuple(values.reads),
        views=tuple(values.views),
        writes=tuple(values.writes),
        memories=tuple(values.memories),
        roots=values.roots,
    )


def _written_only(line: BodyLine) -> frozenset[str]:
    """Return the names that an operator is given to write its results to."""
    if not isinstance(line, ExternKernelLine):
        return frozenset()
    read = {name for argument in line.arguments for name in buffers_in(argument)}
    given = {name for _, argument in line.keywords for name in buffers_in(argument)}
    return frozenset(given.intersection(line.writes) - read)


@frozen
class _Values:
    """What is known of values so far: their memory, and what wrote it last."""

    declared: DeclaredCopies
    reads: list[tuple[tuple[int, str], ...]] = field(factory=list[Any])
    views: list[tuple[int, ...]] = field(factory=list[tuple[int, ...]])
    writes: list[tuple[LineWrite, ...]] = field(factory=list[tuple[LineWrite, ...]])
    memories: list[tuple[str, ...]] = field(factory=list[tuple[str, ...]])
    roots: dict[str, str] = field(factory=dict[str, str])
    _viewed: dict[str, tuple[int, ...]] = field(factory=dict[str, tuple[int, ...]])
    _writers: dict[str, int] = field(factory=dict[str, int])
    _makers: dict[str, tuple[str, ...]] = field(factory=dict[str, tuple[str, ...]])
    """The origins of the line that made memory, until another writes it."""
    _namers: dict[str, tuple[str, ...]] = field(factory=dict[str, tuple[str, ...]])
    """The origins of the line that made a name."""

    def enter(self, index: int, line: BodyLine, done: Effects) -> None:
        """Add what a line reads, then what it defines and writes."""
        written_only = _written_only(line)
        reads = (each.name for each in done.accesses if each.reads)
        read = [name for name in reads if name not in written_only]
        roots = _each(self._root(name) for name in read)
        self.memories.append(roots)
        known = [(self._writers[root], root) for root in roots if root in self._writers]
        self.reads.append(tuple(known))
        self.views.append(_each(x for name in read for x in self._viewed.get(name, ())))
        for nested in done.blocks:
            self._enter_block(nested)
        new: list[str] = []
        for made in done.definitions:
            self._viewed.pop(made.name, None)
            self._namers[made.name] = origins_of(line)
            self.roots[made.name] = made.name
            if made.source is not None and made.origin in _SHARING:
                root = self.roots[made.name] = self._root(made.source)
                own = (index,) if made.origin is Origin.VIEW else ()
                self._viewed[made.name] = (*self._viewed.get(made.source, ()), *own)
                if made.origin is Origin.MOVED:
                    self._makers[root] = origins_of(line)
            elif made.origin in (Origin.OPERATOR, Origin.BLOCK):
                new.append(made.name)
            else:
                self._writers.pop(made.name, None)
                self._makers[made.name] = origins_of(line)
        names = _each((*new, *(each.name for each in done.accesses if each.writes)))
        has_loops = isinstance(line, KernelCallLine) and len(names) > 1
        declared = self.declared.of(line) if has_loops else ()
        copied = {copy.target for copy in declared}
        written: list[LineWrite] = []
        for name in names:
            namer = self._namers.get(name, ())
            if name in copied and namer:
                here = [each for each in namer if each in origins_of(line)]
                origins = tuple(here) or namer  # kernels do not name whom they copy for
                written.append(LineWrite(name, self._root(name), origins))
            else:
                written.append(self._written(name, line, has_loops=has_loops))
        self.writes.append(tuple(written))
        made_here = {made.name for made in done.definitions}
        for value in self.writes[-1]:
            self._writers[value.memory] = index
            if value.memory not in made_here:  # the line of a workspace zeroes it
                self._makers.pop(value.memory, None)

    def _written(self, name: str, line: BodyLine, *, has_loops: bool) -> LineWrite:
        root, all_origins = self._root(name), origins_of(line)
        own = self._makers.get(root, ())
        is_known = has_loops and own and {*own} <= {*all_origins}
        return LineWrite(name, root, own if is_known else all_origins)

    def _enter_block(self, nested: NestedBlock) -> None:
        for parameter, operand in zip(
            nested.block.parameters, nested.operands, strict=False
        ):
            if isinstance(operand, BufferRef):
                self.roots[parameter.name] = self._root(operand.name)
                self._viewed[parameter.name] = self._viewed.get(operand.name, ())

    def _root(self, name: str) -> str:
        return self.roots.get(name, name)


def _each(items: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(items))
