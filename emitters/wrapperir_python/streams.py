"""Streams and events of CUDA devices in Python.

Stream 0 is the caller's current stream.  The others are made once; they begin after what
the caller has given its stream, and the caller's stream goes on after them.  The allocator
knows memory's home, the stream that it was allocated on; it is told of any other that uses
the memory, so that it waits for that one before it gives the memory away.  On other devices
work runs in the order in which it is given, so streams and events need nothing.
"""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING

from attrs import define, field

from wrapperir.emit.fragment import Fragment, fragment
from wrapperir.emit.source_writer import SourceWriter
from wrapperir.emit.stream_survey import Stream, stream_of
from wrapperir.ir.effects import uses
from wrapperir.ir.line import (
    ExternKernelLine,
    KernelCallLine,
    RecordEventLine,
    WaitEventLine,
)
from wrapperir.ir.types import Device, TensorType
from wrapperir_python.literals import format_int

if TYPE_CHECKING:
    from wrapperir_python.lines import PythonLines


@define(eq=False)
class _Memory:
    """A storage's home, ``None`` where it is not known, and who else it is told of."""

    home: Stream | None
    told: set[Stream] = field(factory=set[Stream])


class Streams:
    """Appends what streams need; nothing where a program has none but stream 0."""

    def __init__(self, lines: "PythonLines") -> None:
        """Take the streams from the survey."""
        self._lines = lines
        self._survey = lines.survey.streams
        self._side = tuple(self._survey.side)
        self._names: dict[Stream, Fragment] = {}
        self._memory: dict[str, _Memory] = {}
        self.unrecorded: set[str] = set()  # events that need no statement

    def emit_begin(self, writer: SourceWriter) -> None:
        """Append what a call does before its lines."""
        own = [Stream(stream.index, 0) for stream in (*self._side, *self._names)]
        for stream in dict.fromkeys(own):
            index = format_int(stream.index)
            writer.emit_line(
                "{} = torch.cuda.current_stream({})", self._name(stream), index
            )
        self._emit_fork(writer)

    def emit_end(self, writer: SourceWriter) -> None:
        """Append what a call does after its lines."""
        for stream in self._side:
            self._emit_wait(writer, Stream(stream.index, 0), stream)

    def emit_wait_for_all(self) -> None:
        """Have stream 0 wait for all others: the host is about to read."""
        self.emit_end(self._lines.writer)

    def emit_zero(self, name: str) -> None:
        """Append ``buf0.zero_()``: after all that was given before, before all after."""
        writer = self._lines.writer
        self.emit_end(writer)
        writer.emit_line("{}.zero_()", self._lines.values[name])
        self.emit_uses_of_stream_0((name,))
        self._emit_fork(writer)

    @contextmanager
    def launching(self, line: KernelCallLine | ExternKernelLine) -> Generator[None]:
        """Put what is appended meanwhile on the line's stream."""
        if line.device.kind not in ("cpu", "cuda") and line.stream:
            self._lines.report(f"{line.device} has no stream {line.stream}", "stream")
        stream = stream_of(line.device, line.stream)
        with self._on(stream if line.device.kind == "cuda" else None):
            yield
        if line.device.kind == "cuda":
            self.emit_uses(stream, uses(line))
            if isinstance(line, ExternKernelLine) and line.result is not None:
                self._memory[line.result] = _Memory(None if line.aliases else stream)

    @contextmanager
    def allocating(self, name: str) -> Generator[None]:
        """Put what is appended meanwhile on the stream that first uses the memory."""
        home, *others = self._survey.users[name] or (None,)
        self._memory[name] = _Memory(home)
        with self._on(home):
            yield
        if home is not None and name in self._lines.pools:
            # Places of a pool may be used by streams that have not met since its memory,
            # which had another use before, was allocated.
            for stream in others:
                self._emit_wait(self._lines.writer, stream, home)

    def alias(self, name: str, source: str) -> None:
        """Let a name stand for the memory of another."""
        if source in self._memory:
            self._memory[name] = self._memory[source]

    def emit_uses(self, stream: Stream, names: Iterable[str]) -> None:
        """Tell the allocator of memory that a stream uses and that is not its own."""
        for name in names if self._side else ():
            type = self._lines.types.get(name)
            on_device = isinstance(type, TensorType) and type.device.kind == "cuda"
            if not on_device or name in self._lines.constants:
                continue
            memory = self._memory.setdefault(name, _Memory(Stream(stream.index, 0)))
            if stream == memory.home or stream in memory.told:
                continue
            memory.told.add(stream)
            tensor = self._lines.values[name]
            self._lines.writer.emit_line("{}.record_stream({})", tensor, self._name(stream))

    def emit_uses_of_stream_0(self, names: Iterable[str]) -> None:
        """Tell the allocator of memory that stream 0 uses: blocks do, and the caller."""
        for name in names if self._side else ():
            memory = self._memory.get(name)
            if memory is not None and memory.home is not None:
                self.emit_uses(Stream(memory.home.index, 0), (name,))

    def emit_record(self, line: RecordEventLine) -> None:
        """Append ``event = stream_1.record_event()``."""
        if not self._counts(line.device):
            self.unrecorded.add(line.result)
        else:
            event = self._lines.values[line.result]
            stream = self._name(stream_of(line.device, line.stream))
            self._lines.writer.emit_line("{} = {}.record_event()", event, stream)

    def emit_wait(self, line: WaitEventLine) -> None:
        """Append ``stream_1.wait_event(event)``."""
        if self._counts(line.device):
            stream = self._name(stream_of(line.device, line.stream))
            event = self._lines.values[line.event]
            self._lines.writer.emit_line("{}.wait_event({})", stream, event)

    def _emit_fork(self, writer: SourceWriter) -> None:
        for stream in self._side:
            self._emit_wait(writer, stream, Stream(stream.index, 0))

    def _counts(self, device: Device) -> bool:
        return device.kind == "cuda" and bool(self._side)

    @contextmanager
    def _on(self, stream: Stream | None) -> Generator[None]:
        if stream is None or not stream.number:
            yield
            return
        self._lines.writer.emit_line("with torch.cuda.stream({}):", self._name(stream))
        with self._lines.writer.indented():
            yield

    def _emit_wait(self, writer: SourceWriter, waits: Stream, other: Stream) -> None:
        writer.emit_line("{}.wait_stream({})", self._name(waits), self._name(other))

    def _name(self, stream: Stream) -> Fragment:
        name = self._names.get(stream)
        if name is None:
            wanted = f"cuda_{stream.index}_stream_{stream.number}"
            if stream.number:
                made = fragment("torch.cuda.Stream({})", format_int(stream.index))
                name = self._lines.module.bind_new(made, wanted)
            else:
                name = self._lines.module.names.claim(wanted)
            self._names[stream] = name
        return name
