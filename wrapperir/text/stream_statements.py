"""Devices, streams and the events that order them, read from text."""

from wrapperir.ir.line import BodyLine, RecordEventLine, WaitEventLine
from wrapperir.ir.types import Device
from wrapperir.text.cursor import Cursor
from wrapperir.text.literals import parse_integer
from wrapperir.text.provenance import parse_ending
from wrapperir.text.type_syntax import parse_device


def parse_on(cursor: Cursor) -> tuple[Device, int]:
    """Take ``@cuda:0 stream(1)``; the CPU and stream 0 where either is left out."""
    device = parse_device(cursor)
    if not cursor.accept("stream"):
        return device, 0
    cursor.expect("(")
    stream = parse_integer(cursor)
    cursor.expect(")")
    return device, stream


def parse_record_event(cursor: Cursor, result: str) -> BodyLine:
    """Take what follows ``record_event``."""
    device, stream = parse_on(cursor)
    return RecordEventLine(
        result=result, device=device, stream=stream, provenance=parse_ending(cursor)
    )


def parse_wait_event(cursor: Cursor) -> BodyLine:
    """Take what follows ``wait_event``."""
    event = cursor.value()
    device, stream = parse_on(cursor)
    return WaitEventLine(
        event=event, device=device, stream=stream, provenance=parse_ending(cursor)
    )
