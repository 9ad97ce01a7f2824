"""Assigns streams to the calls of a program, and adds the events that these need.

The stream of each call in the program's own block, and in graph regions, is drawn.  A
stream waits for another where a call needs its work.  Names that may share a storage are
one group.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import define, evolve, field
from hypothesis import strategies as st

from wrapperir import ir as wir
from wrapperir.ir.blocks import blocks_of, walk_lines
from wrapperir.ir.effects import Origin, ValueDefinition
from wrapperir.ir.line_effects import LineEffects, uses, value_names
from wrapperir.testing.generator import BOOLEANS, indices

_STREAMS = 3

CallCounts = list[int]
"""A vector clock: the number of calls of each stream that are done."""


@define(eq=False)
class _SharedStorage:
    """Names that may share storage: how many live, and when each stream last used it."""

    names: int = 0
    reads: CallCounts = field(factory=lambda: [0] * _STREAMS)
    writes: CallCounts = field(factory=lambda: [0] * _STREAMS)
    before: CallCounts = field(factory=lambda: [0] * _STREAMS)
    pool: "_SharedStorage | None" = None
    placed: "list[_SharedStorage]" = field(factory=list["_SharedStorage"])

    def root(self) -> "_SharedStorage":
        """Return the outermost pool."""
        return self if self.pool is None else self.pool.root()


def assign_streams(draw: st.DrawFn, program: wir.Program) -> wir.Program:
    """Return the program, its calls on one stream or on several that events order.

    A program that has streams already is returned as it is.
    """
    if not draw(BOOLEANS):
        return program
    outside: list[wir.Input | wir.ConstantInput] = [*program.inputs, *program.constants]
    assigner = _Assigner(
        draw,
        LineEffects.of_program(program),
        wir.FreshNames(value_names(program)),
        {item.name: _SharedStorage(names=1) for item in outside},
    )
    for line in program.lines:
        assigner.add(line)
    return evolve(program, lines=tuple(assigner.lines))


@define(eq=False)
class _Assigner:
    draw: st.DrawFn
    effects: LineEffects
    names: wir.FreshNames
    groups: dict[str, _SharedStorage]
    lines: list[wir.BodyLine] = field(factory=list[wir.BodyLine])
    counts: CallCounts = field(factory=lambda: [0] * _STREAMS)
    clocks: list[CallCounts] = field(
        factory=lambda: [[0] * _STREAMS for _ in range(_STREAMS)]
    )
    begun: set[int] = field(factory=lambda: set(range(_STREAMS)))
    own: int = 0
    started: dict[str, int] = field(factory=dict[str, int])

    def add(self, line: wir.BodyLine) -> None:
        """Add a line, on a stream, after what it has to wait for."""
        effects = self.effects.visit(line)
        if effects.launches:
            stream = self.started.get(effects.completes or "")
            if stream is None:
                stream = self.draw(indices(_STREAMS))
            if effects.starts is not None:
                self.started[effects.starts] = stream
            drawn: dict[str, Any] = {"stream": stream}
            line = evolve(line, **drawn)
            if isinstance(line, wir.GraphRegionLine):
                line = self._in_region(line)
            effects = self.effects.visit(line)
        if effects.host_waits:
            self._host_reads()
        if effects.blocks:
            names = [*effects.uses, *_constants_in(line)]
            given = [self.groups[n] for n in names if n in self.groups]
            roots = [group.root() for group in given]
            placed = [inner for root in roots for inner in root.placed]
            stream = 0 if effects.stream is None else effects.stream.number
            self._launch(stream, [], [*given, *roots, *placed])
        elif effects.launches and effects.stream is not None:
            touched = [a for a in effects.accesses if a.name in self.groups]
            reads = [self.groups[a.name] for a in touched if a.reads and not a.writes]
            writes = [self.groups[a.name] for a in touched if a.writes]
            self._launch(effects.stream.number, reads, writes)
        for made in effects.definitions:
            self._define(made, 0 if effects.stream is None else effects.stream.number)
            if made.workspace is wir.ZeroMode.ZERO_ON_CALL:
                self._launch(0, [], [self.groups[made.name]])
        self.lines.append(line)
        if effects.drops is not None and effects.drops in self.groups:
            self.groups[effects.drops].names -= 1

    def _in_region(self, region: wir.GraphRegionLine) -> wir.GraphRegionLine:
        """Return a region with streams of its own, which begin and end on the region's.

        Its parameters share storage where their operands may.
        """
        constants = [name for name in _constants_in(region) if name in self.groups]
        given = dict(zip(constants, constants, strict=True))
        for parameter, operand in zip(region.body.parameters, region.operands, strict=True):
            if isinstance(operand, wir.BufferRef):
                given[parameter.name] = operand.name
        inside: dict[int, _SharedStorage] = {}
        groups: dict[str, _SharedStorage] = {}
        for name, outer in given.items():
            group = inside.setdefault(id(self.groups[outer]), _SharedStorage())
            group.names += 1
            groups[name] = group
        inner = _Assigner(
            self.draw, self.effects, self.names, groups, begun={region.stream}
        )
        inner.own = region.stream
        for line in region.body.lines:
            inner.add(line)
        for stream in sorted(inner.begun):
            if inner.clocks[region.stream][stream] < inner.counts[stream]:
                inner._wait(region.stream, stream)
        return evolve(region, body=evolve(region.body, lines=tuple(inner.lines)))

    def _define(self, made: ValueDefinition, stream: int) -> None:
        """Add a name to the group of the storage that it has."""
        group = _SharedStorage()
        match made.origin:
            case Origin.VIEW | Origin.MOVED | Origin.ELEMENT:
                group = self.groups[made.source or ""]
            case Origin.PLACED:
                group = self._placed(made)
            case Origin.OPERATOR if made.may_alias:
                group, *others = (self.groups[name] for name in made.may_alias)
                for other in others:
                    self._unite(group, other)
                group = self.groups[made.may_alias[0]]
            case Origin.OPERATOR | Origin.BLOCK:
                group.writes[stream] = self.counts[stream]
            case Origin.ALLOCATED | Origin.PROGRAM | Origin.POOL | Origin.NONE:
                pass  # nothing has used it
        if made.origin is Origin.MOVED:  # all later uses come after all until now
            _raise_to(group.before, group.reads)
            _raise_to(group.before, group.writes)
        group.names += 1
        self.groups[made.name] = group

    def _unite(self, group: _SharedStorage, other: _SharedStorage) -> None:
        if group is not other:
            group.names += other.names
            group.placed += other.placed
            group.pool = group.pool or other.pool
            for root in {id(g): g.root() for g in self.groups.values()}.values():
                root.placed = [group if g is other else g for g in root.placed]
            _raise_to(group.reads, other.reads)
            _raise_to(group.writes, other.writes)
            _raise_to(group.before, other.before)
            for name, found in self.groups.items():
                if found is other:
                    self.groups[name] = group

    def _placed(self, made: ValueDefinition) -> _SharedStorage:
        pool = self.groups[made.source or ""]
        root = pool.root()
        group = _SharedStorage(pool=pool)
        _raise_to(group.before, root.writes)  # of blocks that it was lent to
        for other in root.placed:
            if other.names <= 0:
                for clock in (other.before, other.reads, other.writes):
                    _raise_to(group.before, clock)
        if not isinstance(made.type, wir.PoolType):
            root.placed.append(group)
        return group

    def _launch(
        self, stream: int, reads: Sequence[_SharedStorage], writes: Sequence[_SharedStorage]
    ) -> None:
        """Have a stream wait for what the call needs, and note what it uses."""
        needed = [0] * _STREAMS
        for group in reads:
            _raise_to(needed, group.before)
            _raise_to(needed, group.writes)
        for group in writes:
            for clock in (group.before, group.writes, group.reads):
                _raise_to(needed, clock)
        for other in range(_STREAMS):
            if self.clocks[stream][other] < needed[other]:
                self._wait(stream, other)
        if stream not in self.begun:
            self._wait(stream, self.own)
            self.begun.add(stream)
        self.counts[stream] += 1
        self.clocks[stream][stream] = self.counts[stream]
        for group in reads:
            group.reads[stream] = self.counts[stream]
        for group in writes:
            group.writes[stream] = self.counts[stream]

    def _wait(self, stream: int, other: int) -> None:
        if stream == other:  # a stream runs its work in order
            return
        event = self.names.new(None, "event")
        self.lines.append(wir.RecordEventLine(result=event, stream=other))
        self.lines.append(wir.WaitEventLine(event=event, stream=stream))
        _raise_to(self.clocks[stream], self.clocks[other])

    def _host_reads(self) -> None:
        for clock in self.clocks:
            _raise_to(clock, self.counts)


def _raise_to(clock: CallCounts, other: CallCounts) -> None:
    for stream, count in enumerate(other):
        clock[stream] = max(clock[stream], count)


def _constants_in(line: wir.BodyLine) -> Iterator[str]:
    """Yield the names that nested blocks use; constants are among them."""
    for inner in walk_lines(lines for block in blocks_of(line) for lines in block.lines):
        yield from uses(inner)
