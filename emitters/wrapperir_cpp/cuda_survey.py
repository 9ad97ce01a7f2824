"""Which CUDA devices, streams and events a program uses, and who first uses its memory."""

from collections.abc import Iterable

from attrs import define, field

from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.effects import uses
from wrapperir.ir.line import (
    AllocateLine,
    AllocatePoolLine,
    BodyLine,
    ExternKernelLine,
    KernelCallLine,
    PlaceLine,
    RecordEventLine,
    ReinterpretLine,
    ReuseLine,
    WaitEventLine,
)
from wrapperir.ir.program import Program
from wrapperir.ir.types import Device, TensorType


@define
class CudaDevice:
    """One device: its streams beside stream 0, and the events recorded there, numbered.

    ``cuda`` and ``cuda:0`` are one device.
    """

    index: int
    streams: dict[int, int] = field(factory=dict[int, int])
    events: dict[str, int] = field(factory=dict[str, int])


@define
class CudaSurvey:
    """Devices in the order of their first uses, and the first user of each allocation.

    The home of memory is the stream that uses it first: PyTorch's allocator gives memory
    that was freed on a stream only to that stream again.
    """

    devices: dict[int, CudaDevice] = field(factory=dict[int, CudaDevice])
    homes: dict[str, tuple[int, int]] = field(factory=dict[str, tuple[int, int]])
    event_devices: dict[str, int] = field(factory=dict[str, int])
    _roots: dict[str, str] = field(factory=dict[str, str])

    @property
    def has_streams(self) -> bool:
        """Whether there is any stream beside stream 0."""
        return any(device.streams for device in self.devices.values())

    def note_device(self, device: Device) -> CudaDevice | None:
        """Count a device in, if it is one of CUDA's."""
        if device.kind != "cuda":
            return None
        index = device.index or 0
        return self.devices.setdefault(index, CudaDevice(index))

    def note(self, line: BodyLine) -> None:
        """Take account of one line."""
        match line:
            case AllocateLine() | AllocatePoolLine():
                self._roots[line.result] = line.result
                self.note_device(line.type.device)
            case PlaceLine():
                self._note_name(line.result, line.pool)
            case ReuseLine() | ReinterpretLine():
                self._note_name(line.result, line.source)
            case KernelCallLine() | ExternKernelLine():
                self._note_use(line.device, line.stream, uses(line))
            case RecordEventLine():
                self._note_use(line.device, line.stream, ())
                device = self.note_device(line.device)
                if device is not None:
                    device.events[line.result] = len(device.events)
                    self.event_devices[line.result] = device.index
            case WaitEventLine():
                self._note_use(line.device, line.stream, ())
            case _:
                pass

    def _note_name(self, name: str, source: str) -> None:
        root = self._roots.get(source)
        if root is not None:
            self._roots[name] = root

    def _note_use(self, device: Device, stream: int, names: Iterable[str]) -> None:
        found = self.note_device(device)
        if found is None:
            return
        if stream:
            found.streams.setdefault(stream, len(found.streams) + 1)
        for name in names:
            root = self._roots.get(name)
            if root is not None:
                self.homes.setdefault(root, (found.index, stream))


def survey_cuda(program: Program) -> CudaSurvey:
    """Return what a program uses of CUDA; one look at each line, nested ones included."""
    survey = CudaSurvey()
    given = [item.type for item in program.inputs]
    given += [item.type for item in program.constants]
    for type in given:
        if isinstance(type, TensorType):
            survey.note_device(type.device)
    for line in walk_lines(program.lines):
        survey.note(line)
    return survey
