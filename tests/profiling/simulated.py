"""A host and a GPU that take as long as a test says, and an emitter whose code they run."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from attrs import define, field

from wrapperir.emit import Artifact, Emitter, Loaded, Support, Value
from wrapperir.ir import BodyLine, ExternKernelLine, Program, Stream
from wrapperir.ir.blocks import nested_blocks
from wrapperir.profiling import ProfileClock
from wrapperir.profiling.marks import START_MARKS


@define(eq=False)
class SimulatedClock(ProfileClock):
    """Time passes only where something takes it.

    ``event_ns`` is what a stream takes for an event.
    """

    event_ns: int = 0
    host: int = 0
    streams: dict[Stream, int] = field(factory=dict[Stream, int])
    recorded: list[int] = field(factory=list[int])

    def now(self) -> int:
        return self.host

    def work(self, stream: Stream, ns: int) -> None:
        """Give a stream work, which begins once it is given and the stream is free."""
        self.streams[stream] = max(self.streams.get(stream, 0), self.host) + ns

    def record(self, stream: Stream) -> None:
        self.work(stream, self.event_ns)
        self.recorded.append(self.streams[stream])

    def hold(self, stream: Stream, nanoseconds: int) -> None:
        self.work(stream, nanoseconds)

    def begin(self) -> None:
        self.wait()
        self.recorded.clear()

    def wait(self) -> None:
        self.host = max([self.host, *self.streams.values()])

    def events(self) -> Sequence[int]:
        self.wait()
        return tuple(self.recorded)

    def allocator_peak(self) -> int | None:
        return None


@define(eq=False)
class SimulatedEmitter(Emitter):
    """Runs each line of the program's own block, and of nested ones once.

    ``host_ns`` and ``device_ns`` say what a line takes; a call of an operator of ours
    really calls it, after ``mark_ns``, and those before the first line ``start_ns`` later.
    """

    clock: SimulatedClock
    host_ns: Callable[[BodyLine], int]
    device_ns: Callable[[BodyLine], int] = lambda line: 0
    mark_ns: int = 0
    start_ns: int = 0
    name: str = "simulated"
    support: Support = field(factory=Support)
    emitted: list[Program] = field(factory=list[Program])

    def emit(self, program: Program) -> Artifact:
        self.emitted.append(program)
        return Artifact(self.name, {"program": ""}, "program")

    def load(self, artifact: Artifact, constants: Mapping[str, torch.Tensor]) -> Loaded:
        program = self.emitted[-1]

        def call(inputs: list[Value]) -> tuple[Value, ...]:
            for line in _run_once(program.lines):
                self._run(line)
            return ()

        return call

    def _run(self, line: BodyLine) -> None:
        if isinstance(line, ExternKernelLine) and line.operator.startswith("wrapperir_"):
            self.clock.host += self.mark_ns
            number, *symbols = line.arguments
            self.clock.host += self.start_ns if number in range(START_MARKS) else 0
            torch.ops.wrapperir_profile.mark(number, *([7] * len(symbols)))
            return
        self.clock.host += self.host_ns(line)
        if isinstance(line, ExternKernelLine) and line.device.kind == "cuda":
            self.clock.work(Stream(line.device, line.stream), self.device_ns(line))


def _run_once(lines: Sequence[BodyLine]) -> Iterator[BodyLine]:
    for line in lines:
        blocks = nested_blocks(line)
        if not blocks:
            yield line
        for _, block in blocks:
            yield from _run_once(block.lines)
