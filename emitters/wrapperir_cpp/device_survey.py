"""Devices, streams and events that a program uses, and the first user of its memory."""

from attrs import define, field

from wrapperir.analysis import program_entry
from wrapperir.emit.arena import plain_device
from wrapperir.ir import Device, Program, TensorType
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.effects import Effects, LineEffects, Origin

_ALLOCATED = (Origin.ALLOCATED, Origin.PROGRAM, Origin.POOL)
_DERIVED = (Origin.PLACED, Origin.VIEW, Origin.MOVED)


@define
class DeviceUse:
    """Use of one device: numbers of its side streams, and of the events recorded there.

    Side streams are those other than stream 0; they are numbered from 1, events from 0.
    """

    streams: dict[int, int] = field(factory=dict[int, int])
    events: dict[str, int] = field(factory=dict[str, int])


@define
class DeviceSurvey:
    """Devices of the given kinds in the order of their first uses.

    ``first_users`` has the device and stream that first use each allocation: PyTorch's
    allocator gives memory that was freed on a stream only to that stream again.
    """

    kinds: frozenset[str]
    devices: dict[Device, DeviceUse] = field(factory=dict[Device, DeviceUse])
    first_users: dict[str, tuple[Device, int]] = field(
        factory=dict[str, tuple[Device, int]]
    )
    event_devices: dict[str, Device] = field(factory=dict[str, Device])
    _roots: dict[str, str] = field(factory=dict[str, str])

    @property
    def has_streams(self) -> bool:
        """Whether any device has a side stream."""
        return any(use.streams for use in self.devices.values())

    def note_device(self, device: Device) -> DeviceUse | None:
        """Add a device, if its kind is one of ``kinds``."""
        if device.kind not in self.kinds:
            return None
        return self.devices.setdefault(plain_device(device), DeviceUse())

    def note(self, line: Effects) -> None:
        """Add the uses of one line."""
        use = None if line.device is None else self.note_device(line.device)
        for made in line.definitions:
            if made.origin in _ALLOCATED:
                self._roots[made.name] = made.name
            elif made.origin in _DERIVED and made.source in self._roots:
                self._roots[made.name] = self._roots[made.source]
        if use is None or line.stream is None:
            return
        stream, device = line.stream.number, plain_device(line.stream.device)
        if stream:
            use.streams.setdefault(stream, len(use.streams) + 1)
        for name in line.uses if line.launches else ():
            root = self._roots.get(name)
            if root is not None:
                self.first_users.setdefault(root, (device, stream))
        if line.records is not None:
            use.events[line.records] = len(use.events)
            self.event_devices[line.records] = device


def survey_devices(program: Program, kinds: frozenset[str]) -> DeviceSurvey:
    """Return a program's uses of devices of some kinds, nested blocks included."""
    survey = DeviceSurvey(kinds)
    for _, type, _ in program_entry(program):
        if isinstance(type, TensorType):
            survey.note_device(type.device)
    effects = LineEffects(None)
    for line in walk_lines(program.lines):
        survey.note(effects.visit(line))
    return survey
