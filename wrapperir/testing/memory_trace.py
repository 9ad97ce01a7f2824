"""One way through a program, as memory and streams see it: allocations, drops, launches.

A *trace* is filled by :mod:`wrapperir.testing.memory_walk`; nothing is executed.
"""

from collections.abc import Iterator, Sequence

from attrs import define, field, frozen

from wrapperir.diagnostics import LinePath
from wrapperir.ir import Device, Stream, ValueType


@frozen
class TracedUse:
    """A use of a memory by a launch, with the owner of the memory at that time."""

    node: int
    writes: bool
    owner: int


@define(eq=False)
class TracedMemory:
    """A memory that the line at ``path`` begins: its place, live range and uses.

    ``begin`` and ``end`` are times of the trace, ``owner`` counts its reuses.
    ``pool`` is the memory that it is placed in, ``offset`` its byte offset from the
    outermost pool.
    """

    path: LinePath
    nbytes: int
    begin: int
    counted: bool
    is_pool: bool = False
    pool: "TracedMemory | None" = None
    offset: int = 0
    end: int | None = None
    names: int = 0
    owner: int = 0
    uses: list[TracedUse] = field(factory=list[TracedUse])

    def pools(self) -> "Iterator[TracedMemory]":
        """Yield the pool that it is placed in, the pool of that, and so on."""
        pool = self.pool
        while pool is not None:
            yield pool
            pool = pool.pool


@frozen(eq=False)
class TracedValue:
    """The value of a name: memories, the elements of a tuple, or an event's launch."""

    memories: tuple[TracedMemory, ...] = ()
    elements: tuple["TracedValue", ...] = ()
    type: ValueType | None = None
    event: int = 0

    def typed(self, type: ValueType) -> "TracedValue":
        """Return the value with another type."""
        return TracedValue(self.memories, self.elements, type)

    def all(self) -> Iterator[TracedMemory]:
        """Yield the memories, elements included."""
        yield from self.memories
        for element in self.elements:
            yield from element.all()


@define(eq=False)
class Trace:
    """One way through a program.

    ``before`` has a bit mask for each launch, wait or read by the host: the launches that
    are certainly done by then.  ``live`` counts the bytes that are allocated, each memory
    rounded up to ``unit``; ``peak`` is its maximum.
    """

    choices: Sequence[bool]
    unit: int
    memories: list[TracedMemory] = field(factory=list[TracedMemory])
    before: list[int] = field(factory=list[int])
    paths: list[LinePath] = field(factory=list[LinePath])
    devices: list[Device] = field(factory=list[Device])
    last: dict[Stream, int] = field(factory=dict[Stream, int])
    kept: dict[LinePath, TracedMemory] = field(factory=dict[LinePath, TracedMemory])
    done_by_host: int = 0
    asked: int = 0
    time: int = 0
    live: int = 0
    peak: int = 0

    def choose(self) -> bool:
        """Return whether the next predicate holds, or the next loop iterates."""
        self.asked += 1
        return self.choices[(self.asked - 1) % len(self.choices)] if self.choices else True

    def node(self, path: LinePath, stream: Stream, *after: int) -> int:
        """Add a launch or wait on a stream, which also comes after the nodes ``after``."""
        device = stream.device
        previous = self.last.get(stream)
        done = self.done_by_host
        for index in (*after, *([] if previous is None else [previous])):
            done |= self.before[index] | 1 << index
        for index, other in enumerate(self.devices):
            if other != device:  # copies between devices wait
                done |= self.before[index] | 1 << index
        self.before.append(done)
        self.paths.append(path)
        self.devices.append(device)
        self.last[stream] = len(self.before) - 1
        return len(self.before) - 1

    def host_reads(self) -> None:
        """Have the host wait for everything."""
        self.done_by_host = (1 << len(self.before)) - 1

    def begin(self, path: LinePath, nbytes: int, *, counted: bool = True) -> TracedMemory:
        """Begin a memory; it is counted until its last name is dropped."""
        memory = TracedMemory(path, nbytes, self.time, counted)
        self.memories.append(memory)
        if counted:
            self.live += self.rounded(nbytes)
            self.peak = max(self.peak, self.live)
        return memory

    def rounded(self, nbytes: int) -> int:
        """Return bytes rounded up to the unit."""
        return -(-nbytes // self.unit) * self.unit

    def use(self, value: TracedValue, node: int, *, writes: bool) -> None:
        """Note that a launch uses a value's memories."""
        for memory in value.all():
            memory.uses.append(TracedUse(node, writes, memory.owner))

    def keep(self, value: TracedValue) -> None:
        """Count a name of a value's memories."""
        for memory in value.all():
            memory.names += 1

    def drop(self, value: TracedValue) -> None:
        """Count one name less; without names, a memory ends and its pool loses a name."""
        for memory in value.all():
            self._drop(memory)

    def _drop(self, memory: TracedMemory) -> None:
        memory.names -= 1
        if memory.names or memory.end is not None:
            return
        memory.end = self.time
        if memory.counted:
            self.live -= self.rounded(memory.nbytes)
        if memory.pool is not None:
            self._drop(memory.pool)
