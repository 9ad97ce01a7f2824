"""Facts of a program that C++ needs before its first line: layouts, and uses of devices."""

import re
from collections import Counter
from collections.abc import Mapping

from attrs import define, field, frozen

from wrapperir.analysis import program_entry
from wrapperir.analysis.sharing import find_sharing
from wrapperir.emit.arena import plain_device
from wrapperir.emit.context import ProgramFacts
from wrapperir.emit.stream_actions import StreamUses
from wrapperir.ir import (
    BufferRef,
    Device,
    ExternKernelLine,
    Stream,
    TensorType,
    TorchEnum,
)
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.effects import Origin
from wrapperir.ir.recordable_operators import works_with_ranks
from wrapperir.ir.storage_operators import may_keep, needs_own_tensors

# Parts of names of operators whose results are not memory with sizes and strides.
_SPECIAL = re.compile(r"sparse|mkldnn|nested|jagged|quant|_(coo|csr|csc|bsr|bsc)(_|\b)")
PRODUCTS = frozenset(f"aten.{name}" for name in ("mm", "addmm", "bmm", "baddbmm"))
"""Operators that multiply matrices, without their overloads."""
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


def survey_layouts(facts: ProgramFacts) -> TensorLayouts:
    """Return what is certain of the layouts of a program's tensors."""
    program = facts.program
    layouts = TensorLayouts({name for name, _, _ in program_entry(program)})
    changed: set[str] = set()
    kept: set[str] = set()
    for line, found in zip(walk_lines(program.lines), facts.effects, strict=True):
        for made in found.definitions:
            if made.origin in _NEW or (
                made.origin in _VIEWS and made.source in layouts.exact
            ):
                layouts.exact.add(made.name)
            if made.origin is Origin.ELEMENT and made.source in layouts.special:
                layouts.special.add(made.name)
        for nested in found.blocks:
            names = [a.name if isinstance(a, BufferRef) else "" for a in nested.operands]
            for parameter, name in zip(nested.block.parameters, names, strict=False):
                if name in layouts.special:
                    layouts.special.add(parameter.name)
            if not layouts.special.isdisjoint(names):
                layouts.special.update(made.name for made in found.definitions)
        if isinstance(line, ExternKernelLine):
            if line.result is not None and (
                _makes_special(line) or not layouts.special.isdisjoint(found.uses)
            ):
                layouts.special.add(line.result)
            if needs_own_tensors(line.operator):
                changed.update(() if works_with_ranks(line.operator) else line.writes)
                kept.update(found.uses if may_keep(line.operator) else ())
    if changed or kept:
        sharing = find_sharing(program)
        layouts.changed = sharing.names_with(changed)
        layouts.apart = layouts.changed | sharing.names_with(kept)
        layouts.exact -= layouts.changed
    return layouts


def _makes_special(line: ExternKernelLine) -> bool:
    arguments = (*line.arguments, *(value for _, value in line.keywords))
    return _SPECIAL.search(line.operator.split(".")[1]) is not None or any(
        isinstance(argument, TorchEnum)
        and argument.kind == "layout"
        and argument.name != "strided"
        for argument in arguments
    )


@frozen
class DeviceSurvey:
    """A program's uses of devices with streams.

    Attributes:
        kinds: The kinds of these devices.
        mentioned: The devices of all kinds, of inputs, constants and lines.
        devices: The devices in the order of their first uses.
        streams: The number of each side stream, counted from 1 on each device.
        events: The device of each event, and its number, counted from 0 on each device.
        homes: The stream that first uses each allocation: PyTorch's allocator gives memory
            freed on a stream only to that stream again.
        products: The CUDA devices that multiply matrices.
    """

    kinds: frozenset[str]
    mentioned: frozenset[Device]
    devices: tuple[Device, ...]
    streams: Mapping[Stream, int]
    events: Mapping[str, tuple[Device, int]]
    homes: Mapping[str, Stream]
    products: frozenset[Device]

    def stream_count(self, device: Device) -> int:
        """Return the number of side streams of a device."""
        return sum(plain_device(stream.device) == device for stream in self.streams)


def survey_devices(facts: ProgramFacts, kinds: frozenset[str]) -> DeviceSurvey:
    """Return a program's uses of devices of some kinds, nested blocks included."""
    uses = StreamUses(kinds)
    types = [type for _, type, _ in program_entry(facts.program)]
    found = [type.device for type in types if isinstance(type, TensorType)]
    events: dict[str, tuple[Device, int]] = {}
    streams: dict[Stream, int] = {}
    counts = Counter[Device]()
    for done in facts.effects:
        uses.add(done)
        found += [] if done.device is None else [done.device]
        if done.records and done.stream and done.stream.device.kind in kinds:
            device = plain_device(done.stream.device)
            events[done.records] = device, counts[device]
            counts[device] += 1
    counts.clear()
    for stream in uses.side:
        counts[stream.device] += 1
        streams[stream] = counts[stream.device]
    devices = dict.fromkeys(plain_device(d) for d in found if d.kind in kinds)
    homes = {name: next(iter(users)) for name, users in uses.users.items() if users}
    # Without side streams, events order nothing.
    made = events if streams else {}
    products = frozenset(
        plain_device(line.device)
        for line in walk_lines(facts.program.lines)
        if isinstance(line, ExternKernelLine)
        and line.device.kind == "cuda"
        and line.operator.rpartition(".")[0] in PRODUCTS
    )
    return DeviceSurvey(
        kinds, frozenset(found), tuple(devices), streams, made, homes, products
    )
