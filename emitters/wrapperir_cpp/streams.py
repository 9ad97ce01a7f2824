"""Streams, events and memory of devices in C++; no code for programs on the CPU alone.

Stream 0 is PyTorch's current stream.  Side streams belong to the frame: they begin after
the work that stream 0 was given, and stream 0 continues after them.  The runtime's
``DeviceCall`` makes the waits of forks and joins.  A program with side streams frees its
memory after they have joined, at the end of the call or of a graph region, so that the
toolkit's records of streams that use a tensor are not needed.
"""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import LiteralString

from wrapperir.emit import Fragment, SourceWriter, fragment, joined
from wrapperir.emit.arena import plain_device
from wrapperir.ir import Device, KernelCallLine, RecordEventLine, Stream, WaitEventLine
from wrapperir_cpp.context import Context
from wrapperir_cpp.literals import format_int


def format_device_call(context: Context, device: Device) -> Fragment:
    """Return the call's use of a device, a ``DeviceCall*``."""
    return fragment("c.{}", context.device_names[plain_device(device)])


def format_stream(context: Context, line: KernelCallLine) -> list[Fragment]:
    """Return a call's device and the number of its stream; nothing on the CPU."""
    if context.table_of(line.device) is None:
        return []
    call = fragment("*{}", format_device_call(context, line.device))
    return [call, format_stream_number(context, line.device, line.stream)]


def format_stream_handle(context: Context, device: Device, stream: int) -> Fragment:
    """Return a stream as the device's functions take it, a ``void*``."""
    call = format_device_call(context, device)
    return fragment("{}->stream({})", call, format_stream_number(context, device, stream))


def emit_plans(context: Context, writer: SourceWriter) -> None:
    """Append a table of the streams, events and memory of each device."""
    survey, arena = context.devices, context.arena
    events = Counter(device for device, _ in survey.events.values())
    for device in survey.devices:
        block, kept = arena.regions.get(device), arena.kept.get(device)
        numbers = [
            *(device.index or 0, survey.stream_count(device), events[device]),
            *(block.bytes if block else 0, kept.bytes if kept else 0),
        ]
        writer.emit_line(
            "constexpr DevicePlan {}_plan = {{{}}};",
            context.device_names[device],
            joined(", ", map(format_int, numbers)),
        )


def emit_block_begin(context: Context, index: int) -> None:
    """Append the taking of the blocks of memory that the program's line is the first in.

    Blocks of calls with several streams are there from the call's begin to its end.
    """
    for device, name in context.device_names.items() if not context.devices.streams else ():
        region = context.arena.regions.get(device)
        if region is not None and region.begin == index:
            context.writer.emit_line("c.{}->take_block({});", name, format_int(index))


def emit_block_end(context: Context, index: int) -> None:
    """Append the dropping of the blocks of memory that the line is the last in."""
    for device, name in context.device_names.items():
        region = context.arena.regions.get(device)
        if region is not None and region.end == index:
            context.writer.emit_line("c.{}->drop_block();", name)


def emit_begin(context: Context, writer: SourceWriter) -> None:
    """Append the lines before the definition of ``c``; the first device is then current."""
    for device, name in reversed(context.device_names.items()):
        table = context.table_of(device)
        assert table is not None
        assert table.functions is not None
        writer.emit_line(
            "DeviceCall {}({}, *context.devices, {}_plan);",
            *(name, fragment(table.functions), name),
        )


def emit_guards(context: Context, writer: SourceWriter) -> None:
    """Append the lines after the definition of ``c``: members, and ends after failures."""
    for name in context.device_names.values():
        writer.emit_line("c.{} = &{};", name, name)
        writer.emit_line("DeviceEnd {}_end({});", name, name)


def emit_end(context: Context, writer: SourceWriter) -> None:
    """Append the joining of all streams, after all lines."""
    for name in context.device_names.values():
        writer.emit_line("c.{}->end(-1);", name)


def emit_join(context: Context) -> None:
    """Append that each stream 0 waits for its side streams: the host is about to read."""
    _emit_for_streams(context, "join")


def emit_fork(context: Context) -> None:
    """Append that the side streams wait for each stream 0."""
    _emit_for_streams(context, "fork")


def emit_fork_from(context: Context, device: Device, stream: int) -> None:
    """Append that the other streams of a device wait for one."""
    number = format_stream_number(context, device, stream)
    _emit(context, device, "fork", context.line_number(), number)


def _emit_for_streams(context: Context, function: LiteralString) -> None:
    for device in context.devices.devices:
        if context.devices.stream_count(device):
            _emit(context, device, function, context.line_number())


def emit_device_zero(
    context: Context, device: Device, address: Fragment, bytes: Fragment
) -> None:
    """Append the zeroing of memory, after all earlier and before all later work."""
    with on_stream(context, device):
        _emit(context, device, "zero", address, bytes, context.line_number())


@contextmanager
def on_stream(
    context: Context, device: Device, stream: int | None = None
) -> Generator[None]:
    """Put the lines that are appended meanwhile on a device and its stream.

    ``None`` is any stream of the device.
    """
    outer, wanted = context.current_stream, Stream(device, stream or 0)
    if stream is None and outer is not None and outer.device == wanted.device:
        wanted = outer
    if plain_device(device) not in context.devices.devices or wanted == outer:
        yield
        return
    context.current_stream = wanted
    writer = context.writer
    writer.emit_line("{{")
    with writer.indented():
        writer.emit_line(
            "OnStream on(*{}, {}, {});",
            format_device_call(context, device),
            format_stream_number(context, device, wanted.number),
            context.line_number(),
        )
        yield
    writer.emit_line("}}")
    context.current_stream = outer


@contextmanager
def allocating(context: Context, name: str, device: Device) -> Generator[None]:
    """Put the allocation that is appended meanwhile on the stream of its first use."""
    home = context.devices.homes.get(name)
    is_here = home is not None and home.device == Stream(device).device
    with on_stream(context, device, home.number if home and is_here else None):
        yield


def emit_record(context: Context, line: RecordEventLine) -> None:
    """Append ``c.cuda_0->record(0, 1, 12);``; nothing on the CPU."""
    if line.result not in context.devices.events:
        return
    device, number = context.devices.events[line.result]
    stream = format_stream_number(context, line.device, line.stream)
    _emit(context, device, "record", format_int(number), stream, context.line_number())


def emit_wait(context: Context, line: WaitEventLine) -> None:
    """Append ``c.cuda_0->wait(*c.cuda_0, 0, 2, 14);``; nothing on the CPU."""
    if line.event not in context.devices.events:
        return
    device, number = context.devices.events[line.event]
    stream = format_stream_number(context, line.device, line.stream)
    recorded = fragment("*{}", format_device_call(context, device))
    parts = recorded, format_int(number), stream, context.line_number()
    _emit(context, line.device, "wait", *parts)


def format_stream_number(context: Context, device: Device, stream: int) -> Fragment:
    """Return a stream's number in the emitted program."""
    return format_int(context.devices.streams[Stream(device, stream)] if stream else 0)


def _emit(
    context: Context, device: Device, function: LiteralString, *arguments: Fragment
) -> None:
    context.writer.emit_line(
        "{}->{}({});",
        *(format_device_call(context, device), fragment(function)),
        joined(", ", arguments),
    )
