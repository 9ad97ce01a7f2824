"""Streams and events as nodes.

Stream 0 of a GPU is the caller's current stream.  The others begin after what the caller
has given that stream, which goes on after them.  A stream is current only while what is
launched on it is, so that the current stream is stream 0 wherever else a graph asks for
it; nested graphs use no other.

The allocator knows memory's home, the stream that it was allocated on; it is told of any
other that uses the memory, so that it waits for that one before it gives the memory away.

Triton launches on the current device: where a program has such launches, it makes their
device current for the whole call.  On other devices than GPUs, work runs in the order in
which it is given: streams are named, and do nothing.
"""

from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from attrs import define, field, frozen
from torch.fx import Node

from wrapperir.emit.stream_survey import Stream, stream_of
from wrapperir.emit.stream_survey import StreamSurvey as GpuStreams
from wrapperir.emit.torch_dtypes import torch_device
from wrapperir.fx import stream_functions
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.effects import uses
from wrapperir.ir.line import (
    Argument,
    ExternKernelLine,
    KernelCallLine,
    RecordEventLine,
    WaitEventLine,
)
from wrapperir.ir.mentions import buffers_in
from wrapperir.ir.program import Program
from wrapperir.ir.types import Device, EventType, PoolType, TensorType
from wrapperir_fx.nodes import GraphNodes
from wrapperir_fx.values import Value

_ZERO = torch.ops.aten.zero_.default
_ON_DEVICE = (KernelCallLine, ExternKernelLine, RecordEventLine, WaitEventLine)
_ANYWHERE: AbstractContextManager[None] = nullcontext()


@frozen
class StreamSurvey:
    """The streams of GPUs that a program uses, and the GPU that is current meanwhile.

    ``current`` is ``None`` where it may be any: the program launches no kernel on a GPU,
    or names none.
    """

    gpu: GpuStreams
    current: int | None


def survey_streams(program: Program) -> StreamSurvey:
    """Return which streams a program uses."""
    gpu = GpuStreams()
    lines = list(walk_lines(program.lines))
    if not any(isinstance(line, _ON_DEVICE) and _on_gpu(line.device) for line in lines):
        return StreamSurvey(gpu, None)
    current: int | None = None
    unnamed = False
    for line in lines:
        gpu.note(line)
        if isinstance(line, KernelCallLine | ExternKernelLine) and _on_gpu(line.device):
            unnamed = unnamed or line.device.index is None
            if current is None and isinstance(line, KernelCallLine):
                current = line.device.index
    if unnamed and gpu.side:  # whose streams are those of the first GPU
        current = 0
    return StreamSurvey(gpu, current)


def _on_gpu(device: Device) -> bool:
    return device.kind == "cuda"


@define(eq=False)
class _Memory:
    """A storage's home, ``None`` where it is not known, and who else it is told of."""

    home: Stream | None
    told: set[Stream] = field(factory=set[Stream])


class Streams:
    """Appends what streams need; almost nothing where a program has none but stream 0."""

    def __init__(
        self,
        nodes: GraphNodes,
        values: dict[str, Value],
        program: Program,
        survey: StreamSurvey,
        report: Callable[[str, str | None], None],
    ) -> None:
        """Begin with none but stream 0, as nested graphs do."""
        self._nodes = nodes
        self._values = values
        self._survey = survey
        self._report = report
        self._constants = {constant.name for constant in program.constants}
        self._side: tuple[Stream, ...] = ()
        self._streams: dict[tuple[Device, int], Node] = {}
        self._memory: dict[str, _Memory] = {}
        self._entered: Node | None = None

    def begin(self) -> None:
        """Append what a call does before its lines."""
        self._side = tuple(self._survey.gpu.side)
        if self._survey.current is not None:
            self._entered = self._enter(self._gpu(Stream(self._survey.current, 0)))
        self._fork()

    def end(self, outputs: tuple[Argument, ...]) -> None:
        """Append what a call does after its lines."""
        self.use_on_stream_0(buffers_in(outputs))
        self._join()
        if self._entered is not None:
            self._exit(self._entered)

    def wait_for_all(self) -> None:
        """Have all that follows come after all before it: the host is about to read."""
        self._join()
        self._fork()

    def zero(self, name: str) -> None:
        """Append the zeroing of a workspace, on stream 0."""
        self._join()
        node = self._values[name].node
        self._nodes.call(_ZERO, (node,))
        self.use_on_stream_0((name,))
        self._fork()

    def alias(self, name: str, source: str) -> None:
        """Let a name stand for the memory of another."""
        if source in self._memory:
            self._memory[name] = self._memory[source]

    def allocating(self, name: str) -> AbstractContextManager[None]:
        """Put what is appended meanwhile on the stream that first uses the memory."""
        users = self._survey.gpu.users.get(name)
        if not users:
            if self._side:
                self._memory[name] = _Memory(None)
            return _ANYWHERE
        return self._allocating(name, *users)

    @contextmanager
    def _allocating(self, name: str, home: Stream, *others: Stream) -> Generator[None]:
        self._memory[name] = _Memory(home)
        with self._on(home if home.number else None):
            yield
        if isinstance(self._values[name].type, PoolType):
            # Places of a pool may be used by streams that have not met since its memory,
            # which had another use before, was allocated.
            for stream in others:
                self._wait(stream, home)

    def launching(
        self, line: KernelCallLine | ExternKernelLine
    ) -> AbstractContextManager[None]:
        """Put what is appended meanwhile on the line's stream."""
        if _on_gpu(line.device):
            return self._launching(line)
        return self._named(line) if line.stream else _ANYWHERE

    @contextmanager
    def _launching(self, line: KernelCallLine | ExternKernelLine) -> Generator[None]:
        stream = stream_of(line.device, line.stream)
        with self._on(stream if stream.number or self._is_elsewhere(line) else None):
            yield
        self._use(stream, uses(line))
        if isinstance(line, ExternKernelLine) and line.result is not None:
            self._memory[line.result] = _Memory(None if line.aliases else stream)

    def record(self, line: RecordEventLine) -> None:
        """Append ``record_event``."""
        args = (self._stream(line.device, line.stream),)
        target = stream_functions.record_event
        node = self._nodes.call(target, args, name=line.result)
        self._values[line.result] = Value(node, EventType(line.device))

    def wait(self, line: WaitEventLine) -> None:
        """Append ``wait_event``."""
        args = (self._stream(line.device, line.stream), self._values[line.event].node)
        self._nodes.call(stream_functions.wait_event, args)

    def use_on_stream_0(self, names: Iterable[str]) -> None:
        """Tell the allocator of memory that stream 0 uses: blocks do, and the caller."""
        for name in names if self._side else ():
            memory = self._memory.get(name)
            if memory is not None and memory.home is not None:
                self._use(Stream(memory.home.index, 0), (name,))

    def _use(self, stream: Stream, names: Iterable[str]) -> None:
        """Tell the allocator of memory that a stream uses and that is not its own."""
        for name in names if self._side else ():
            value = self._values[name]
            on_gpu = isinstance(value.type, TensorType) and _on_gpu(value.type.device)
            if not on_gpu or name in self._constants:
                continue
            memory = self._memory.setdefault(name, _Memory(Stream(stream.index, 0)))
            if stream == memory.home or stream in memory.told:
                continue
            memory.told.add(stream)
            args = (value.node, self._gpu(stream))
            self._nodes.call(stream_functions.record_stream, args)

    def _is_elsewhere(self, line: KernelCallLine | ExternKernelLine) -> bool:
        """Say whether a line launches a kernel on a GPU that is not the current one."""
        index = line.device.index
        is_kernel = isinstance(line, KernelCallLine)
        return is_kernel and index is not None and index != self._survey.current

    def _fork(self) -> None:
        for stream in self._side:
            self._wait(stream, Stream(stream.index, 0))

    def _join(self) -> None:
        for stream in self._side:
            self._wait(Stream(stream.index, 0), stream)

    def _wait(self, waits: Stream, other: Stream) -> None:
        args = (self._gpu(waits), self._gpu(other))
        self._nodes.call(stream_functions.wait_stream, args)

    @contextmanager
    def _on(self, stream: Stream | None) -> Generator[None]:
        entered = None if stream is None else self._enter(self._gpu(stream))
        yield
        if entered is not None:
            self._exit(entered)

    @contextmanager
    def _named(self, line: KernelCallLine | ExternKernelLine) -> Generator[None]:
        entered = self._enter(self._stream(line.device, line.stream))
        yield
        self._exit(entered)

    def _enter(self, stream: Node) -> Node:
        return self._nodes.call(stream_functions.enter_stream, (stream,))

    def _exit(self, entered: Node) -> None:
        self._nodes.call(stream_functions.exit_stream, (entered,))

    def _gpu(self, stream: Stream) -> Node:
        return self._stream(Device("cuda", stream.index), stream.number)

    def _stream(self, device: Device, number: int) -> Node:
        kind = device.kind
        if number and kind not in ("cpu", "cuda"):
            self._report(f"{device} has no stream {number}", "stream")
        if kind == "cuda" and device.index is None:
            device = Device(kind, 0)
        node = self._streams.get((device, number))
        if node is None:
            place = kind if device.index is None else f"{kind}_{device.index}"
            args = (torch_device(device), number)
            name = f"{place}_stream_{number}"
            node = self._nodes.call(stream_functions.stream, args, name=name)
            self._streams[device, number] = node
        return node
