"""Streams and events as nodes.

A side stream is current only while its work is launched, so that the current stream is
stream 0 wherever else a graph asks for it; nested graphs use stream 0 only.  Triton
launches on the current device: a program with such launches makes their device current for
the whole call.  On other devices than GPUs, work runs in the order in which it is
submitted: streams have names and do nothing.
"""

from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager

import torch
from attrs import frozen
from torch.fx import Node

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
from wrapperir.ir import (
    AllocateLine,
    AllocatePoolLine,
    Argument,
    Device,
    EventType,
    ExternKernelLine,
    KernelCallLine,
    Program,
    RecordEventLine,
    Stream,
    WaitEventLine,
)
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.mentions import buffers_in
from wrapperir_fx.nodes import GraphNodes
from wrapperir_fx.values import Value

_ZERO = torch.ops.aten.zero_.default


@frozen
class GpuStreams:
    """The streams of GPUs that a program uses, and the GPU that is current meanwhile.

    ``current`` is ``None`` where any GPU may be current: no kernel is launched on a GPU,
    or only on one without an index.
    """

    uses: StreamUses
    current: int | None


def find_gpu_streams(program: Program) -> GpuStreams:
    """Return the streams of GPUs that a program uses."""
    current: int | None = None
    unnamed = side = False
    for line in walk_lines(program.lines):
        if isinstance(line, KernelCallLine | ExternKernelLine) and _on_gpu(line.device):
            side = side or line.stream != 0
            unnamed = unnamed or line.device.index is None
            if current is None and isinstance(line, KernelCallLine):
                current = line.device.index
        elif isinstance(line, RecordEventLine | WaitEventLine) and _on_gpu(line.device):
            side = side or line.stream != 0
    if unnamed and side:  # whose streams are those of the first GPU
        current = 0
    # Without side streams, nobody asks for the uses, which take time to find.
    return GpuStreams(stream_uses(program) if side else StreamUses(), current)


def _on_gpu(device: Device) -> bool:
    return device.kind == "cuda"


class Streams:
    """Appends what streams need to one graph; nearly nothing without side streams."""

    def __init__(
        self,
        nodes: GraphNodes,
        values: dict[str, Value],
        facts: ProgramFacts,
        found: GpuStreams,
        report: Callable[[str, str | None], None],
    ) -> None:
        """Begin without side streams, as nested graphs do."""
        self._graph_nodes = nodes
        self._values = values
        self._facts = facts
        self._found = found
        self._report = report
        self._planner = StreamPlanner(facts, StreamUses())
        self._nodes: dict[tuple[Device, int], Node] = {}
        self._entered: Node | None = None

    def begin(self) -> None:
        """Append what a call does before its lines."""
        self._planner = StreamPlanner(self._facts, self._found.uses)
        if self._found.current is not None:
            current = Stream(Device("cuda", self._found.current))
            self._entered = self._enter(self._gpu(current))
        self._act(self._planner.fork())

    def end(self, outputs: tuple[Argument, ...]) -> None:
        """Append what a call does after its lines."""
        self.use_on_stream_0(buffers_in(outputs))
        self._act(self._planner.join())
        if self._entered is not None:
            self._exit(self._entered)

    def wait_for_all(self) -> None:
        """Append that the host, which is about to read, waits for all streams."""
        self._act(self._planner.join())
        self._act(self._planner.fork())

    def zero(self, name: str) -> None:
        """Append the zeroing of a workspace, on stream 0."""
        self._act(self._planner.join())
        self._graph_nodes.call(_ZERO, (self._values[name].node,))
        self.use_on_stream_0((name,))
        self._act(self._planner.fork())

    def alias(self, name: str, source: str) -> None:
        """Let a name stand for the memory of another."""
        self._planner.alias(name, source)

    @contextmanager
    def allocating(self, line: AllocateLine | AllocatePoolLine) -> Generator[None]:
        """Put what is appended meanwhile on the home stream of an allocation."""
        if not self._planner.side:
            yield
            return
        home = self._planner.allocate(line)
        with self._on(self._gpu(home) if home is not None and home.number else None):
            yield
        self._act(self._planner.after_allocation(line))

    def launching(
        self, line: KernelCallLine | ExternKernelLine
    ) -> AbstractContextManager[None]:
        """Put what is appended meanwhile on the line's stream."""
        if _on_gpu(line.device):
            return self._launching(line)
        named = self._stream(line.device, line.stream) if line.stream else None
        return self._on(named)

    @contextmanager
    def _launching(self, line: KernelCallLine | ExternKernelLine) -> Generator[None]:
        stream = Stream(line.device, line.stream)
        index = line.device.index  # of a GPU that may not be the current one
        elsewhere = index not in (None, self._found.current)
        enters = stream.number or (elsewhere and isinstance(line, KernelCallLine))
        with self._on(self._gpu(stream) if enters else None):
            yield
        self._act(self._planner.after_launch(line))

    def record(self, line: RecordEventLine) -> None:
        """Append ``record_event``."""
        args = (self._stream(line.device, line.stream),)
        target = stream_functions.record_event
        node = self._graph_nodes.call(target, args, name=line.result)
        self._values[line.result] = Value(node, EventType(line.device))

    def wait(self, line: WaitEventLine) -> None:
        """Append ``wait_event``."""
        args = (self._stream(line.device, line.stream), self._values[line.event].node)
        self._graph_nodes.call(stream_functions.wait_event, args)

    def use_on_stream_0(self, names: Iterable[str]) -> None:
        """Tell the allocator of memory that stream 0 uses, for blocks or the caller."""
        self._act(self._planner.use_on_main(names))

    def _act(self, actions: Iterable[WaitStream | RecordUse]) -> None:
        for action in actions:
            stream = self._gpu(action.stream)
            if isinstance(action, WaitStream):
                args = (stream, self._gpu(action.other))
                self._graph_nodes.call(stream_functions.wait_stream, args)
            else:
                args = (self._values[action.name].node, stream)
                self._graph_nodes.call(stream_functions.record_stream, args)

    @contextmanager
    def _on(self, stream: Node | None) -> Generator[None]:
        entered = None if stream is None else self._enter(stream)
        yield
        if entered is not None:
            self._exit(entered)

    def _enter(self, stream: Node) -> Node:
        return self._graph_nodes.call(stream_functions.enter_stream, (stream,))

    def _exit(self, entered: Node) -> None:
        self._graph_nodes.call(stream_functions.exit_stream, (entered,))

    def _gpu(self, stream: Stream) -> Node:
        return self._stream(stream.device, stream.number)

    def _stream(self, device: Device, number: int) -> Node:
        kind = device.kind
        if number and kind not in ("cpu", "cuda"):
            self._report(f"{device} has no stream {number}", "stream")
        if kind == "cuda" and device.index is None:
            device = Device(kind, 0)
        node = self._nodes.get((device, number))
        if node is None:
            place = kind if device.index is None else f"{kind}_{device.index}"
            args = (torch_device(device), number)
            name = f"{place}_stream_{number}"
            node = self._graph_nodes.call(stream_functions.stream, args, name=name)
            self._nodes[device, number] = node
        return node
