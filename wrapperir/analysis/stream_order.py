"""Which launches of a block are ordered before which, by streams and events.

Vector clocks (Fidge, 1988; Mattern, 1989): each stream counts its launches and knows, of
every other stream, how many launches are ordered before what it does next.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

from attrs import define, field

from wrapperir.ir.blocks import blocks_of
from wrapperir.ir.line import (
    AllocateLine,
    AssertNotNanLine,
    BodyLine,
    BufferRef,
    ConditionalLine,
    ExternKernelLine,
    ItemOf,
    KernelCallLine,
    PlaceLine,
    RecordEventLine,
    SubgraphCallLine,
    SymbolDefinitionLine,
    WaitEventLine,
    WhileLoopLine,
    ZeroMode,
)
from wrapperir.verify.streams import Stream, stream_of


@define
class StreamOrder:
    """The launches on each stream, and when other streams know of them.

    ``launches`` has the lines of a stream's launches; ``seen`` has, for a pair of
    streams, how many launches of the second come before each launch of the first.
    """

    count: int
    launches: dict[Stream, list[int]] = field(factory=dict[Stream, list[int]])
    seen: dict[tuple[Stream, Stream], list[int]] = field(
        factory=dict[tuple[Stream, Stream], list[int]]
    )

    @property
    def is_trivial(self) -> bool:
        """Whether no two streams of one device are used, so that lines are in order."""
        devices = [device for device, _ in self.launches]
        return len(set(devices)) == len(devices)

    def settled(
        self,
        line: int,
        stream: Stream,
        among: Mapping[Stream, Sequence[int]] | None = None,
    ) -> int:
        """Return the first line from which on all of some launches come after one.

        The one is that at ``line`` on ``stream``; the others are those at the lines that
        ``among`` has, in order, of their streams; all launches if ``None``.  Only streams
        of the same device can be unordered with it.
        """
        latest = line + 1
        if stream not in self.launches:
            return latest
        number = bisect_left(self.launches[stream], line) + 1
        for other, lines in (self.launches if among is None else among).items():
            if other == stream or other[0] != stream[0]:
                continue
            unordered = bisect_left(self.seen[other, stream], number)
            if unordered:
                last = bisect_right(lines, self.launches[other][unordered - 1])
                latest = max(latest, lines[last - 1] + 1 if last else 0)
        return latest


def order_streams(lines: Sequence[BodyLine]) -> StreamOrder:
    """Return the order of the launches in one block.

    A line with blocks is a launch on stream 0 of each device that lines launch on; what
    begins as zero is zeroed there.  That a loop may read its condition on the host is not
    counted on.
    """
    streams = dict.fromkeys(_stream_of(line) for line in lines)
    if any(blocks_of(line) for line in lines):
        streams |= dict.fromkeys((on[0], 0) for on in streams if on is not None)
    known = [stream for stream in streams if stream is not None]
    order = StreamOrder(len(lines))
    for stream in known:
        order.launches[stream] = []
        for other in known:
            order.seen[stream, other] = []
    clocks = {stream: dict.fromkeys(known, 0) for stream in known}
    events: dict[str, dict[Stream, int]] = {}
    for index, line in enumerate(lines):
        if isinstance(line, RecordEventLine):
            events[line.result] = dict(clocks.get(stream_of(line.device, line.stream), {}))
        elif isinstance(line, WaitEventLine):
            clock = clocks.get(stream_of(line.device, line.stream))
            for stream, number in events.get(line.event, {}).items():
                if clock is not None:
                    clock[stream] = max(clock[stream], number)
        elif isinstance(line, ConditionalLine | WhileLoopLine | SubgraphCallLine):
            if _reads_on_host(line):
                _meet(clocks, order)
            for stream in known:
                if stream[1] == 0:
                    _launch(order, clocks, stream, index)
        elif _reads_on_host(line):
            _meet(clocks, order)
        else:
            on = _stream_of(line)
            if on is not None:
                _launch(order, clocks, on, index)
    return order


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


def _reads_on_host(line: BodyLine) -> bool:
    match line:
        case SymbolDefinitionLine(source=source):
            return isinstance(source, ItemOf)
        case ConditionalLine(predicate=predicate):
            return isinstance(predicate, BufferRef)
        case AssertNotNanLine():
            return True
        case _:
            return False


def _stream_of(line: BodyLine) -> Stream | None:
    match line:
        case KernelCallLine() | ExternKernelLine() | RecordEventLine() | WaitEventLine():
            return stream_of(line.device, line.stream)
        case (
            AllocateLine(workspace=ZeroMode.ZERO_ON_CALL)
            | PlaceLine(workspace=ZeroMode.ZERO_ON_CALL)
        ):
            return stream_of(line.type.device, 0)
        case _:
            return None
