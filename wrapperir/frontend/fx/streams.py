"""Streams and events of a graph: the current stream becomes a fact of each launch."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from attrs import evolve

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.frontend.aten.scope import GraphScope
from wrapperir.frontend.aten.values import lower_device
from wrapperir.frontend.fx.state import shared_of
from wrapperir.fx import stream_functions


def on_current_stream(scope: GraphScope, line: wir.BodyLine) -> wir.BodyLine:
    """Return a line with the current stream of its device."""
    if not isinstance(line, wir.ExternKernelLine | wir.KernelCallLine):
        return line
    for stream in reversed(shared_of(scope).current):
        if stream == wir.Stream(line.device, stream.number):
            return evolve(line, stream=stream.number)
    return line


def _lower_stream(scope: GraphScope, node: torch.fx.Node) -> None:
    device, number = node.args
    assert isinstance(device, torch.device)
    assert isinstance(number, int)
    shared_of(scope).streams[node] = wir.Stream(lower_device(device), number)


def _lower_enter(scope: GraphScope, node: torch.fx.Node) -> None:
    shared_of(scope).current.append(_stream(scope, node.args[0]))


def _lower_exit(scope: GraphScope, node: torch.fx.Node) -> None:
    shared_of(scope).current.pop()


def _lower_wait_stream(scope: GraphScope, node: torch.fx.Node) -> None:
    """Append an event on one stream and a wait for it on the other."""
    waits, other = (_stream(scope, value) for value in node.args)
    name = _record(scope, node, other)
    _wait(scope, node, waits, name)


def _lower_record_event(scope: GraphScope, node: torch.fx.Node) -> None:
    name = _record(scope, node, _stream(scope, node.args[0]))
    scope.values[node] = wir.BufferRef(name)


def _lower_wait_event(scope: GraphScope, node: torch.fx.Node) -> None:
    stream, event = node.args
    assert isinstance(event, torch.fx.Node)
    recorded = scope.values[event]
    assert isinstance(recorded, wir.BufferRef)
    _wait(scope, node, _stream(scope, stream), recorded.name)


def _lower_record_stream(scope: GraphScope, node: torch.fx.Node) -> None:
    """Append nothing: in a program, the emitter delays the reuse of memory."""


def _record(scope: GraphScope, node: torch.fx.Node, stream: wir.Stream) -> str:
    name = scope.new_name(node.name)
    scope.declare(name, wir.EventType(stream.device))
    scope.lines.append(
        wir.RecordEventLine(
            result=name,
            device=stream.device,
            stream=stream.number,
            provenance=scope.provenance(node),
        )
    )
    return name


def _wait(scope: GraphScope, node: torch.fx.Node, stream: wir.Stream, event: str) -> None:
    scope.lines.append(
        wir.WaitEventLine(
            event=event,
            device=stream.device,
            stream=stream.number,
            provenance=scope.provenance(node),
        )
    )


def _stream(scope: GraphScope, value: Any) -> wir.Stream:
    found = shared_of(scope).streams.get(value)
    if found is None:
        raise Code.UNSUPPORTED_ARGUMENT.error(
            f"{value} is not a stream that the graph asked for",
            hint="get streams from wrapperir.fx.stream_functions.stream",
        )
    return found


STREAMS: Mapping[Any, Callable[[GraphScope, torch.fx.Node], None]] = {
    stream_functions.stream: _lower_stream,
    stream_functions.enter_stream: _lower_enter,
    stream_functions.exit_stream: _lower_exit,
    stream_functions.wait_stream: _lower_wait_stream,
    stream_functions.record_event: _lower_record_event,
    stream_functions.wait_event: _lower_wait_event,
    stream_functions.record_stream: _lower_record_stream,
}
"""Handler of each stream function."""
