"""Stream and event actions of devices as data that emitters print.

Stream 0 is the caller's current stream.  Side streams begin after the work that the caller
gave stream 0 (a fork), and stream 0 continues after them (a join).  Each allocation has a
home stream, the first that uses it: PyTorch's allocator gives memory freed on a stream only
to that stream again.  The allocator is told of any other stream that uses the memory, so
that it waits for that stream before it gives the memory away.

The kinds of device are given, by default CUDA.  On others work runs in the order in which
it is submitted, so no actions are needed.
"""

from collections.abc import Collection, Generator, Iterable
from contextlib import contextmanager
from typing import TypeAlias, assert_never

from attrs import define, field, frozen

from wrapperir.emit.context import ProgramFacts
from wrapperir.ir import (
    AllocateLine,
    AllocatePoolLine,
    BufferRef,
    ExternKernelLine,
    GraphRegionLine,
    KernelCallLine,
    RecordEventLine,
    Stream,
    TensorType,
    WaitEventLine,
)
from wrapperir.ir.effects import Effects, Origin
from wrapperir.ir.line_effects import uses


def main_stream(stream: Stream) -> Stream:
    """Return stream 0 of a stream's device."""
    return Stream(stream.device, 0)


@frozen
class WaitStream:
    """``stream`` waits for all work that ``other`` was given."""

    stream: Stream
    other: Stream


@frozen
class RecordEvent:
    """``event`` marks the work that ``stream`` was given so far."""

    event: str
    stream: Stream


@frozen
class WaitEvent:
    """``stream`` waits for the work that ``event`` marks."""

    event: str
    stream: Stream


@frozen
class RecordUse:
    """The allocator is told that ``stream``, which is not its home, uses a tensor."""

    name: str
    stream: Stream


_CUDA = frozenset({"cuda"})

StreamAction: TypeAlias = WaitStream | RecordEvent | WaitEvent | RecordUse


@define
class StreamUses:
    """The side streams of a program, and the streams that use each allocation.

    ``kinds`` are the kinds of device whose streams count.  ``users`` lists streams by their
    first use, by the name that the memory was allocated under.
    """

    kinds: frozenset[str] = _CUDA
    side: dict[Stream, None] = field(factory=dict[Stream, None])
    users: dict[str, dict[Stream, None]] = field(factory=dict[str, dict[Stream, None]])
    _roots: dict[str, str] = field(factory=dict[str, str])

    def add(self, effects: Effects) -> None:
        """Count in one line; lines come in order, each before its nested blocks."""
        for made in effects.definitions:
            match made.origin:
                case Origin.ALLOCATED | Origin.PROGRAM | Origin.POOL:
                    self._roots[made.name] = made.name
                    self.users[made.name] = {}
                case Origin.PLACED | Origin.VIEW | Origin.MOVED:
                    if made.source in self._roots:
                        self._roots[made.name] = self._roots[made.source]
                case Origin.OPERATOR | Origin.BLOCK | Origin.ELEMENT | Origin.NONE:
                    pass  # not memory that the program allocates
                case _:
                    assert_never(made.origin)
        if effects.stream is not None and effects.stream.device.kind in self.kinds:
            if effects.stream.number:
                self.side.setdefault(effects.stream)
            for name in effects.uses if effects.launches else ():
                root = self._roots.get(name)
                if root is not None:
                    self.users[root].setdefault(effects.stream)


def stream_uses(effects: Collection[Effects], kinds: frozenset[str] = _CUDA) -> StreamUses:
    """Return the use that lines with these effects make of streams on kinds of device."""
    found = StreamUses(kinds)
    if any(e.stream is not None and e.stream.device.kind in kinds for e in effects):
        for line in effects:
            found.add(line)
    return found


@define(eq=False)
class _StreamMemory:
    """A storage's home stream, ``None`` if unknown, and the other streams told of."""

    home: Stream | None
    told: set[Stream] = field(factory=set[Stream])


class StreamPlanner:
    """Returns the actions that each line needs; none where all work is on stream 0.

    The methods are called in the order of the lines.
    """

    def __init__(self, facts: ProgramFacts, uses: StreamUses) -> None:
        """Plan for a program whose use of streams is ``uses``."""
        self._facts = facts
        self._users, self._kinds = uses.users, uses.kinds
        self._memory: dict[str, _StreamMemory] = {}
        self.side = tuple(uses.side)

    def fork(self) -> list[WaitStream]:
        """Return that each side stream waits for stream 0 of its device."""
        return [WaitStream(stream, main_stream(stream)) for stream in self.side]

    def join(self) -> list[WaitStream]:
        """Return that stream 0 of each device waits for its side streams."""
        return [WaitStream(main_stream(stream), stream) for stream in self.side]

    def allocate(self, line: AllocateLine | AllocatePoolLine) -> Stream | None:
        """Return the home of an allocation, the stream to allocate on; ``None`` for any."""
        home = next(iter(self._users.get(line.result, ())), None)
        self._memory[line.result] = _StreamMemory(home)
        return home

    def after_allocation(self, line: AllocateLine | AllocatePoolLine) -> list[WaitStream]:
        """Return that each stream that uses a new pool waits for its home.

        The streams may not have met since the memory, which had another use before, was
        allocated.  Of other memory, the program itself orders the uses.
        """
        if isinstance(line, AllocateLine):
            return []
        home, *others = self._users.get(line.result) or (None,)
        return [WaitStream(other, home) for other in others if home is not None]

    def alias(self, name: str, source: str) -> None:
        """Record that a name is an alias of another name's memory."""
        if source in self._memory:
            self._memory[name] = self._memory[source]

    def after_launch(self, line: KernelCallLine | ExternKernelLine) -> list[RecordUse]:
        """Return that a launch's stream uses memory that is not its own."""
        if line.device.kind not in self._kinds:
            return []
        stream = Stream(line.device, line.stream)
        actions = self.use(stream, uses(line))
        if isinstance(line, ExternKernelLine) and line.result is not None:
            self._memory[line.result] = _StreamMemory(None if line.aliases else stream)
        return actions

    def use(self, stream: Stream, names: Iterable[str]) -> list[RecordUse]:
        """Return that a stream uses the memory of names, where it is not its own."""
        actions: list[RecordUse] = []
        for name in names if self.side else ():
            type = self._facts.types.get(name)
            is_there = isinstance(type, TensorType) and type.device.kind in self._kinds
            if not is_there or name in self._facts.constants:
                continue
            memory = self._memory.setdefault(name, _StreamMemory(main_stream(stream)))
            if stream != memory.home and stream not in memory.told:
                memory.told.add(stream)
                actions.append(RecordUse(name, stream))
        return actions

    def enter_region(self, line: GraphRegionLine) -> list[RecordUse]:
        """Return that a region's stream uses its operands; its parameters alias them."""
        for parameter, operand in zip(line.body.parameters, line.operands, strict=True):
            if isinstance(operand, BufferRef):
                self.alias(parameter.name, operand.name)
        if line.device.kind not in self._kinds:
            return []
        return self.use(Stream(line.device, line.stream), uses(line))

    @contextmanager
    def in_recorded_block(
        self, line: GraphRegionLine, side: Collection[Stream]
    ) -> Generator[None]:
        """Plan for a region's block, which is recorded; ``side`` are its other streams.

        Replays do nothing of what the block tells the allocator.
        """
        outer, self.side = self.side, tuple(side)
        memory = [self._memory[name] for name in uses(line) if name in self._memory]
        told = [set(each.told) for each in memory]
        yield
        self.side = outer
        for each, streams in zip(memory, told, strict=True):
            each.told = streams

    def leave_region(self, line: GraphRegionLine) -> None:
        """Record that nothing is known of the homes of a region's results."""
        for result in line.results:
            self._memory[result.name] = _StreamMemory(None)

    def use_on_main(self, names: Iterable[str]) -> list[RecordUse]:
        """Return that stream 0 uses the memory of names: nested blocks and callers do."""
        actions: list[RecordUse] = []
        for name in names if self.side else ():
            memory = self._memory.get(name)
            if memory is not None and memory.home is not None:
                actions += self.use(main_stream(memory.home), (name,))
        return actions

    def record(self, line: RecordEventLine) -> list[RecordEvent]:
        """Return the recording of an event; none where it orders nothing."""
        if line.device.kind not in self._kinds or not self.side:
            return []
        return [RecordEvent(line.result, Stream(line.device, line.stream))]

    def wait(self, line: WaitEventLine) -> list[WaitEvent]:
        """Return the wait for an event; none where it orders nothing."""
        if line.device.kind not in self._kinds or not self.side:
            return []
        return [WaitEvent(line.event, Stream(line.device, line.stream))]
