"""Calls of a program with marks: when each mark was reached."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from attrs import define, field, frozen

from wrapperir import ir as wir
from wrapperir.diagnostics import LinePath
from wrapperir.profiling.clocks import ProfileClock
from wrapperir.profiling.marks import TimeMark, marking


@frozen
class Hit:
    """A mark that was reached, and the host's time before and after what it does there."""

    mark: TimeMark
    begin: int
    end: int


@frozen
class TimedInterval:
    """The time of one line on the host or on a stream; without a path of none.

    ``hits`` are how many marks the host reached in it, and ``hits_ns`` how long it was busy
    there.
    """

    path: LinePath | None
    begin: int
    ns: int
    stream: wir.Stream | None = None
    hits: int = 0
    hits_ns: int = 0


@frozen(eq=False)
class MarkedCall:
    """One call: when it began and ended, what it reached, and the times of its events.

    ``end`` is when the host and all streams were done.  The events are those of the hits
    whose marks have streams, in order.
    """

    begin: int
    end: int
    returned: int
    hits: Sequence[Hit]
    events: Sequence[int]
    symbols: Mapping[str, wir.Number]

    @property
    def ns(self) -> int:
        """The time of the call."""
        return self.end - self.begin

    @property
    def entry(self) -> TimedInterval:
        """The host's time before the first mark."""
        return TimedInterval(None, self.begin, self.hits[0].begin - self.begin)

    @property
    def return_(self) -> TimedInterval:
        """The host's time after the last mark, until the call returned."""
        last = self.hits[-1].end
        return TimedInterval(None, last, self.returned - last)

    def host(self) -> Iterator[TimedInterval]:
        """Yield the host's time of each line in the order of the run.

        Intervals between marks at the start have no path.
        """
        for before, hit in zip(self.hits, self.hits[1:], strict=False):
            yield TimedInterval(hit.mark.path, before.end, hit.begin - before.end)

    def on_streams(self) -> Iterator[TimedInterval]:
        """Yield the time of each line on its stream, since the last mark on that stream.

        The stream may have been idle in a part of it.
        """
        last: dict[wir.Stream, tuple[int, int, int]] = {}
        events = iter(self.events)
        busy = 0
        for reached, hit in enumerate(self.hits):
            stream = hit.mark.stream
            at = 0 if stream is None else next(events)
            if stream is not None and stream in last:
                begin, *before = last[stream]
                hits, ns = reached - before[0], busy - before[1]
                yield TimedInterval(hit.mark.path, begin, at - begin, stream, hits, ns)
            if stream is not None:
                last[stream] = at, reached, busy
            busy += hit.end - hit.begin


@define(eq=False)
class CallRecorder:
    """Records calls of a program with marks."""

    clock: ProfileClock
    marks: Sequence[TimeMark]
    _hits: list[Hit] = field(factory=list[Hit], init=False)
    _symbols: dict[str, wir.Number] = field(factory=dict[str, wir.Number], init=False)

    def record(self, call: Callable[[], object], hold_ns: int = 0) -> MarkedCall:
        """Call a function; return which marks it reached, and when.

        With ``hold_ns`` each stream of a GPU is held that long before its first mark.
        """
        self._hits, self._symbols = [], {}
        held: set[wir.Stream] = set()

        def sink(number: int, value: "wir.Number | None") -> None:
            begin = self.clock.now()
            mark = self.marks[number]
            if mark.symbol is not None and value is not None:
                self._symbols[mark.symbol] = value
            if mark.stream is not None:
                if hold_ns and mark.stream not in held:
                    held.add(mark.stream)
                    self.clock.hold(mark.stream, hold_ns)
                self.clock.record(mark.stream)
            self._hits.append(Hit(mark, begin, self.clock.now()))

        self.clock.begin()
        with marking(sink):
            begin = self.clock.now()
            call()
            returned = self.clock.now()
            self.clock.wait()
            end = self.clock.now()
        events = self.clock.events()
        return MarkedCall(begin, end, returned, self._hits, events, self._symbols)
