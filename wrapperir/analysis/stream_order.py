"""The order of a block's launches that streams and events establish.

Vector clocks (Fidge, 1988; Mattern, 1989): each stream counts its launches and knows, of
every other stream, how many launches are ordered before what it does next.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence

from attrs import define, field

from wrapperir.ir import Stream
from wrapperir.ir.effects import Actor, Effects
from wrapperir.ir.line_effects import stream_of


@define
class StreamOrder:
    """The launches on each stream, and when other streams know of them.

    ``launches`` has the lines of a stream's launches; ``seen`` has, for a pair of
    streams, how many launches of the second come before each launch of the first.
    """

    launches: dict[Stream, list[int]] = field(factory=dict[Stream, list[int]])
    seen: dict[tuple[Stream, Stream], list[int]] = field(
        factory=dict[tuple[Stream, Stream], list[int]]
    )

    @property
    def is_trivial(self) -> bool:
        """Whether no two streams of one device are used, so that lines are in order."""
        devices = [stream.device for stream in self.launches]
        return len(set(devices)) == len(devices)

    def settled(
        self,
        line: int,
        stream: Stream,
        among: Mapping[Stream, Sequence[int]] | None = None,
    ) -> int:
        """Return the first line from which on launches come after that of ``line``.

        ``stream`` is the stream of the launch at ``line``.  Only the launches ``among``
        are considered, by stream and in order; all of them if it is ``None``.  Streams of
        other devices are always ordered.
        """
        latest = line + 1
        if stream not in self.launches:
            return latest
        number = bisect_left(self.launches[stream], line) + 1
        for other, lines in (self.launches if among is None else among).items():
            if other == stream or other.device != stream.device:
                continue
            unordered = bisect_left(self.seen[other, stream], number)
            if unordered:
                last = bisect_right(lines, self.launches[other][unordered - 1])
                latest = max(latest, lines[last - 1] + 1 if last else 0)
        return latest


def order_streams(found: Sequence[Effects]) -> StreamOrder:
    """Return the order of the launches in one block, whose lines have these effects.

    A line with blocks is a launch on its stream, if it has one, else on stream 0 of each
    device that lines launch on.  Workspaces are zeroed on stream 0.  A loop may wait for
    its condition; that is not counted as an order.
    """
    known = list(dict.fromkeys(stream for effects in found for stream in _streams(effects)))
    if any(effects.blocks and effects.stream is None for effects in found):
        known = list(dict.fromkeys((*known, *(Stream(on.device) for on in known))))
    order = StreamOrder()
    for stream in known:
        order.launches[stream] = []
        for other in known:
            order.seen[stream, other] = []
    clocks = {stream: dict.fromkeys(known, 0) for stream in known}
    events: dict[str, dict[Stream, int]] = {}
    for index, effects in enumerate(found):
        if effects.host_waits:
            _meet(clocks, order)
        if effects.blocks and effects.stream is None:
            for stream in known:
                if stream.number == 0:
                    _launch(order, clocks, stream, index)
            continue
        for stream in _streams(effects):
            clock = clocks[stream]
            if effects.records is not None:
                events[effects.records] = dict(clock)
            elif effects.awaits is not None:
                for other, number in events.get(effects.awaits, {}).items():
                    clock[other] = max(clock[other], number)
            else:
                _launch(order, clocks, stream, index)
    return order


def _streams(effects: Effects) -> Iterator[Stream]:
    """Yield the streams that a line launches on or orders."""
    if effects.stream is not None:
        yield effects.stream
    elif effects.device is not None:
        for access in effects.accesses:
            if access.by is Actor.STREAM_0:
                yield stream_of(effects.device)


def _launch(
    order: StreamOrder, clocks: dict[Stream, dict[Stream, int]], stream: Stream, line: int
) -> None:
    clock = clocks[stream]
    for other, number in clock.items():
        order.seen[stream, other].append(number)
    order.launches[stream].append(line)
    clock[stream] = len(order.launches[stream])


def _meet(clocks: dict[Stream, dict[Stream, int]], order: StreamOrder) -> None:
    """Have every stream come after all that was launched."""
    for clock in clocks.values():
        for stream, lines in order.launches.items():
            clock[stream] = len(lines)
