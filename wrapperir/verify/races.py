"""Uses of memory on several streams, checked by a walk over the effects of lines.

The walk runs once all names are known, and only if a line is on another stream than 0.
Each nested block is walked where it runs.  Which block of a conditional runs is not known,
so what the host reads in one orders nothing after the conditional.
"""

from collections.abc import Sequence

from wrapperir.analysis.range_map import RangeMap
from wrapperir.diagnostics import Code, LinePath, Note
from wrapperir.ir import BodyLine, BufferRef, KernelCallLine, Stream, TensorType
from wrapperir.ir.effects import (
    Actor,
    Effects,
    NestedBlock,
    Origin,
)
from wrapperir.ir.line_effects import LineEffects
from wrapperir.verify.placements import Placement, PoolContents, SpanUnit
from wrapperir.verify.state import MAX_NESTING, Role, State, StorageFacts, ValueFacts
from wrapperir.verify.streams import Clocks, Conflict, RecordedEvent, UseHistory


def check_races(state: State) -> None:
    """Report uses of one memory that nothing orders, where the walk has ended."""
    _Races(state).walk(state.program.lines, ("lines",), 0)


class _Races:
    def __init__(self, state: State) -> None:
        self._state = state
        self._effects = LineEffects.of_program(state.program)
        self._faulty = {found.path for found in state.diagnostics}
        self._clocks = Clocks()
        self._events: dict[str, RecordedEvent] = {}
        self._histories: dict[int, UseHistory] = {}
        self._dropped: dict[int, dict[SpanUnit, RangeMap[UseHistory]]] = {}
        self._path: LinePath = ()
        self._region: tuple[Stream, int] | None = None
        self._regions = 0

    def walk(
        self,
        lines: Sequence[BodyLine],
        path: LinePath,
        depth: int,
        *,
        any_stream: bool = True,
    ) -> None:
        """Follow lines in order; ``path`` is that of the list.

        Without ``any_stream``, all lines are on stream 0.
        """
        for index, line in enumerate(lines):
            self._path = (*path, index)
            is_known = True
            if isinstance(line, KernelCallLine):
                signature = self._state.kernels.get(line.kernel)
                is_known = signature is not None and signature.parameters is not None
            self._follow(self._effects.visit(line), depth, is_known, any_stream)

    def _follow(
        self, effects: Effects, depth: int, is_known: bool, any_stream: bool
    ) -> None:
        """Follow a line: what it waits for, takes memory from, uses and drops, in order.

        A call of a kernel that is not known, or a call that was reported, uses nothing.
        """
        stream = effects.stream
        if stream is not None:
            if stream.number < 0 or not any_stream:
                stream = Stream(stream.device)  # another one was reported
            stream = self._in_region(stream)
        if effects.host_waits:
            self._clocks.wait_for_all()
        if stream is not None:
            self._order(effects, stream)
        for made in effects.definitions:
            if made.source is not None and made.origin is Origin.PLACED:
                self._place(made.name)
            elif made.source is not None and made.origin is Origin.ELEMENT:
                self._take_element(made.source, made.name)
        if effects.blocks:
            self._follow_blocks(effects, depth, stream)
        elif is_known and not (effects.launches and self._path in self._faulty):
            self._use_all(effects, stream)
        if effects.drops is not None:
            self._drop(effects)

    def _order(self, effects: Effects, stream: Stream) -> None:
        """Launch on a stream, record an event of it, or have it wait for one."""
        if effects.launches:
            self._clocks.launch(stream)
        if effects.records is not None:
            self._events[effects.records] = self._clocks.record(stream)
        if effects.awaits is not None:
            event = self._events.get(effects.awaits)
            if event is None:  # reported: what it was to order counts as ordered
                event = self._clocks.record_all()
            self._clocks.wait(stream, event)

    def _use_all(self, effects: Effects, stream: Stream | None) -> None:
        """Use what a line without blocks accesses."""
        for access in effects.accesses:
            if access.by is Actor.STREAM_0:
                self._use_on_first(access.name, writes=access.writes)
            elif access.by is not Actor.HOST and stream is not None:
                self._use(access.name, stream, writes=access.writes)

    def _value(self, name: str) -> ValueFacts | None:
        value = self._state.values.get(name)
        return None if value is None or value.poisoned else value

    def _history(self, storage: StorageFacts) -> UseHistory:
        history = self._histories.get(id(storage))
        if history is None:
            history = self._histories[id(storage)] = UseHistory()
        return history

    def _use(self, name: str, stream: Stream, *, writes: bool) -> None:
        value = self._value(name)
        if value is None or value.role is Role.SCALAR:  # which has no memory
            return
        perhaps = value.storage.perhaps
        self._clocks.steps -= len(perhaps)
        for storage in (value.storage, *(perhaps if self._clocks.steps >= 0 else ())):
            history = self._history(storage)
            conflict = self._clocks.use(history, stream, name, self._path, writes=writes)
            if conflict is not None:
                self._report(conflict)
                return

    def _use_on_first(self, name: str, *, writes: bool) -> None:
        """Have stream 0 of its device use a tensor."""
        value = self._value(name)
        if value is not None and isinstance(value.type, TensorType):
            stream = self._in_region(Stream(value.type.device))
            self._clocks.launch(stream)
            self._use(name, stream, writes=writes)

    def _take_element(self, source: str, result: str) -> None:
        """Have an element be written where its tuple was."""
        of_tuple, of_element = self._value(source), self._value(result)
        if of_tuple is None or of_element is None:
            return
        element = self._history(of_element.storage)
        history = self._history(of_tuple.storage)
        element.reported = history.reported
        for device, known in history.devices.items():
            element.on(device).writes.update(known.writes)

    def _place(self, name: str) -> None:
        """Have a placement follow what was dropped from its bytes."""
        value = self._value(name)
        placement = None if value is None else value.storage.placement
        if value is not None and placement is not None:
            history = self._history(value.storage)
            self._clocks.follow(history, (self._history(placement.pool),))
            pool, extent = placement.pool.pool, placement.extent
            dropped = self._dropped.get(id(pool), {})
            for span in () if extent is None else extent.spans:
                if span.unit in dropped:
                    old = dropped[span.unit].cut(span.begin, span.end)
                    self._clocks.follow(history, old)

    def _drop(self, effects: Effects) -> None:
        """End a name, or give its memory to the next owner."""
        assert effects.drops is not None
        source = self._value(effects.drops)
        for made in effects.definitions:
            result = self._value(made.name)
            if (
                source is not None
                and result is not None
                and source.storage is result.storage
            ):
                self._clocks.renew(self._history(source.storage))
                return
        self._end(effects.drops)

    def _end(self, name: str) -> None:
        """Leave a placement's uses to its pool where this line dropped its last name."""
        value = self._value(name)
        left: set[int] = set()
        for placement in () if value is None else value.storage.placements():
            within: Placement | None = placement
            storage = placement.owner.storage
            while (
                within is not None and within.ended == self._path and id(within) not in left
            ):
                left.add(id(within))
                self._leave(within, storage)
                storage = within.pool
                within = storage.placement

    def _leave(self, placement: Placement, storage: StorageFacts) -> None:
        outer, extent = placement.pool.pool, placement.extent
        if outer is None or extent is None:
            return
        left = UseHistory()
        self._clocks.follow(left, (self._history(storage),))
        if storage.pool is not None:
            self._clocks.follow(left, self._left_in(storage.pool))
        dropped = self._dropped.setdefault(id(outer), {})
        for span in extent.spans:
            ranges = dropped.setdefault(span.unit, RangeMap())
            ranges.cut(span.begin, span.end)
            ranges.insert(span.begin, span.end, left)

    def _left_in(self, pool: PoolContents) -> list[UseHistory]:
        spans = self._dropped.pop(id(pool), {})
        return [history for ranges in spans.values() for history in ranges.values()]

    def _follow_blocks(self, effects: Effects, depth: int, stream: Stream | None) -> None:
        """Follow the blocks of a line, which may be on a stream, in order, each once.

        A loop whose condition the host reads waits after its condition and, as that is
        read again, after its body.  Without an iteration it copies what it carries.
        """
        path, region = self._path, self._region
        if stream is not None:
            self._regions += 1
            self._region = stream, self._regions
        waits = any(self._is_read_by_host(b) for b in effects.blocks if not b.returns)
        copied: list[str] = []
        for block in effects.blocks:
            self._follow_block(block, path, depth, any_stream=stream is not None)
            if waits:
                self._clocks.wait_for_all()
            if block.repeats and block.returns:
                carried = block.operands[: len(block.block.results)]
                copied += [item.name for item in carried if isinstance(item, BufferRef)]
        self._path, self._region = path, region
        for name in copied:
            self._use_on_first(name, writes=False)
        for made in effects.definitions:
            if stream is None:
                self._use_on_first(made.name, writes=True)
            else:
                self._use(made.name, stream, writes=True)

    def _is_read_by_host(self, nested: NestedBlock) -> bool:
        """Say whether the host waits for the device each time that a block runs."""
        return nested.host_reads_result or any(
            self._effects.visit(line).host_waits for line in nested.block.lines
        )

    def _in_region(self, stream: Stream) -> Stream:
        """Return a stream, or the stream of the current graph region with that number."""
        if self._region is None or stream == self._region[0]:
            return stream
        return Stream(stream.device, stream.number, self._region[1])

    def _follow_block(
        self, nested: NestedBlock, path: LinePath, depth: int, *, any_stream: bool
    ) -> None:
        """Follow a block, whose parameters have the histories of its operands."""
        if depth >= MAX_NESTING:
            return
        for parameter, operand in zip(
            nested.block.parameters, nested.operands, strict=False
        ):
            inner = self._value(parameter.name)
            outer = self._value(operand.name) if isinstance(operand, BufferRef) else None
            if inner is not None and outer is not None:
                self._histories[id(inner.storage)] = self._history(outer.storage)
        with self._clocks.in_block():
            path = (*path, nested.field, "lines")
            self.walk(nested.block.lines, path, depth + 1, any_stream=any_stream)

    def _report(self, conflict: Conflict) -> None:
        earlier, later = conflict.earlier, conflict.later
        one, other = f"stream {later.stream.number}", f"stream {earlier.stream.number}"
        verb = "written" if later.writes else "read"
        before = "written" if earlier.writes else "read"
        if conflict.reuse:
            code = Code.UNORDERED_REUSE
            where = f"in memory that {other} used for %{earlier.name}"
        else:
            code = Code.UNORDERED_USE
            where = f"and {before} on {other}"
        message = f"%{later.name} is {verb} on {one}, {where}: nothing orders the two"
        self._state.report(
            code,
            message,
            f"%{later.name}",
            path=later.path,
            notes=(
                Note(
                    message=f"%{earlier.name} is {before} on {other} here",
                    path=earlier.path,
                ),
            ),
            hint=f"record an event on {other} after that, and have {one} wait for it "
            "before this",
        )
