"""Vector clocks of streams, and conflicts between uses that they do not order.

Vector clocks (Fidge, "Timestamps in message-passing systems that preserve the partial
ordering", 1988; Mattern, "Virtual time and global states of distributed systems", 1989)
count, for each stream, the work of every other stream that is done before the stream's
next work.  A use is compared with the last use of each stream only.  A write clears the
uses before it, as work after the write is ordered after those, too (Flanagan and Freund,
"FastTrack", 2009).
"""

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager

from attrs import define, field, frozen

from wrapperir.diagnostics import LinePath
from wrapperir.ir import Device, Stream

_MOST_STEPS = 5_000_000


@frozen(eq=False)
class StreamUse:
    """A use of memory: the ``count``-th work that a stream was given.

    ``era`` grows each time that the host waits for all streams.
    """

    stream: Stream
    count: int
    era: int
    writes: bool
    name: str
    path: LinePath


@frozen(eq=False)
class RecordedEvent:
    """The work of each stream that is done when an event is reached."""

    era: int
    done: dict[Stream, int]


@define(eq=False)
class _DeviceUses:
    """The last uses on each stream of one device; ``before`` are of earlier owners."""

    reads: dict[Stream, StreamUse] = field(factory=dict[Stream, StreamUse])
    writes: dict[Stream, StreamUse] = field(factory=dict[Stream, StreamUse])
    before: dict[Stream, StreamUse] = field(factory=dict[Stream, StreamUse])

    def all(self) -> Iterator[StreamUse]:
        yield from self.before.values()
        yield from self.writes.values()
        yield from self.reads.values()


@define(eq=False)
class UseHistory:
    """The uses of some memory.  After one conflict was ``reported``, no other one is."""

    devices: dict[Device, _DeviceUses] = field(factory=dict[Device, _DeviceUses])
    reported: bool = False

    def on(self, device: Device) -> _DeviceUses:
        """Return the uses on one device."""
        uses = self.devices.get(device)
        if uses is None:
            uses = self.devices[device] = _DeviceUses()
        return uses


@frozen(eq=False)
class Conflict:
    """Two unordered uses; with ``reuse``, the earlier use is by an earlier owner."""

    earlier: StreamUse
    later: StreamUse
    reuse: bool


@define(eq=False)
class Clocks:
    """The vector clock of each stream.

    All work of earlier eras is done.  A wait of the host in a block does not count after
    the block, so a use may be of a later era than the walk is in.  ``steps`` bounds the
    work for hostile programs with as many streams as lines: when it is used up, all uses
    count as ordered.
    """

    era: int = 0
    counts: dict[Stream, int] = field(factory=dict[Stream, int])
    done: dict[Stream, dict[Stream, int]] = field(factory=dict[Stream, dict[Stream, int]])
    steps: int = _MOST_STEPS
    _latest: int = 0

    def launch(self, stream: Stream) -> None:
        """Give work to a stream."""
        self.counts[stream] = self.counts.get(stream, 0) + 1

    def record(self, stream: Stream) -> RecordedEvent:
        """Return an event of the work given to a stream so far."""
        known = self._known(stream)
        self.steps -= len(known)
        return RecordedEvent(self.era, {**known, stream: self.counts.get(stream, 0)})

    def record_all(self) -> RecordedEvent:
        """Return an event of the work given to all streams so far."""
        self.steps -= len(self.counts)
        return RecordedEvent(self.era, dict(self.counts))

    def wait(self, stream: Stream, event: RecordedEvent) -> None:
        """Order later work of a stream after an event."""
        if event.era < self.era or self.steps < 0:
            return
        self.steps -= len(event.done)
        known = self._known(stream)
        for other, count in event.done.items():
            known[other] = max(known.get(other, 0), count)

    def wait_for_all(self) -> None:
        """Order later work of all streams after all work so far."""
        self._latest += 1
        self.era = self._latest
        self.done = {}

    @contextmanager
    def in_block(self) -> Generator[None]:
        """Forget the host's waits in the ``with`` block at its end."""
        era, done = self.era, self.done
        yield
        self.era, self.done = era, done

    def _known(self, stream: Stream) -> dict[Stream, int]:
        return self.done.setdefault(stream, {})

    def use(
        self,
        history: UseHistory,
        stream: Stream,
        name: str,
        path: LinePath,
        *,
        writes: bool,
    ) -> Conflict | None:
        """Note a use by a stream's last work; return a conflict with an earlier use."""
        use = StreamUse(stream, self.counts[stream], self.era, writes, name, path)
        uses = history.on(stream.device)
        conflict: Conflict | None = None
        if not history.reported:
            conflict = self._conflict(uses, use)
            history.reported = conflict is not None
        if writes:
            uses.before.clear()
            uses.reads.clear()
            uses.writes.clear()
            uses.writes[stream] = use
        else:
            uses.reads[stream] = use
        return conflict

    def _conflict(self, uses: _DeviceUses, use: StreamUse) -> Conflict | None:
        known = self.done.get(use.stream, {})
        earlier = [*uses.before.values(), *uses.writes.values()]
        if use.writes:
            earlier += uses.reads.values()
        self.steps -= len(earlier)
        if self.steps < 0:
            return None
        for other in earlier:
            if (
                other.stream != use.stream
                and other.era >= self.era
                and other.count > known.get(other.stream, 0)
            ):
                return Conflict(other, use, uses.before.get(other.stream) is other)
        return None

    def follow(self, history: UseHistory, others: Iterable[UseHistory]) -> None:
        """Require that uses by a new owner come after those by ``others``, the old ones."""
        for other in others:
            if other.reported:
                continue
            for device, uses in other.devices.items():
                before = history.on(device).before
                for use in list(uses.all()):
                    self.steps -= 1
                    last = before.get(use.stream)
                    if use.era >= self.era and (last is None or last.count <= use.count):
                        before[use.stream] = use

    def renew(self, history: UseHistory) -> None:
        """Give memory to a new owner."""
        old = UseHistory(dict(history.devices), history.reported)
        history.devices = {}
        self.follow(history, (old,))
