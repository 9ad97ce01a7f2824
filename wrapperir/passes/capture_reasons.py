"""Why lines are outside of graph regions."""

from collections.abc import Container
from enum import StrEnum

from attrs import define, evolve, field, frozen

from wrapperir import ir as wir
from wrapperir.ir.effects import Effects, NestedBlock, Origin
from wrapperir.ir.line_effects import LineEffects
from wrapperir.ir.mentions import line_symbols, type_symbols
from wrapperir.ir.recordable_operators import recording_obstacle, works_with_ranks


class Reason(StrEnum):
    """Why a line is outside of graph regions; the value is its name in reports."""

    DEVICE = "device without graphs"
    HOST_READ = "host read"
    OPERATOR = "operator"
    ARGUMENT = "argument"
    RESULT = "result"
    DATA = "number from data"
    ADDRESS = "address"
    BLOCKS = "nested blocks"
    EVENT = "event"
    RANKS = "collective"
    POOL = "pool"
    SYMBOL = "symbol"
    GAIN = "no gain"


STAYING = frozenset({Reason.BLOCKS, Reason.EVENT, Reason.POOL, Reason.RANKS})
"""Reasons of lines that end a run, whatever they use."""


@frozen
class Outside:
    """Why a line is outside: the reason, and what it is about the line."""

    reason: Reason
    detail: str


@define
class LineReasons:
    """Finds why no region may hold a line, whatever the lines around it are.

    The survey of a program adds to the fields as it goes through the lines.

    Attributes:
        devices: The kinds of devices that have graphs; ``None`` is every kind.
        operators: The operators that may be recorded; ``None`` is every operator.
        collectives: Whether collectives may be recorded.
        described: Kernels that take a tensor behind a descriptor.
        types: The type of each value so far.
        known: Symbols so far.
        from_data: Symbols whose values are read from data, and may differ in each call.
        views: Names that are, or may be, views of another name.
    """

    devices: Container[str] | None
    operators: Container[str] | None
    collectives: bool
    described: frozenset[str]
    line_effects: LineEffects
    types: dict[str, wir.ValueType]
    known: set[str] = field(factory=set[str])
    from_data: set[str] = field(factory=set[str])
    views: set[str] = field(factory=set[str])

    def of_line(self, line: wir.BodyLine, effects: Effects) -> Outside | None:
        """Return why no region may hold a line, whatever the lines around it are."""
        if effects.host_waits:
            read = effects.accesses[0].name
            return Outside(Reason.HOST_READ, f"the host reads %{read}")
        if isinstance(line, wir.GraphRegionLine):
            return Outside(Reason.BLOCKS, "a region holds no other region")
        if any(nested.repeats for nested in effects.blocks):
            return Outside(Reason.BLOCKS, "a replay cannot end a loop")
        if effects.records is not None or effects.awaits is not None:
            return Outside(Reason.EVENT, "the work of a region is on one stream")
        is_of_ranks = effects.starts is not None or effects.completes is not None
        if is_of_ranks and not self.collectives:
            detail = "collectives are recorded with collectives = true, for NCCL's groups"
            return Outside(Reason.RANKS, detail)
        if effects.symbol is not None:
            return Outside(Reason.SYMBOL, f"later lines may use {effects.symbol}")
        if any(made.origin in (Origin.POOL, Origin.PLACED) for made in effects.definitions):
            return Outside(Reason.POOL, "capture graphs before memory is planned")
        if effects.reads_address and not self.views.isdisjoint(effects.uses):
            detail = f"the address of %{effects.uses[0]} may differ in each replay"
            return Outside(Reason.ADDRESS, detail)
        if effects.blocks:
            return self._symbol_reason(line, effects)
        if effects.stream is None:
            return None
        return (
            self._argument_reason(effects, effects.stream.device)
            or self._symbol_reason(line, effects)
            or self._call_reason(line)
        )

    def as_call(self, effects: Effects) -> Effects | Outside:
        """Return the effects of a line with nested blocks as those of one call.

        The predicate of a conditional is the same number in all runs of a recording.
        """
        streams: dict[wir.Stream, None] = {}
        for nested in effects.blocks:
            found = self._block_reason(nested, streams)
            if found is not None:
                return found
        if len(streams) != 1:
            return Outside(Reason.BLOCKS, "its blocks have no call, or use several devices")
        (stream,) = streams
        for made in effects.definitions:
            is_known = self.known.issuperset(type_symbols(made.type))
            if not is_known or not _is_on(made.type, stream.device):
                detail = f"%{made.name} is not a tensor of known size on {stream.device}"
                return Outside(Reason.RESULT, detail)
        if len(effects.definitions) > 1:
            return Outside(Reason.BLOCKS, "its results may share memory")
        return self._argument_reason(effects, stream.device) or evolve(
            effects, device=stream.device, stream=stream, launches=True
        )

    def _block_reason(
        self, nested: NestedBlock, streams: dict[wir.Stream, None]
    ) -> Outside | None:
        """Return why no region may hold a nested block; add the streams of its calls."""
        types = self.types
        types.update({each.name: each.type for each in nested.block.parameters})
        for line in nested.block.lines:
            effects = self.line_effects.visit(line)
            types.update({made.name: made.type for made in effects.definitions})
            if effects.reads_address:
                return Outside(Reason.ADDRESS, "a block reads an address")
            if any(made.origin is Origin.PROGRAM for made in effects.definitions):
                return Outside(Reason.BLOCKS, "a block has memory that the program keeps")
            found = self.of_line(line, effects)
            if found is not None:
                return found
            if effects.starts is not None:
                return Outside(Reason.BLOCKS, "a block has a collective")
            for inner in effects.blocks:
                found = self._block_reason(inner, streams)
                if found is not None:
                    return found
            stream = effects.stream
            if isinstance(line, wir.AllocateLine):
                stream = wir.Stream(line.type.device)
                if not is_plain(line.type, stream.device):
                    return Outside(Reason.BLOCKS, "a block has memory of an unusual kind")
            if stream is not None:
                streams[stream] = None
        return None

    def _argument_reason(self, effects: Effects, device: wir.Device) -> Outside | None:
        if self.devices is not None and device.kind not in self.devices:
            return Outside(Reason.DEVICE, f"there are no graphs for {device.kind}")
        for name in effects.uses:
            type = self.types[name]
            if isinstance(type, wir.ScalarType | wir.EventType):
                continue
            if not isinstance(type, wir.TensorType):
                detail = f"%{name} is neither a tensor nor a number"
                return Outside(Reason.ARGUMENT, detail)
            if wir.Stream(type.device).device != device:
                detail = f"%{name} is on {type.device}, the call on {device}"
                return Outside(Reason.ARGUMENT, detail)
        return None

    def _symbol_reason(self, line: wir.BodyLine, effects: Effects) -> Outside | None:
        """Return why not, if the call or the sizes of its arguments depend on data."""
        if not self.from_data:
            return None
        symbols = set(line_symbols(line))
        for name in effects.uses:
            symbols.update(type_symbols(self.types[name]))
        read = sorted(symbols & self.from_data)
        if not read:
            return None
        return Outside(Reason.DATA, f"{read[0]} is read from data, and may always differ")

    def _call_reason(self, line: wir.BodyLine) -> Outside | None:
        if isinstance(line, wir.KernelCallLine) and line.kernel in self.described:
            detail = f"@{line.kernel} takes a tensor behind a descriptor"
            return Outside(Reason.ADDRESS, detail)
        if not isinstance(line, wir.ExternKernelLine):
            return None
        if self.operators is not None and line.operator not in self.operators:
            detail = f"{line.device.kind} records no calls of {line.operator}"
            return Outside(Reason.OPERATOR, detail)
        if works_with_ranks(line.operator):
            return Outside(Reason.RANKS, "its work and its wait are not one collective")
        obstacle = recording_obstacle(line, self.types)
        if obstacle is not None:
            return Outside(Reason.OPERATOR, f"it {obstacle}")
        if line.type is None:
            return None
        if not self.known.issuperset(type_symbols(line.type)):
            detail = f"only the call tells the size of %{line.result}"
            return Outside(Reason.RESULT, detail)
        if isinstance(line.type, wir.TupleType):
            return None  # its elements are looked at where they are used
        if not _is_on(line.type, line.device):
            detail = f"%{line.result} is not a tensor on {line.device}"
            return Outside(Reason.RESULT, detail)
        return None


def behind_descriptors(program: wir.Program) -> frozenset[str]:
    """Return the kernels and multi-kernels that take a tensor behind a descriptor."""
    found: set[str] = set()
    for line in program.definitions:
        if any(isinstance(each, wir.DescriptorParameter) for each in line.parameters) or (
            isinstance(line, wir.MultiKernelLine)
            and not found.isdisjoint(choice.kernel for choice in line.choices)
        ):
            found.add(line.name)
    return frozenset(found)


def is_plain(type: wir.TensorType, device: wir.Device) -> bool:
    """Say whether memory of a type is of the usual kind, on a device."""
    return (
        wir.Stream(type.device).device == device
        and type.space == wir.DEFAULT_SPACE
        and not type.pinned
        and type.layout is None
    )


def is_returnable(call: wir.ExternKernelLine, type: wir.ValueType) -> bool:
    """Say whether a region can return what a call in it returns.

    ``type`` is that of the result, or of an element of it.
    """
    return not call.aliases and _is_on(type, call.device)


def _is_on(type: wir.ValueType, device: wir.Device) -> bool:
    """Say whether a type is that of a tensor on a device."""
    return isinstance(type, wir.TensorType) and wir.Stream(type.device) == wir.Stream(
        device
    )
