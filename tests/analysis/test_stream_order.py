"""The order of launches is what streams, events and the host's reads make of it."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from wrapperir import parse_program
from wrapperir.analysis import find_storages, order_streams
from wrapperir.ir import (
    CPU,
    AssertNotNanLine,
    Block,
    BodyLine,
    Device,
    ExternKernelLine,
    RecordEventLine,
    Stream,
    SubgraphCallLine,
    WaitEventLine,
)
from wrapperir.ir.line_effects import LineEffects

STREAMS = (0, 1, 2)
KINDS = ("launch", "launch", "record", "wait", "host", "block")


@st.composite
def stream_lines(draw: st.DrawFn) -> list[BodyLine]:
    """Draw launches, events and lines that meet, on three streams."""
    lines: list[BodyLine] = []
    events: list[str] = []
    for number in range(draw(st.integers(1, 14))):
        kind = draw(
            st.sampled_from(["launch", "launch", "record", "wait", "host", "block"])
        )
        stream = draw(st.sampled_from(STREAMS))
        if kind == "launch":
            lines.append(ExternKernelLine(operator="aten.neg.out", stream=stream))
        elif kind == "record":
            events.append(f"e{number}")
            lines.append(RecordEventLine(result=events[-1], stream=stream))
        elif kind == "wait" and events:
            event = draw(st.sampled_from(events))
            lines.append(WaitEventLine(event=event, stream=stream))
        elif kind == "host":
            lines.append(AssertNotNanLine(buffer="x"))
        elif kind == "block":
            lines.append(SubgraphCallLine(results=(), name="f", operands=(), body=Block()))
    return lines


def number_of(line: BodyLine) -> int | None:
    """Return the stream of a launch."""
    if isinstance(line, SubgraphCallLine):
        return 0
    return line.stream if isinstance(line, ExternKernelLine) else None


def ordered(lines: Sequence[BodyLine]) -> set[tuple[int, int]]:
    """Return every pair of launches of which the first surely comes before the second."""
    steps: set[tuple[int, int]] = set()
    for second, line in enumerate(lines):
        for first, earlier in enumerate(lines[:second]):
            met = isinstance(line, AssertNotNanLine) or isinstance(
                earlier, AssertNotNanLine
            )
            waits = (
                isinstance(line, WaitEventLine)
                and isinstance(earlier, RecordEventLine)
                and line.event == earlier.result
            )
            same = on_stream(line) is not None and on_stream(line) == on_stream(earlier)
            if met or waits or same:
                steps.add((first, second))
    while True:
        longer = {(a, d) for a, b in steps for c, d in steps if b == c} - steps
        if not longer:
            return steps
        steps |= longer


def on_stream(line: BodyLine) -> int | None:
    """Return the stream that a line stands on, events included."""
    if isinstance(line, RecordEventLine | WaitEventLine):
        return line.stream
    return number_of(line)


@given(lines=stream_lines())
def test_a_launch_is_settled_where_all_that_follows_is_ordered(
    lines: list[BodyLine],
) -> None:
    order = order_streams([LineEffects().visit(line) for line in lines])
    before = ordered(lines)
    launches = [n for n, line in enumerate(lines) if number_of(line) is not None]
    for launch in launches:
        stream = number_of(lines[launch])
        assert stream is not None
        settled = order.settled(launch, Stream(CPU, stream))
        unordered = [n for n in launches if n > launch and (launch, n) not in before]
        if order.is_trivial:
            assert not unordered
        assert settled == max([launch, *unordered]) + 1


def test_a_block_is_on_a_stream_that_nothing_else_is_on() -> None:
    lines = parse_program("""\
wrapperir 1

program @main(%x: f32[4]) {
  extern_kernel aten.zero_.default(%x) writes(%x) stream(1)
  subgraph_call @f (%x) {
    body (%p: f32[4]) {
      return
    }
  }
  extern_kernel aten.zero_.default(%x) writes(%x) stream(1)
  return
}
""").lines
    order = order_streams([LineEffects().visit(line) for line in lines])
    assert order.settled(0, Stream(CPU, 1)) == 2
    assert order.settled(1, Stream(CPU, 0)) == 3
    assert order.settled(1, Stream(Device("cuda"), 0)) == 2


def test_what_begins_as_zero_is_zeroed_on_stream_0() -> None:
    lines = parse_program("""\
wrapperir 1

program @main(%x: f32[4]) {
  extern_kernel aten.zero_.default(%x) writes(%x) stream(1)
  %a = allocate f32[4] workspace(zero_on_call)
  %pool = allocate_pool pool[64]
  %b = place f32[4] in %pool at 0 workspace(zero_on_call)
  extern_kernel aten.zero_.default(%x) writes(%x) stream(1)
  return
}
""").lines
    order = order_streams([LineEffects().visit(line) for line in lines])
    assert order.settled(1, Stream(CPU, 0)) == 5
    found = find_storages(lines, (), (), LineEffects())
    for name, line in (("a", 1), ("b", 3)):
        (storage,) = found.of_name[name]
        assert [(u.line, u.writes, u.stream) for u in storage.uses] == [
            (line, True, Stream(CPU))
        ]
