"""Which streams of a GPU a program uses, and which first uses what it allocates."""

from collections.abc import Iterable

from attrs import define, field, frozen

from wrapperir.ir import (
    AllocateLine,
    AllocatePoolLine,
    BodyLine,
    Device,
    ExternKernelLine,
    KernelCallLine,
    PlaceLine,
    RecordEventLine,
    ReinterpretLine,
    ReuseLine,
    WaitEventLine,
)
from wrapperir.ir.effects import uses


@frozen
class Stream:
    """A stream of a CUDA device; ``cuda`` and ``cuda:0`` are one device."""

    index: int
    number: int


def stream_of(device: Device, number: int) -> Stream:
    """Return a stream by its device."""
    return Stream(device.index or 0, number)


@define
class StreamSurvey:
    """Side streams, and the streams that use each allocation, by their first uses.

    The home of memory is the stream that uses it first: PyTorch's allocator gives memory
    that was freed on a stream only to that stream again.
    """

    side: dict[Stream, None] = field(factory=dict[Stream, None])
    users: dict[str, dict[Stream, None]] = field(factory=dict[str, dict[Stream, None]])
    _roots: dict[str, str] = field(factory=dict[str, str])

    def note(self, line: BodyLine) -> None:
        """Take account of one line."""
        match line:
            case AllocateLine() | AllocatePoolLine():
                self._roots[line.result] = line.result
                self.users[line.result] = {}
            case PlaceLine():
                self._note_name(line.result, line.pool)
            case ReuseLine() | ReinterpretLine():
                self._note_name(line.result, line.source)
            case KernelCallLine() | ExternKernelLine() if line.device.kind == "cuda":
                self._note_use(stream_of(line.device, line.stream), uses(line))
            case RecordEventLine() | WaitEventLine() if line.device.kind == "cuda":
                self._note_use(stream_of(line.device, line.stream), ())
            case _:
                pass

    def _note_name(self, name: str, source: str) -> None:
        root = self._roots.get(source)
        if root is not None:
            self._roots[name] = root

    def _note_use(self, stream: Stream, names: Iterable[str]) -> None:
        if stream.number:
            self.side.setdefault(stream)
        for name in names:
            root = self._roots.get(name)
            if root is not None:
                self.users[root].setdefault(stream)
