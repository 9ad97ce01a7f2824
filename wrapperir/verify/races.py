"""Uses of memory on several streams: a walk of its own, as few programs have any.

It runs after all names are known, and only where something is on another stream than 0.
Blocks are walked where they run.  Which of a conditional's runs is not known, so what the
host reads in one orders nothing after it.
"""

from collections.abc import Sequence

from wrapperir.analysis.arithmetic.range_map import RangeMap
from wrapperir.diagnostics import Code, LinePath, Note
from wrapperir.ir.effects import definitions, uses
from wrapperir.ir.line import (
    AllocateLine,
    AssertNotNanLine,
    Block,
    BodyLine,
    BufferRef,
    ConditionalLine,
    ExternKernelLine,
    FreeLine,
    ItemOf,
    KernelArgument,
    KernelCallLine,
    MultiOutputLine,
    PlaceLine,
    RecordEventLine,
    ReuseLine,
    SubgraphCallLine,
    SymbolDefinitionLine,
    WaitEventLine,
    WhileLoopLine,
    ZeroMode,
)
from wrapperir.ir.types import TensorType
from wrapperir.verify.placements import Placement, Pool, Unit
from wrapperir.verify.state import MAX_NESTING, Role, State, Storage, Value
from wrapperir.verify.streams import Clocks, Conflict, Event, History, Stream, stream_of


def check_races(state: State) -> None:
    """Report uses of one memory that nothing orders, where the walk has ended."""
    if any(found.code is Code.MALFORMED for found in state.diagnostics):
        return
    _Races(state).walk(state.program.lines, ("lines",), 0)


class _Races:
    def __init__(self, state: State) -> None:
        self._state = state
        self._clocks = Clocks()
        self._events: dict[str, Event] = {}
        self._histories: dict[int, History] = {}
        self._dropped: dict[int, dict[Unit, RangeMap[History]]] = {}
        self._path: LinePath = ()

    def walk(self, lines: Sequence[BodyLine], path: LinePath, depth: int) -> None:
        """Follow lines in order; ``path`` is that of the list."""
        for index, line in enumerate(lines):
            self._path = (*path, index)
            self._follow(line, depth)

    def _follow(self, line: BodyLine, depth: int) -> None:
        match line:
            case KernelCallLine():
                self._kernel_call(line, self._launched(line, depth))
            case ExternKernelLine():
                self._extern_kernel(line, self._launched(line, depth))
            case MultiOutputLine():
                self._multi_output(line)
            case AllocateLine(workspace=ZeroMode.ZERO_ON_CALL):
                self._used_on_first(line.result)
            case PlaceLine():
                self._place(line)
            case FreeLine():
                self._end(line.buffer)
            case ReuseLine():
                self._reuse(line)
            case RecordEventLine():
                stream = self._stream(line, depth)
                self._events[line.result] = self._clocks.record(stream)
            case WaitEventLine():
                event = self._events.get(line.event)
                if event is None:  # reported: what it was to order counts as ordered
                    event = self._clocks.record_all()
                self._clocks.wait(self._stream(line, depth), event)
            case SymbolDefinitionLine(source=ItemOf()) | AssertNotNanLine():
                self._clocks.wait_for_all()
            case ConditionalLine() | WhileLoopLine() | SubgraphCallLine():
                self._blocks(line, self._path, depth)
            case _:
                pass

    def _value(self, name: str) -> Value | None:
        value = self._state.values.get(name)
        return None if value is None or value.poisoned else value

    def _history(self, storage: Storage) -> History:
        history = self._histories.get(id(storage))
        if history is None:
            history = self._histories[id(storage)] = History()
        return history

    def _stream(
        self,
        line: KernelCallLine | ExternKernelLine | RecordEventLine | WaitEventLine,
        depth: int,
    ) -> Stream:
        """Return a line's stream; where it has a wrong one, that was reported."""
        number = line.stream
        return stream_of(line.device, 0 if depth or number < 0 else number)

    def _launched(self, line: KernelCallLine | ExternKernelLine, depth: int) -> Stream:
        stream = self._stream(line, depth)
        self._clocks.launch(stream)
        return stream

    def _use(self, name: str, stream: Stream, *, writes: bool) -> None:
        value = self._value(name)
        if value is None or value.role is Role.SCALAR:  # which has no memory
            return
        history = self._history(value.storage)
        conflict = self._clocks.use(history, stream, name, self._path, writes=writes)
        if conflict is not None:
            self._report(conflict)

    def _kernel_call(self, line: KernelCallLine, stream: Stream) -> None:
        signature = self._state.kernels.get(line.kernel)
        parameters = None if signature is None else signature.parameters
        if parameters is None or len(parameters) != len(line.arguments):
            return
        for parameter, argument in zip(parameters, line.arguments, strict=True):
            if isinstance(argument, BufferRef) and parameter.is_buffer:
                self._use(argument.name, stream, writes=parameter.writes)

    def _extern_kernel(self, line: ExternKernelLine, stream: Stream) -> None:
        for name in dict.fromkeys(uses(line)):
            self._use(name, stream, writes=name in line.writes)
        if line.result is not None and not line.aliases:
            self._use(line.result, stream, writes=True)

    def _multi_output(self, line: MultiOutputLine) -> None:
        """Have an element be written where its tuple was."""
        source, result = self._value(line.source), self._value(line.result)
        if source is None or result is None:
            return
        element = self._history(result.storage)
        of_tuple = self._history(source.storage)
        element.reported = of_tuple.reported
        for device, known in of_tuple.devices.items():
            element.on(device).writes.update(known.writes)

    def _used_on_first(self, name: str, *, writes: bool = True) -> None:
        """Have something be written, or read, by stream 0 of its device."""
        value = self._value(name)
        if value is not None and isinstance(value.type, TensorType):
            stream = stream_of(value.type.device, 0)
            self._clocks.launch(stream)
            self._use(name, stream, writes=writes)

    def _place(self, line: PlaceLine) -> None:
        """Have a placement follow what was dropped from its bytes."""
        value = self._value(line.result)
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
        if line.workspace is ZeroMode.ZERO_ON_CALL:
            self._used_on_first(line.result)

    def _reuse(self, line: ReuseLine) -> None:
        source, result = self._value(line.source), self._value(line.result)
        if source is not None and result is not None and source.storage is result.storage:
            self._clocks.renew(self._history(source.storage))
        else:
            self._end(line.source)

    def _end(self, name: str) -> None:
        """Leave a placement's uses to its pool where this line dropped its last name."""
        value = self._value(name)
        storage = None if value is None else value.storage
        while storage is not None and storage.placement is not None:
            placement = storage.placement
            if placement.ended != self._path:
                return
            self._leave(placement, storage)
            storage = placement.pool

    def _leave(self, placement: Placement, storage: Storage) -> None:
        outer, extent = placement.pool.pool, placement.extent
        if outer is None or extent is None:
            return
        left = History()
        self._clocks.follow(left, (self._history(storage),))
        if storage.pool is not None:
            self._clocks.follow(left, self._left_in(storage.pool))
        dropped = self._dropped.setdefault(id(outer), {})
        for span in extent.spans:
            ranges = dropped.setdefault(span.unit, RangeMap())
            ranges.cut(span.begin, span.end)
            ranges.insert(span.begin, span.end, left)

    def _left_in(self, pool: Pool) -> list[History]:
        spans = self._dropped.pop(id(pool), {})
        return [history for ranges in spans.values() for history in ranges.values()]

    def _blocks(
        self,
        line: ConditionalLine | WhileLoopLine | SubgraphCallLine,
        path: LinePath,
        depth: int,
    ) -> None:
        match line:
            case ConditionalLine():
                if isinstance(line.predicate, BufferRef):
                    self._clocks.wait_for_all()
                self._block(line.on_true, line.operands, (*path, "on_true"), depth)
                self._block(line.on_false, line.operands, (*path, "on_false"), depth)
            case WhileLoopLine():
                operands = (*line.carried, *line.invariant)
                self._block(line.condition, operands, (*path, "condition"), depth)
                waits = _is_read_by_host(line.condition)
                if waits:
                    self._clocks.wait_for_all()
                self._block(line.body, operands, (*path, "body"), depth)
                if waits:
                    self._clocks.wait_for_all()
                self._path = path
                for argument in line.carried:  # without an iteration, it is copied
                    if isinstance(argument, BufferRef):
                        self._used_on_first(argument.name, writes=False)
            case SubgraphCallLine():
                self._block(line.body, line.operands, (*path, "body"), depth)
        self._path = path
        for name, _ in definitions(line):
            self._used_on_first(name)

    def _block(
        self, block: Block, operands: Sequence[KernelArgument], path: LinePath, depth: int
    ) -> None:
        """Follow a block, whose parameters have the histories of its operands."""
        if depth >= MAX_NESTING:
            return
        for parameter, operand in zip(block.parameters, operands, strict=False):
            inner = self._value(parameter.name)
            outer = self._value(operand.name) if isinstance(operand, BufferRef) else None
            if inner is not None and outer is not None:
                self._histories[id(inner.storage)] = self._history(outer.storage)
        with self._clocks.in_block():
            self.walk(block.lines, (*path, "lines"), depth + 1)

    def _report(self, conflict: Conflict) -> None:
        earlier, later = conflict.earlier, conflict.later
        one, other = f"stream {later.stream[1]}", f"stream {earlier.stream[1]}"
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


def _is_read_by_host(condition: Block) -> bool:
    """Say whether the host waits for the device each time that it evaluates a condition."""
    return any(isinstance(result, BufferRef) for result in condition.results) or any(
        isinstance(line, AssertNotNanLine)
        or (isinstance(line, SymbolDefinitionLine) and isinstance(line.source, ItemOf))
        for line in condition.lines
    )
