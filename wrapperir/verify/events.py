"""Checks of events, and of the streams of lines."""

from wrapperir.diagnostics import Code
from wrapperir.ir import Device, EventType, RecordEventLine, WaitEventLine
from wrapperir.verify.names import define, use
from wrapperir.verify.state import Role, State, StorageFacts, defined_note


def check_stream(state: State, device: Device, stream: int) -> None:
    """Check the device and the stream of a line."""
    fault = state.layouts.device_fault(device)
    if fault is not None:
        state.report_fault(fault)
    if stream == 0:
        return
    if stream < 0:
        state.report(
            Code.INVALID_PLACEMENT, f"{stream!r} is not the number of a stream", str(stream)
        )
    elif state.scope.depth:
        state.report(
            Code.NESTED_STREAM,
            f"a block is on stream 0, not on stream {stream}",
            f"stream({stream})",
            hint="move the line out of the block, or leave the stream out",
        )
    else:
        state.streams = True


def check_record_event(state: State, line: RecordEventLine) -> None:
    """Define an event."""
    check_stream(state, line.device, line.stream)
    type = state.layouts.event(line.device)
    define(state, line.result, type, Role.SCALAR, StorageFacts())


def check_wait_event(state: State, line: WaitEventLine) -> None:
    """Check that a line waits for an event of the same kind of device."""
    check_stream(state, line.device, line.stream)
    value = use(state, line.event)
    if value is None:
        return
    if not isinstance(value.type, EventType):
        state.report(
            Code.NOT_AN_EVENT,
            f"%{value.name} is not an event",
            f"%{value.name}",
            notes=(defined_note(value),),
            hint="record one with `record_event`",
        )
    elif value.type.device.kind != line.device.kind:
        state.report(
            Code.EVENT_ELSEWHERE,
            f"%{value.name} is an event of {value.type.device}, "
            f"for which no stream of {line.device} can wait",
            f"%{value.name}",
            notes=(defined_note(value),),
        )
