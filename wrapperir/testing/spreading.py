"""Puts the calls of a program on several streams, with the events that then are needed.

What is drawn is the stream of each call of the program's own block; a stream waits for
another where a call needs what is on it.  Memory is followed by names: those that may
share a storage are one group.
"""

from collections.abc import Iterator, Sequence

from attrs import define, evolve, field
from hypothesis import strategies as st

from wrapperir.ir.blocks import blocks_of
from wrapperir.ir.effects import definitions, drops, uses
from wrapperir.ir.fresh_names import Names, value_names
from wrapperir.ir.kernel import TensorParameter, runtime_parameters
from wrapperir.ir.line import (
    AllocateLine,
    AssertNotNanLine,
    BodyLine,
    BufferRef,
    ConditionalLine,
    ExternKernelLine,
    ItemOf,
    KernelCallLine,
    MultiOutputLine,
    PlaceLine,
    RecordEventLine,
    ReinterpretLine,
    ReuseLine,
    SubgraphCallLine,
    SymbolDefinitionLine,
    WaitEventLine,
    WhileLoopLine,
    ZeroMode,
)
from wrapperir.ir.program import Program
from wrapperir.ir.types import PoolType

_STREAMS = 3

Clock = list[int]
"""How many calls of each stream are done."""


@define(eq=False)
class _Group:
    """Names that may share storage: how many live, and when each stream last used it."""

    names: int = 0
    reads: Clock = field(factory=lambda: [0] * _STREAMS)
    writes: Clock = field(factory=lambda: [0] * _STREAMS)
    before: Clock = field(factory=lambda: [0] * _STREAMS)
    pool: "_Group | None" = None
    placed: "list[_Group]" = field(factory=list["_Group"])

    def root(self) -> "_Group":
        """Return the outermost pool."""
        return self if self.pool is None else self.pool.root()


def on_streams(draw: st.DrawFn, program: Program) -> Program:
    """Return the program, its calls on one stream or on several that events order.

    A program that has streams already is returned as it is.
    """
    if not draw(st.booleans()):
        return program
    spreader = _Spreader(draw, program)
    for line in program.lines:
        spreader.add(line)
    return evolve(program, lines=tuple(spreader.lines))


@define(eq=False)
class _Spreader:
    draw: st.DrawFn
    program: Program
    lines: list[BodyLine] = field(factory=list[BodyLine])
    groups: dict[str, _Group] = field(factory=dict[str, _Group])
    counts: Clock = field(factory=lambda: [0] * _STREAMS)
    clocks: list[Clock] = field(factory=lambda: [[0] * _STREAMS for _ in range(_STREAMS)])
    names: Names = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Start with the inputs and constants, and with every name taken."""
        program = self.program
        for name in (
            *(item.name for item in program.inputs),
            *(item.name for item in program.constants),
        ):
            self.groups[name] = _Group(names=1)
        self.names = Names(value_names(program))

    def add(self, line: BodyLine) -> None:
        """Add a line, on a stream, after what it has to wait for."""
        match line:
            case KernelCallLine() | ExternKernelLine():
                stream = self.draw(st.integers(0, _STREAMS - 1))
                line = evolve(line, stream=stream)
                reads, writes = self._accesses(line)
                self._launch(stream, reads, writes)
            case ConditionalLine() | WhileLoopLine() | SubgraphCallLine():
                if isinstance(line, ConditionalLine) and isinstance(
                    line.predicate, BufferRef
                ):
                    self._host_reads()
                names = [*uses(line), *_constants_in(line)]
                given = [self.groups[n] for n in names if n in self.groups]
                roots = [group.root() for group in given]
                placed = [inner for root in roots for inner in root.placed]
                self._launch(0, [], [*given, *roots, *placed])
            case AllocateLine(workspace=ZeroMode.ZERO_ON_CALL):
                self._define(line)
                self._launch(0, [], [self.groups[line.result]])
            case PlaceLine():
                self._place(line)
            case SymbolDefinitionLine(source=ItemOf()) | AssertNotNanLine():
                self._host_reads()
            case _:
                pass
        self.lines.append(line)
        self._define(line)
        if isinstance(line, ReuseLine):
            self._renew(self.groups[line.result])
        dropped = drops(line)
        if dropped is not None and dropped in self.groups:
            self.groups[dropped].names -= 1

    def _define(self, line: BodyLine) -> None:
        for name, _ in definitions(line):
            if name not in self.groups:
                group = self._group_of(line)
                group.names += 1
                self.groups[name] = group

    def _group_of(self, line: BodyLine) -> _Group:
        """Return the group of what a line defines."""
        match line:
            case ReinterpretLine() | ReuseLine() | MultiOutputLine():
                return self.groups[line.source]
            case ExternKernelLine(aliases=(first, *others)):
                group = self.groups[first]
                for name in others:
                    self._unite(group, self.groups[name])
                return group
            case ConditionalLine() | WhileLoopLine() | SubgraphCallLine():
                group = _Group()
                group.writes[0] = self.counts[0]
                return group
            case ExternKernelLine():
                group = _Group()
                group.writes[line.stream] = self.counts[line.stream]
                return group
            case _:
                return _Group()

    def _unite(self, group: _Group, other: _Group) -> None:
        if group is not other:
            group.names += other.names
            group.placed += other.placed
            group.pool = group.pool or other.pool
            for root in {id(g): g.root() for g in self.groups.values()}.values():
                root.placed = [group if g is other else g for g in root.placed]
            for clock, more in (
                (group.reads, other.reads),
                (group.writes, other.writes),
                (group.before, other.before),
            ):
                _raise_to(clock, more)
            for name, found in self.groups.items():
                if found is other:
                    self.groups[name] = group

    def _place(self, line: PlaceLine) -> None:
        pool = self.groups[line.pool]
        root = pool.root()
        group = _Group(names=1, pool=pool)
        _raise_to(group.before, root.writes)  # of blocks that it was lent to
        for other in root.placed:
            if other.names <= 0:
                for clock in (other.before, other.reads, other.writes):
                    _raise_to(group.before, clock)
        self.groups[line.result] = group
        if not isinstance(line.type, PoolType):
            root.placed.append(group)
        if line.workspace is ZeroMode.ZERO_ON_CALL:
            self._launch(0, [], [group])

    def _renew(self, group: _Group) -> None:
        """Have all later uses come after all until now: the memory has a new owner."""
        _raise_to(group.before, group.reads)
        _raise_to(group.before, group.writes)

    def _accesses(
        self, line: KernelCallLine | ExternKernelLine
    ) -> tuple[list[_Group], list[_Group]]:
        if isinstance(line, ExternKernelLine):
            return (
                [self.groups[name] for name in uses(line)],
                [self.groups[name] for name in line.writes],
            )
        (definition,) = (d for d in self.program.definitions if d.name == line.kernel)
        reads: list[_Group] = []
        writes: list[_Group] = []
        parameters = runtime_parameters(definition.parameters)
        for parameter, argument in zip(parameters, line.arguments, strict=True):
            if isinstance(parameter, TensorParameter) and isinstance(argument, BufferRef):
                group = self.groups[argument.name]
                (writes if parameter.access.writes else reads).append(group)
        return reads, writes

    def _launch(
        self, stream: int, reads: Sequence[_Group], writes: Sequence[_Group]
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
        self.counts[stream] += 1
        self.clocks[stream][stream] = self.counts[stream]
        for group in reads:
            group.reads[stream] = self.counts[stream]
        for group in writes:
            group.writes[stream] = self.counts[stream]

    def _wait(self, stream: int, other: int) -> None:
        if stream == other:  # what a stream was given is done before what it is given now
            return
        event = self.names.new(None, "event")
        self.lines.append(RecordEventLine(result=event, stream=other))
        self.lines.append(WaitEventLine(event=event, stream=stream))
        _raise_to(self.clocks[stream], self.clocks[other])

    def _host_reads(self) -> None:
        for clock in self.clocks:
            _raise_to(clock, self.counts)


def _raise_to(clock: Clock, other: Clock) -> None:
    for stream, count in enumerate(other):
        clock[stream] = max(clock[stream], count)


def _constants_in(line: BodyLine) -> Iterator[str]:
    """Yield the names that nested blocks use, those of constants among them."""
    for block in blocks_of(line):
        for inner in block.lines:
            yield from uses(inner)
            yield from _constants_in(inner)
