"""The order of work on streams, and which uses of memory are in none.

Vector clocks (Fidge, "Timestamps in message-passing systems that preserve the partial
ordering", 1988; Mattern, "Virtual time and global states of distributed systems", 1989)
say which work of other streams is done before what a stream does next.  A use is compared
with the last of each stream alone, and a write forgets what is ordered before it, as what
comes after the write comes after that, too (Flanagan and Freund, "FastTrack", 2009).
"""

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager

from attrs import define, field, frozen

from wrapperir.diagnostics import LinePath
from wrapperir.ir.types import Device, Stream

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
    """What was done, by stream, where an event was recorded."""

    era: int
    done: dict[Stream, int]


@define(eq=False)
class _Uses:
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
    """Who used some memory.  Once a fault was ``reported``, nothing more is said of it."""

    devices: dict[Device, _Uses] = field(factory=dict[Device, _Uses])
    reported: bool = False

    def on(self, device: Device) -> _Uses:
        """Return the uses on one device."""
        uses = self.devices.get(device)
        if uses is None:
            uses = self.devices[device] = _Uses()
        return uses


@frozen(eq=False)
class Conflict:
    """Two uses without an order; ``reuse`` where the earlier is of an earlier owner."""

    earlier: StreamUse
    later: StreamUse
    reuse: bool


@define(eq=False)
class Clocks:
    """What each stream knows to be done.

    All of earlier eras is.  In a block the host may wait, which is not known after it, so
    a use may be of a later era than the walk is.
    ``steps`` bounds the work for hostile programs, whose streams may be as many as their
    lines: where it is used up, all counts as ordered.
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
        """Return the point that a stream's work has reached."""
        known = self._known(stream)
        self.steps -= len(known)
        return RecordedEvent(self.era, {**known, stream: self.counts.get(stream, 0)})

    def record_all(self) -> RecordedEvent:
        """Return the point that all work given until here has reached."""
        self.steps -= len(self.counts)
        return RecordedEvent(self.era, dict(self.counts))

    def wait(self, stream: Stream, event: RecordedEvent) -> None:
        """Have what a stream is given from here on come after an event."""
        if event.era < self.era or self.steps < 0:
            return
        self.steps -= len(event.done)
        known = self._known(stream)
        for other, count in event.done.items():
            known[other] = max(known.get(other, 0), count)

    def wait_for_all(self) -> None:
        """Have all from here on, on every stream, come after all until here."""
        self._latest += 1
        self.era = self._latest
        self.done = {}

    @contextmanager
    def in_block(self) -> Generator[None]:
        """Forget afterwards what the host has waited for meanwhile."""
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
        """Note a use by the work last given to a stream; return what it conflicts with."""
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

    def _conflict(self, uses: _Uses, use: StreamUse) -> Conflict | None:
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
        """Have a new owner's uses come after all uses by ``others``, the old ones."""
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
