"""Streams and events as nodes.

A side stream is current only while its work is launched, so that the current stream is
stream 0 wherever else a graph asks for it; nested graphs use stream 0 only, unless they
are those of graph regions.  Triton
launches on the current device: a program with such launches makes their device current for
the whole call.  On other devices than GPUs, work runs in the order in which it is
submitted: streams have names and do nothing.
"""

from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch.fx import Node

from wrapperir import ir as wir
from wrapperir.emit.context import ProgramFacts
from wrapperir.emit.stream_actions import (
    RecordUse,
    StreamPlanner,
    StreamUses,
    WaitStream,
    stream_uses,
)
from wrapperir.emit.torch_dtypes import torch_device
from wrapperir.fx import stream_functions
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.mentions import buffers_in
from wrapperir_fx.context import GraphContext, GraphValue

_ZERO = torch.ops.aten.zero_.default
_UNCHANGED = nullcontext()


def find_gpu_streams(facts: ProgramFacts) -> tuple[StreamUses, int | None]:
    """Return the uses of side streams, and the GPU to make current during a call.

    That is ``None`` where any GPU may be current: no kernel is launched on a GPU, or only
    on one without an index.
    """
    current: int | None = None
    unnamed = side = False
    for line in walk_lines(facts.program.lines):
        if isinstance(line, wir.KernelCallLine | wir.ExternKernelLine) and _on_gpu(
            line.device
        ):
            side = side or line.stream != 0
            unnamed = unnamed or line.device.index is None
            if current is None and isinstance(line, wir.KernelCallLine):
                current = line.device.index
        elif isinstance(line, wir.RecordEventLine | wir.WaitEventLine) and _on_gpu(
            line.device
        ):
            side = side or line.stream != 0
    if unnamed and side:  # a device without an index has the streams of the first GPU
        current = 0
    # Without side streams, nobody asks for the uses, which take time to find.
    return stream_uses(facts.effects) if side else StreamUses(), current


def _on_gpu(device: wir.Device) -> bool:
    return device.kind == "cuda"


@contextmanager
def streams_of_call(graph: GraphContext) -> Generator[None]:
    """Append a call's stream actions before and after the nodes of the ``with`` block."""
    graph.streams = StreamPlanner(graph.facts, graph.context.stream_uses)
    current = graph.context.current_gpu
    gpu = None if current is None else _stream_node(graph, wir.Device("cuda", current), 0)
    with _entered(graph, gpu):
        _emit_actions(graph, graph.streams.fork())
        yield
        use_on_stream_0(graph, buffers_in(graph.facts.program.outputs))
        _emit_actions(graph, graph.streams.join())


def wait_for_all(graph: GraphContext) -> None:
    """Append that the host, which is about to read, waits for all streams."""
    _emit_actions(graph, graph.streams.join())
    _emit_actions(graph, graph.streams.fork())


def emit_zero(graph: GraphContext, name: str) -> None:
    """Append the zeroing of a workspace, on stream 0."""
    _emit_actions(graph, graph.streams.join())
    graph.nodes.call(_ZERO, (graph.values[name].node,))
    use_on_stream_0(graph, (name,))
    _emit_actions(graph, graph.streams.fork())


def allocating(
    graph: GraphContext, line: wir.AllocateLine | wir.AllocatePoolLine
) -> AbstractContextManager[None]:
    """Append the nodes of the ``with`` block on the home stream of an allocation."""
    return _allocating(graph, line) if graph.streams.side else _UNCHANGED


@contextmanager
def _allocating(
    graph: GraphContext, line: wir.AllocateLine | wir.AllocatePoolLine
) -> Generator[None]:
    home = graph.streams.allocate(line)
    with _entered(graph, _gpu_node(graph, home) if home and home.number else None):
        yield
    _emit_actions(graph, graph.streams.after_allocation(line))


def launching(
    graph: GraphContext, line: wir.KernelCallLine | wir.ExternKernelLine
) -> AbstractContextManager[None]:
    """Append the nodes of the ``with`` block on the line's stream."""
    gpu = _on_gpu(line.device)
    return _launching(graph, line) if gpu or line.stream else _UNCHANGED


@contextmanager
def _launching(
    graph: GraphContext, line: wir.KernelCallLine | wir.ExternKernelLine
) -> Generator[None]:
    device, number = line.device, line.stream
    # A GPU that may not be the current one.
    elsewhere = _on_gpu(device) and device.index not in (None, graph.context.current_gpu)
    enters = number or (elsewhere and isinstance(line, wir.KernelCallLine))
    with _entered(graph, _stream_node(graph, device, number) if enters else None):
        yield
    _emit_actions(graph, graph.streams.after_launch(line))


def emit_record_event(graph: GraphContext, line: wir.RecordEventLine) -> None:
    """Append ``record_event``."""
    args = (_stream_node(graph, line.device, line.stream),)
    node = graph.nodes.call(stream_functions.record_event, args, name=line.result)
    graph.values[line.result] = GraphValue(node, wir.EventType(line.device))


def emit_wait_event(graph: GraphContext, line: wir.WaitEventLine) -> None:
    """Append ``wait_event``."""
    stream = _stream_node(graph, line.device, line.stream)
    args = (stream, graph.values[line.event].node)
    graph.nodes.call(stream_functions.wait_event, args)


def use_on_stream_0(graph: GraphContext, names: Iterable[str]) -> None:
    """Tell the allocator of memory that stream 0 uses, for blocks or the caller."""
    _emit_actions(graph, graph.streams.use_on_main(names))


def enter_region(graph: GraphContext, line: wir.GraphRegionLine) -> None:
    """Tell the allocator of memory that the stream of a graph region uses."""
    _emit_actions(graph, graph.streams.enter_region(line))


def leave_region(graph: GraphContext, line: wir.GraphRegionLine) -> None:
    """Note the results of a graph region, which may be of any stream."""
    graph.streams.leave_region(line)


def _emit_actions(graph: GraphContext, actions: Iterable[WaitStream | RecordUse]) -> None:
    for action in actions:
        stream = _gpu_node(graph, action.stream)
        if isinstance(action, WaitStream):
            args = (stream, _gpu_node(graph, action.other))
            graph.nodes.call(stream_functions.wait_stream, args)
        else:
            args = (graph.values[action.name].node, stream)
            graph.nodes.call(stream_functions.record_stream, args)


@contextmanager
def _entered(graph: GraphContext, stream: Node | None) -> Generator[None]:
    if stream is None:
        yield
        return
    entered = graph.nodes.call(stream_functions.enter_stream, (stream,))
    yield
    graph.nodes.call(stream_functions.exit_stream, (entered,))


def _gpu_node(graph: GraphContext, stream: wir.Stream) -> Node:
    return _stream_node(graph, stream.device, stream.number)


def _stream_node(graph: GraphContext, device: wir.Device, number: int) -> Node:
    kind = device.kind
    if number and kind not in ("cpu", "cuda"):
        graph.report(f"{device} has no stream {number}", "stream")
    if kind == "cuda" and device.index is None:
        device = wir.Device(kind, 0)
    node = graph.stream_nodes.get((device, number))
    if node is None:
        place = kind if device.index is None else f"{kind}_{device.index}"
        args = (torch_device(device), number)
        name = f"{place}_stream_{number}"
        node = graph.nodes.call(stream_functions.stream, args, name=name)
        graph.stream_nodes[device, number] = node
    return node
