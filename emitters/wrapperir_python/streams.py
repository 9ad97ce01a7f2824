"""Stream and event actions of CUDA devices in Python.

Side streams are made when the module is loaded.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import assert_never

from wrapperir.emit import Fragment, SourceWriter, fragment
from wrapperir.emit.python.expressions import format_int
from wrapperir.emit.stream_actions import (
    RecordEvent,
    RecordUse,
    StreamAction,
    WaitEvent,
    WaitStream,
    main_stream,
)
from wrapperir.ir import Stream
from wrapperir_python.context import PythonContext

_UNCHANGED = nullcontext()


def emit_actions(
    context: PythonContext,
    actions: Iterable[StreamAction],
    writer: SourceWriter | None = None,
) -> None:
    """Append ``cuda_0_stream_1.wait_stream(cuda_0_stream_0)`` and the like."""
    writer = context.writer if writer is None else writer
    for action in actions:
        stream = _stream_name(context, action.stream)
        match action:
            case WaitStream(other=other):
                other_name = _stream_name(context, other)
                writer.emit_line("{}.wait_stream({})", stream, other_name)
            case RecordEvent(event):
                name = context.values[event]
                writer.emit_line("{} = {}.record_event()", name, stream)
            case WaitEvent(event):
                writer.emit_line("{}.wait_event({})", stream, context.values[event])
            case RecordUse(name):
                writer.emit_line("{}.record_stream({})", context.values[name], stream)
            case _:
                assert_never(action)


def emit_begin(context: PythonContext, writer: SourceWriter) -> None:
    """Append the actions before the lines of a call, which are emitted already."""
    used = [*context.streams.side, *context.module.streams]
    for stream in dict.fromkeys(map(main_stream, used)):
        name, index = _stream_name(context, stream), format_int(stream.device.index or 0)
        writer.emit_line("{} = torch.cuda.current_stream({})", name, index)
    emit_actions(context, context.streams.fork(), writer)


def emit_zero(context: PythonContext, name: str) -> None:
    """Append ``buf0.zero_()``, after all work before it and before all work after it."""
    emit_actions(context, context.streams.join())
    context.writer.emit_line("{}.zero_()", context.values[name])
    emit_actions(context, context.streams.use_on_main((name,)))
    emit_actions(context, context.streams.fork())


def on_stream(
    context: PythonContext, stream: Stream | None
) -> AbstractContextManager[None]:
    """Append the lines of the ``with`` block on a stream, unless it is current already."""
    if stream is None or not stream.number or stream == context.region_stream:
        return _UNCHANGED
    context.writer.emit_line("with torch.cuda.stream({}):", _stream_name(context, stream))
    return context.writer.indented()


def _stream_name(context: PythonContext, stream: Stream) -> Fragment:
    module = context.module
    name = module.streams.get(stream)
    if name is None:
        index = stream.device.index or 0
        wanted = f"cuda_{index}_stream_{stream.number}"
        if stream.number:
            made = fragment("torch.cuda.Stream({})", format_int(index))
            name = module.bind_new(made, wanted)
        else:
            name = module.names.claim(wanted)
        module.streams[stream] = name
    return name
