"""Run the lines of a program or block, one after the other."""

from collections.abc import Sequence

from attrs import define, evolve, field

from wrapperir.diagnostics import Code, LinePath
from wrapperir.interp.allocation import allocate
from wrapperir.interp.asserts import (
    assert_alignment,
    assert_not_nan,
    assert_scalar,
    assert_size_stride,
)
from wrapperir.interp.blocks import (
    block_results,
    check_leaks,
    enter_block,
    holds,
    operand,
    typed_results,
)
from wrapperir.interp.choices import KernelValue
from wrapperir.interp.entry import awaits_symbols, mismatch, result_mismatch
from wrapperir.interp.extern import call_operator
from wrapperir.interp.fault import FaultError, placed
from wrapperir.interp.frame import Frame
from wrapperir.interp.kernels import Kernels
from wrapperir.interp.memory import (
    Workspaces,
    run_allocate,
    run_allocate_pool,
    run_free,
    run_place,
    run_reinterpret,
    run_reuse,
)
from wrapperir.interp.storage import require_cpu
from wrapperir.interp.streams import Event, Launch, Streams
from wrapperir.interp.symbols import define_symbol
from wrapperir.interp.values import RunValue, TensorValue, TupleValue
from wrapperir.ir import (
    CPU,
    AllocateLine,
    AllocatePoolLine,
    AssertAlignmentLine,
    AssertNotNanLine,
    AssertScalarLine,
    AssertSizeStrideLine,
    Block,
    BodyLine,
    BufferRef,
    CommentLine,
    ConditionalLine,
    ExternKernelLine,
    FreeLine,
    KernelArgument,
    KernelCallLine,
    KernelDefinitionLine,
    LineVisitor,
    MultiKernelLine,
    MultiOutputLine,
    PlaceLine,
    RecordEventLine,
    ReinterpretLine,
    Result,
    ReuseLine,
    SubgraphCallLine,
    SymbolDefinitionLine,
    ValueType,
    WaitEventLine,
    WhileLoopLine,
)
from wrapperir.ir.effects import LineEffects

_EFFECTS = LineEffects(None)


@define(eq=False)
class Executor(LineVisitor[None]):
    """Runs lines in ``frame``; ``path`` is the place of the line being run.

    ``awaiting`` has results, with their places, whose types mention symbols that the next
    lines define.
    """

    kernels: Kernels
    workspaces: Workspaces
    streams: Streams
    frame: Frame
    path: LinePath = ()
    awaiting: list[tuple[str, ValueType, RunValue, LinePath]] = field(
        factory=list[tuple[str, ValueType, RunValue, LinePath]]
    )

    def run(self, lines: Sequence[BodyLine], prefix: LinePath) -> None:
        """Run the lines of the program or block at ``prefix``.

        Raises:
            DiagnosticError: a line faulted; it is placed there.
        """
        for index, line in enumerate(lines):
            effects = _EFFECTS.visit(line)
            if self.awaiting and not effects.leaves_types_open:
                self._check_awaiting()
            self.path = (*prefix, "lines", index)
            with placed(self.path):
                if effects.host_waits:
                    self.streams.host_reads()
                self.visit(line)
        self._check_awaiting()

    def visit_kernel_definition(self, line: KernelDefinitionLine) -> None:
        """Do nothing: calls look kernels up by name."""

    def visit_multi_kernel(self, line: MultiKernelLine) -> None:
        """Do nothing: calls look kernels up by name."""

    def visit_allocate(self, line: AllocateLine) -> None:
        """Allocate, or take up the program's workspace."""
        run_allocate(line, self.frame, self.path, self.workspaces, self.streams)

    def visit_allocate_pool(self, line: AllocatePoolLine) -> None:
        """Allocate a pool."""
        run_allocate_pool(line, self.frame, self.path)

    def visit_place(self, line: PlaceLine) -> None:
        """Begin a storage in a pool."""
        run_place(line, self.frame, self.path, self.streams)

    def visit_free(self, line: FreeLine) -> None:
        """Drop a name."""
        run_free(line, self.frame, self.path)

    def visit_reuse(self, line: ReuseLine) -> None:
        """Move a name's reference to another name."""
        run_reuse(line, self.frame, self.path)

    def visit_reinterpret(self, line: ReinterpretLine) -> None:
        """Name a view."""
        run_reinterpret(line, self.frame, self.path)

    def visit_kernel_call(self, line: KernelCallLine) -> None:
        """Launch a kernel."""
        require_cpu(line.device)
        arguments = [_kernel_value(a, self.frame) for a in line.arguments]
        launch = self.streams.launch(line.device, line.stream, self.path)
        self.kernels.call(line.kernel, arguments, launch)

    def visit_extern_kernel(self, line: ExternKernelLine) -> None:
        """Call an operator."""
        launch = self.streams.launch(line.device, line.stream, self.path)
        value = call_operator(line, self.frame, launch)
        if line.result is not None and value is not None:
            self._define(line.result, line.type, value)

    def visit_multi_output(self, line: MultiOutputLine) -> None:
        """Name an element of a tuple."""
        value = self.frame.value(line.source)
        for index in line.indices:
            if not isinstance(value, TupleValue) or not 0 <= index < len(value.elements):
                message = f"%{line.source} has no element {list(line.indices)}"
                raise FaultError(Code.RUN_VALUE_KIND, message, subject=f"%{line.source}")
            value = value.elements[index]
        problem = result_mismatch(line.type, value, self.frame.symbols)
        if problem is not None:
            message = f"%{line.result} {problem}"
            raise FaultError(Code.RUN_RESULT_MISMATCH, message, subject=f"%{line.result}")
        self._define(line.result, line.type, value)

    def visit_record_event(self, line: RecordEventLine) -> None:
        """Name the point that a stream has reached."""
        require_cpu(line.device)
        event = self.streams.record(line.device, line.stream)
        self._define(line.result, None, event)

    def visit_wait_event(self, line: WaitEventLine) -> None:
        """Order a stream after an event."""
        require_cpu(line.device)
        event = self.frame.value(line.event)
        if not isinstance(event, Event):
            message = f"%{line.event} is not an event"
            raise FaultError(Code.RUN_VALUE_KIND, message, subject=f"%{line.event}")
        self.streams.wait(line.device, line.stream, event)

    def visit_symbol_definition(self, line: SymbolDefinitionLine) -> None:
        """Give a symbol its value."""
        define_symbol(self.frame, line)

    def visit_assert_size_stride(self, line: AssertSizeStrideLine) -> None:
        """Check a size and stride."""
        assert_size_stride(line, self.frame)

    def visit_assert_alignment(self, line: AssertAlignmentLine) -> None:
        """Check an address."""
        assert_alignment(line, self.frame)

    def visit_assert_scalar(self, line: AssertScalarLine) -> None:
        """Check a condition."""
        assert_scalar(line, self.frame)

    def visit_assert_not_nan(self, line: AssertNotNanLine) -> None:
        """Check that elements are finite."""
        assert_not_nan(line, self.frame)

    def visit_conditional(self, line: ConditionalLine) -> None:
        """Run the block that the predicate picks."""
        taken = holds(line.predicate, self.frame)
        block, name = (line.on_true, "on_true") if taken else (line.on_false, "on_false")
        self._call(block, name, line.operands, line.results)

    def visit_subgraph_call(self, line: SubgraphCallLine) -> None:
        """Run the block."""
        self._call(line.body, "body", line.operands, line.results)

    def visit_while_loop(self, line: WhileLoopLine) -> None:
        """Run the body while the condition holds.

        The values of an iteration are dropped when the next one has replaced them.  With
        no iteration the results are copies of the carried values.
        """
        carried = [operand(argument, self.frame) for argument in line.carried]
        invariant = [operand(argument, self.frame) for argument in line.invariant]
        previous: Frame | None = None
        while True:
            test = self._run_block(line.condition, "condition", [*carried, *invariant])
            if len(line.condition.results) != 1:
                message = "a condition returns one result"
                raise FaultError(Code.RUN_BLOCK, message)
            if isinstance(line.condition.results[0], BufferRef):
                self.streams.host_reads()
            proceed = holds(line.condition.results[0], test)
            test.release()
            if not proceed:
                break
            frame = self._run_block(line.body, "body", [*carried, *invariant])
            returned = block_results(line.body, frame)
            frame.give_back()
            carried = typed_results(line.results, returned, self.frame.symbols)
            if previous is not None:
                previous.release()
            previous = frame
        if previous is None:
            launch = self.streams.launch(CPU, 0, self.path)
            copies = [_copy(value, launch) for value in carried]
            carried = typed_results(line.results, copies, self.frame.symbols)
        self._define_results(line.results, carried)
        if previous is not None:
            previous.release()

    def visit_comment(self, line: CommentLine) -> None:
        """Do nothing."""

    def _call(
        self,
        block: Block,
        name: str,
        operands: Sequence[KernelArgument],
        results: Sequence[Result],
    ) -> None:
        values = [operand(argument, self.frame) for argument in operands]
        frame = self._run_block(block, name, values)
        returned = typed_results(results, block_results(block, frame), self.frame.symbols)
        self._define_results(results, returned)
        frame.release()

    def _run_block(self, block: Block, name: str, values: Sequence[RunValue]) -> Frame:
        """Run a block's lines and return its frame, which still holds its results."""
        frame = enter_block(block, values, self.frame.constants, self.frame.symbols)
        path = (*self.path, name)
        inner = Executor(self.kernels, self.workspaces, self.streams, frame)
        inner.run(block.lines, path)
        check_leaks(frame, block.results)
        return frame

    def _define_results(
        self, results: Sequence[Result], values: Sequence[RunValue]
    ) -> None:
        for named, value in zip(results, values, strict=True):
            self._define(named.name, named.type, value)

    def _define(self, name: str, type: ValueType | None, value: RunValue) -> None:
        self.frame.define(name, value, self.path)
        if type is not None and awaits_symbols(type, self.frame.symbols):
            self.awaiting.append((name, type, value, self.path))

    def _check_awaiting(self) -> None:
        """Compare results with their types, now that the symbols have values."""
        for name, type, value, path in self.awaiting:
            with placed(path):
                problem = mismatch(type, value, self.frame.symbols)
                if problem is not None:
                    message = f"%{name} {problem}"
                    raise FaultError(Code.RUN_RESULT_MISMATCH, message, subject=f"%{name}")
        self.awaiting.clear()


def _kernel_value(argument: KernelArgument, frame: Frame) -> KernelValue:
    value = operand(argument, frame)
    if isinstance(value, TensorValue | int | float):
        return value
    message = "a kernel takes tensors and numbers only"
    raise FaultError(Code.RUN_VALUE_KIND, message)


def _copy(value: RunValue, launch: Launch) -> RunValue:
    if not isinstance(value, TensorValue):
        return value
    value.require_written("an operand that the loop copies")
    launch.read(value.storage.history, "an operand that the loop copies")
    assert value.storage.type is not None
    kind = evolve(value.storage.type, alignment=None)
    copy = allocate(kind, value.layout, zeroed=True)
    copy.tensor.copy_(value.tensor)
    launch.write(copy.storage.history, "a result of the loop")
    return copy
