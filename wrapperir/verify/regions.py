"""Rules of graph regions: work that a device can record in one run and replay in others.

A region is first checked as a call of its block.  These rules come in addition.  They are
derived from the effects of the lines in the region, nested blocks included.
"""

from collections.abc import Sequence
from typing import TypeAlias

from attrs import define, field

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, LinePath
from wrapperir.ir.effects import Actor, Effects, Origin
from wrapperir.ir.line_effects import LineEffects
from wrapperir.ir.recordable_operators import recording_obstacle
from wrapperir.verify.state import State
from wrapperir.verify.streams import Clocks, RecordedEvent

_EFFECTS = LineEffects(None)

_Numbers: TypeAlias = wir.SizeOf | wir.StrideOf | wir.OffsetOf


def check_region(state: State, line: wir.GraphRegionLine) -> None:
    """Check a region whose block has been walked."""
    path = state.place()
    if line.recordings < 1:
        state.report(
            Code.GRAPH_LINE,
            f"a graph region keeps at least one recording, not {line.recordings}",
            f"recordings({line.recordings})",
        )
    rules = _RegionRules(state, line.device)
    for operand in line.operands:
        if isinstance(operand, wir.BufferRef):
            rules.check_operand(operand.name)
    rules.check_results(line, (*path, "body", "results"))
    rules.check_lines(line.body.lines, (*path, "body", "lines"))
    _check_streams(state, line, (*path, "body", "lines"))


@define(eq=False)
class _RegionRules:
    """Rules for the operands, results and lines of a region, whose work is on ``device``.

    ``operators`` are the names that operators of the region define, ``own`` the names of
    memory that the region makes: its address is the same in each replay.
    """

    state: State
    device: wir.Device
    operators: set[str] = field(factory=set[str])
    own: set[str] = field(factory=set[str])

    def _type(self, name: str) -> wir.ValueType | None:
        value = self.state.values.get(name)
        return None if value is None or value.poisoned else value.type

    def _is_elsewhere(self, device: wir.Device) -> bool:
        return wir.Stream(device) != wir.Stream(self.device)

    def check_operand(self, name: str) -> None:
        """Check that an operand is a tensor on the region's device, or a number."""
        type = self._type(name)
        if type is None or isinstance(type, wir.ScalarType):
            return
        if not isinstance(type, wir.TensorType):
            self.state.report(
                Code.GRAPH_VALUE,
                f"%{name} is neither a tensor nor a number",
                f"%{name}",
                hint="give a graph region tensors and numbers only",
            )
        elif self._is_elsewhere(type.device):
            self._report_device(f"the operand %{name} is on {type.device}", f"%{name}")

    def check_results(self, line: wir.GraphRegionLine, path: LinePath) -> None:
        """Check that results are tensors on the device that share no memory."""
        found: dict[int, int] = {}
        for index, (result, returned) in enumerate(
            zip(line.results, line.body.results, strict=False)
        ):
            here = (*path, index)
            if not isinstance(result.type, wir.TensorType):
                self.state.report(
                    Code.GRAPH_VALUE,
                    f"%{result.name} is not a tensor: a replay makes tensors only",
                    path=here,
                    hint="compute numbers outside of the graph region",
                )
                continue
            if self._is_elsewhere(result.type.device):
                where = f"%{result.name} is on {result.type.device}"
                self._report_device(where, None, here)
            name = returned.name if isinstance(returned, wir.BufferRef) else ""
            value = self.state.values.get(name)
            if value is None:
                continue
            first = found.setdefault(id(value.storage), index)
            if first != index:
                self.state.report(
                    Code.GRAPH_VALUE,
                    f"%{name} may share its memory with result {first}: a replay copies "
                    "each result",
                    f"%{name}",
                    path=here,
                    hint="return one of them and make a view of it outside",
                )

    def check_lines(
        self, lines: Sequence[wir.BodyLine], path: LinePath, *, is_nested: bool = False
    ) -> None:
        """Check lines, each with its nested blocks; ``path`` is the place of the list."""
        for index, line in enumerate(lines):
            here = (*path, index)
            effects = _EFFECTS.visit(line)
            if is_nested and effects.starts is not None:
                message = "a collective is in a block of a graph region"
                self.state.report(Code.GRAPH_LINE, message, path=here, hint=_OUTSIDE)
            elif self._check_line(line, effects, here):
                for nested in effects.blocks:
                    inner = (*here, nested.field, "lines")
                    self.check_lines(nested.block.lines, inner, is_nested=True)

    def _check_line(self, line: wir.BodyLine, effects: Effects, path: LinePath) -> bool:
        """Check a line; return whether its nested blocks are to be checked."""
        obstacle = _line_obstacle(line, effects)
        if obstacle is not None:
            code, message = obstacle
            self.state.report(code, message, path=path, hint=_OUTSIDE)
            return False
        if effects.reads_address and not self.own.issuperset(effects.uses):
            message = "the host reads an address, which may differ in each replay"
            self.state.report(Code.GRAPH_HOST_READ, message, path=path, hint=_OUTSIDE)
        if effects.device is not None and self._is_elsewhere(effects.device):
            self._report_device(f"the line is on {effects.device}", None, path)
        elif isinstance(line, wir.ExternKernelLine):
            self._check_operator(line, effects, path)
        elif isinstance(line, wir.SymbolDefinitionLine) and isinstance(
            line.source, _Numbers
        ):
            self._check_layout_read(line, effects, path)
        self.operators.update(
            made.name
            for made in effects.definitions
            if made.origin is Origin.OPERATOR
            or (made.source is not None and made.source in self.operators)
        )
        self.own.update(
            made.name
            for made in effects.definitions
            if (made.origin in _MAKES_MEMORY and not made.may_alias)
            or (made.source is not None and made.source in self.own)
        )
        return True

    def _check_operator(
        self, line: wir.ExternKernelLine, effects: Effects, path: LinePath
    ) -> None:
        types = {name: type for name in effects.uses if (type := self._type(name))}
        obstacle = recording_obstacle(line, types)
        if obstacle is not None:
            message = f"{line.operator} {obstacle}"
            self.state.report(
                Code.GRAPH_OPERATOR, message, line.operator, path=path, hint=_OUTSIDE
            )
            return
        if line.result is not None and line.type is not None:
            types[line.result] = line.type
        for name, type in types.items():
            if isinstance(type, wir.TensorType) and self._is_elsewhere(type.device):
                self._report_device(f"%{name} is on {type.device}", f"%{name}", path)
                return

    def _check_layout_read(
        self, line: wir.SymbolDefinitionLine, effects: Effects, path: LinePath
    ) -> None:
        for name in effects.uses:
            if name in self.operators:
                self.state.report(
                    Code.GRAPH_HOST_READ,
                    f"{line.symbol} is a number that the operator of %{name} decides: "
                    "a replay does not see it",
                    f"%{name}",
                    path=path,
                    hint=_OUTSIDE,
                )

    def _report_device(
        self, what: str, subject: str | None, path: LinePath | None = None
    ) -> None:
        self.state.report(
            Code.GRAPH_DEVICE,
            f"{what}, and the graph region on {self.device}",
            subject,
            path=path,
            hint="keep a graph region to one device",
        )


_MAKES_MEMORY = frozenset({Origin.ALLOCATED, Origin.POOL, Origin.OPERATOR, Origin.BLOCK})

_OUTSIDE = "move the line out of the graph region"


def _line_obstacle(line: wir.BodyLine, effects: Effects) -> tuple[Code, str] | None:
    """Return why a graph region cannot have a line, from its effects; ``None`` if it can.

    Operators, devices and streams have rules of their own.
    """
    if isinstance(line, wir.GraphRegionLine):
        return Code.GRAPH_LINE, "a graph region is in another one"
    if any(nested.repeats for nested in effects.blocks):
        return Code.GRAPH_LINE, "a loop is in a graph region: a replay cannot end it"
    if any(made.origin is Origin.PROGRAM for made in effects.definitions):
        return (
            Code.GRAPH_LINE,
            "memory that the program keeps is allocated in a graph region",
        )
    if effects.host_waits:
        return Code.GRAPH_HOST_READ, "the host reads a value, which a replay does not"
    return None


def _check_streams(state: State, line: wir.GraphRegionLine, path: LinePath) -> None:
    """Check that other streams begin after the region's stream, and end before it."""
    own = wir.Stream(line.device, line.stream)
    clocks, events = Clocks(), dict[str, RecordedEvent]()
    begun: set[wir.Stream] = {own}
    last: dict[wir.Stream, LinePath] = {}
    for index, inner in enumerate(line.body.lines):
        effects = _EFFECTS.visit(inner)
        here = (*path, index)
        if effects.awaits is not None and effects.stream is not None:
            event = events.get(effects.awaits)
            if event is not None:
                clocks.wait(effects.stream, event)
            begun.add(effects.stream)  # events from outside were reported
            continue
        for stream in _streams_used(effects, own):
            if stream not in begun:
                begun.add(stream)
                state.report(
                    Code.GRAPH_STREAM,
                    f"stream {stream.number} does not wait for stream {own.number} of the "
                    "graph region before this",
                    path=here,
                    hint=f"record an event on stream {own.number} in the graph region, and "
                    f"have stream {stream.number} wait for it",
                )
            if effects.records is not None:
                events[effects.records] = clocks.record(stream)
            else:
                clocks.launch(stream)
                last[stream] = here
    done = clocks.done.get(own, {})
    for stream, count in clocks.counts.items():
        if stream != own and done.get(stream, 0) < count:
            state.report(
                Code.GRAPH_STREAM,
                f"the graph region ends while stream {stream.number} does this",
                path=last[stream],
                hint=f"record an event on stream {stream.number} after it, and have stream "
                f"{own.number} wait for that",
            )


def _streams_used(effects: Effects, own: wir.Stream) -> tuple[wir.Stream, ...]:
    """Return the streams that a line of a region on stream ``own`` orders or gives work."""
    if effects.stream is not None:
        return (effects.stream,) if effects.stream.device == own.device else ()
    on_first = effects.blocks or any(a.by is Actor.STREAM_0 for a in effects.accesses)
    return (wir.Stream(own.device),) if on_first else ()
