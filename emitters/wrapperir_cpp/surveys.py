"""Facts of a program that C++ needs before its first line: layouts, and uses of devices."""

import re

from attrs import define, field

from wrapperir.analysis import program_entry
from wrapperir.analysis.sharing import find_sharing
from wrapperir.emit.arena import plain_device
from wrapperir.emit.stream_actions import StreamUses
from wrapperir.ir import (
    BufferRef,
    Device,
    ExternKernelLine,
    Program,
    Stream,
    TensorType,
    TorchEnum,
)
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.effects import Effects, LineEffects, NestedBlock, Origin
from wrapperir.ir.storage_operators import may_keep, needs_own_tensors

# Parts of names of operators whose results are not memory with sizes and strides.
_SPECIAL = re.compile(r"sparse|mkldnn|nested|jagged|quant|_(coo|csr|csc|bsr|bsc)(_|\b)")
_NEW = (Origin.ALLOCATED, Origin.PROGRAM, Origin.PLACED)
_VIEWS = (Origin.VIEW, Origin.MOVED)


@define
class TensorLayouts:
    """Names of tensors.

    Attributes:
        exact: Tensors that have the layout of their type, unlike some operators' results.
        special: Tensors that may have no strides: sparse, or of other libraries.
        changed: Tensors that share storage with one whose layout an operator changes.
        apart: Those, and tensors that share storage with one that an operator may keep.
    """

    exact: set[str] = field(factory=set[str])
    special: set[str] = field(factory=set[str])
    changed: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()


def survey_layouts(program: Program) -> TensorLayouts:
    """Return what is certain of the layouts of a program's tensors."""
    layouts = TensorLayouts({name for name, _, _ in program_entry(program)})
    changed: set[str] = set()
    kept: set[str] = set()
    effects = LineEffects(None)
    for line in walk_lines(program.lines):
        found = effects.visit(line)
        for made in found.definitions:
            if made.origin in _NEW or (
                made.origin in _VIEWS and made.source in layouts.exact
            ):
                layouts.exact.add(made.name)
            if made.origin is Origin.ELEMENT and made.source in layouts.special:
                layouts.special.add(made.name)
        for nested in found.blocks:
            _note_special_operands(layouts.special, nested, found)
        if isinstance(line, ExternKernelLine):
            if line.result is not None and (
                _makes_special(line) or not layouts.special.isdisjoint(found.uses)
            ):
                layouts.special.add(line.result)
            if needs_own_tensors(line.operator):
                changed.update(line.writes)
                kept.update(found.uses if may_keep(line.operator) else ())
    if changed or kept:
        sharing = find_sharing(program)
        layouts.changed = sharing.names_with(changed)
        layouts.apart = layouts.changed | sharing.names_with(kept)
        layouts.exact -= layouts.changed
    return layouts


def _note_special_operands(special: set[str], nested: NestedBlock, line: Effects) -> None:
    names = [a.name if isinstance(a, BufferRef) else "" for a in nested.operands]
    for parameter, name in zip(nested.block.parameters, names, strict=False):
        if name in special:
            special.add(parameter.name)
    if not special.isdisjoint(names):
        special.update(made.name for made in line.definitions)


def _makes_special(line: ExternKernelLine) -> bool:
    arguments = (*line.arguments, *(value for _, value in line.keywords))
    return _SPECIAL.search(line.operator.split(".")[1]) is not None or any(
        isinstance(argument, TorchEnum)
        and argument.kind == "layout"
        and argument.name != "strided"
        for argument in arguments
    )


class DeviceUse:
    """Numbers of the streams and events of one device.

    Side streams, which are streams other than stream 0, are numbered from 1 and events
    from 0.
    """

    def __init__(self) -> None:
        """Start without streams."""
        self.streams: dict[int, int] = {}
        self.events: dict[str, int] = {}


class DeviceSurvey:
    """Devices of the given kinds in the order of their first uses.

    ``event_devices`` are the devices that record each event, ``home_streams`` the streams
    that first use each allocation.
    """

    def __init__(self, kinds: frozenset[str]) -> None:
        """Start without devices."""
        self.kinds = kinds
        self.has_streams = False
        self.devices: dict[Device, DeviceUse] = {}
        self.event_devices: dict[str, Device] = {}
        self.home_streams: dict[str, Stream] = {}

    def note(self, device: Device | None) -> None:
        """Add a device, if its kind is one of ``kinds``."""
        if device is not None and device.kind in self.kinds:
            self.devices.setdefault(plain_device(device), DeviceUse())

    def home_stream(self, name: str, device: Device) -> int:
        """Return the number of the stream that first uses an allocation on a device.

        PyTorch's allocator gives memory freed on a stream only to that stream again.
        """
        stream = self.home_streams.get(name)
        return stream.number if stream and stream.device == Stream(device).device else 0


def survey_devices(program: Program, kinds: frozenset[str]) -> DeviceSurvey:
    """Return a program's uses of devices of some kinds, nested blocks included."""
    survey, uses, effects = DeviceSurvey(kinds), StreamUses(kinds), LineEffects(None)
    for _, type, _ in program_entry(program):
        survey.note(type.device if isinstance(type, TensorType) else None)
    for line in walk_lines(program.lines):
        found = effects.visit(line)
        uses.add(found)
        survey.note(found.device)
        if found.records and found.stream and found.stream.device.kind in kinds:
            device = survey.event_devices[found.records] = plain_device(found.stream.device)
            events = survey.devices[device].events
            events[found.records] = len(events)
    for stream in uses.side:
        streams = survey.devices[plain_device(stream.device)].streams
        streams[stream.number] = len(streams) + 1
    survey.has_streams = bool(uses.side)
    users = {name: next(iter(streams), None) for name, streams in uses.users.items()}
    survey.home_streams = {name: home for name, home in users.items() if home is not None}
    return survey
