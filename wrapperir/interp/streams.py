"""Vector clocks of the streams of a run.

Lines run in the order of the program.  A use that the program does not order after an
earlier conflicting use is a fault nevertheless, because another schedule may swap the two.
A clock counts, for each stream, the launches that are certainly done (Mattern, "Virtual
time and global states of distributed systems", 1989).
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping

from attrs import define, evolve, field, frozen

from wrapperir.diagnostics import Code, FaultError, LinePath, Note
from wrapperir.ir import Device, Stream

VectorClock = dict[Stream, int]


@frozen
class Event:
    """A point in a stream's work: the launches that are done by then."""

    clock: Mapping[Stream, int]


@frozen
class _Use:
    count: int
    path: LinePath


_LastUses = dict[Stream, _Use]
"""The last use on each stream."""


def _merge(into: _LastUses, others: Iterable[_LastUses]) -> None:
    for other in others:
        for stream, use in other.items():
            known = into.get(stream)
            if known is None or known.count < use.count:
                into[stream] = use


@define(eq=False)
class History:
    """Uses of a storage, and uses of its memory ``before`` this storage had it."""

    reads: _LastUses = field(factory=_LastUses)
    writes: _LastUses = field(factory=_LastUses)
    before: _LastUses = field(factory=_LastUses)

    def follow(self, others: Iterable["History"]) -> None:
        """Take over memory: all uses of it by ``others`` are past uses."""
        for other in others:
            _merge(self.before, (other.before, other.reads, other.writes))

    def renew(self) -> None:
        """Give the memory to a new owner: all uses are past uses."""
        _merge(self.before, (self.reads, self.writes))
        self.reads.clear()
        self.writes.clear()


@frozen(eq=False)
class Launch:
    """Work given to a stream; its uses must be ordered after conflicting ones."""

    device: Device
    stream: Stream
    path: LinePath
    clock: VectorClock

    def read(self, history: History, name: str) -> None:
        """Note that the work reads a storage; ``name`` is for the message.

        Raises:
            FaultError: it is not ordered after a write, or after a past owner's uses.
        """
        self._require(history.before, name, "reads", "used its memory before")
        self._require(history.writes, name, "reads", "writes it")
        history.reads[self.stream] = self._use()

    def write(self, history: History, name: str) -> None:
        """Note that the work writes a storage; ``name`` is for the message.

        Raises:
            FaultError: it is not ordered after a use, or after a past owner's uses.
        """
        self._require(history.before, name, "writes", "used its memory before")
        self._require(history.writes, name, "writes", "writes it")
        self._require(history.reads, name, "writes", "reads it")
        history.writes[self.stream] = self._use()

    def _use(self) -> _Use:
        return _Use(self.clock[self.stream], self.path)

    def _require(self, earlier: _LastUses, name: str, verb: str, other: str) -> None:
        for stream, use in earlier.items():
            if (
                use.count > self.clock.get(stream, 0)
                and stream.device == self.stream.device
            ):
                message = (
                    f"stream {self.stream.number} {verb} {name}, not ordered after "
                    f"stream {stream.number}, which {other}"
                )
                note = Note(message=f"on stream {stream.number} here", path=use.path)
                raise FaultError(Code.RUN_RACE, message, subject=name, notes=(note,))


@define(eq=False)
class StreamClocks:
    """The clocks of a run's streams; ``floor`` is the clock of the host.

    ``region`` is the stream of the current graph region, and its number in the run.
    """

    clocks: dict[Stream, VectorClock] = field(factory=dict[Stream, VectorClock])
    floor: VectorClock = field(factory=VectorClock)
    region: tuple[Stream, int] | None = None
    _regions: Iterator[int] = field(factory=lambda: itertools.count(1))

    def in_region(self, device: Device, number: int) -> "StreamClocks":
        """Return the same clocks for the work of a graph region on a stream."""
        return evolve(self, region=(self._stream(device, number), next(self._regions)))

    def _stream(self, device: Device, number: int) -> Stream:
        stream = Stream(device, number)
        if self.region is None or stream == self.region[0]:
            return stream
        return Stream(device, number, self.region[1])

    def launch(self, device: Device, number: int, path: LinePath) -> Launch:
        """Give work to a stream, ordered after all of the stream's earlier work."""
        stream = self._stream(device, number)
        clock = self._clock(stream)
        clock[stream] = clock.get(stream, 0) + 1
        return Launch(device, stream, path, clock)

    def record(self, device: Device, number: int) -> Event:
        """Return the point that a stream's work has reached."""
        return Event(dict(self._clock(self._stream(device, number))))

    def wait(self, device: Device, number: int, event: Event) -> None:
        """Order later work on a stream after an event."""
        _raise_to(self._clock(self._stream(device, number)), event.clock)

    def host_reads(self) -> None:
        """Have the host wait for all streams; later work comes after all earlier work."""
        for clock in self.clocks.values():
            _raise_to(self.floor, clock)
        for clock in self.clocks.values():
            clock.update(self.floor)

    def _clock(self, stream: Stream) -> VectorClock:
        if stream not in self.clocks:
            self.clocks[stream] = dict(self.floor)
        return self.clocks[stream]


def _raise_to(clock: VectorClock, other: Mapping[Stream, int]) -> None:
    for stream, count in other.items():
        clock[stream] = max(clock.get(stream, 0), count)
