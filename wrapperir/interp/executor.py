"""Runs the lines of a program or block, one after the other."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from attrs import define, evolve, field

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, FaultError, LinePath
from wrapperir.interp.blocks import (
    block_results,
    check_leaks,
    enter_block,
    holds,
    operand,
    typed_results,
)
from wrapperir.interp.collectives import Flights
from wrapperir.interp.entry import awaits_symbols, mismatch, result_mismatch
from wrapperir.interp.extern import call_operator
from wrapperir.interp.fault import placed, value_fault
from wrapperir.interp.frame import Frame
from wrapperir.interp.kernels import Kernels, KernelValue
from wrapperir.interp.layout import layout_of
from wrapperir.interp.line_names import LineNames
from wrapperir.interp.memory import MemoryExecutor
from wrapperir.interp.storage import require_cpu
from wrapperir.interp.streams import Launch
from wrapperir.interp.values import RunValue, TensorValue, TupleValue, allocate
from wrapperir.ir.line_effects import LineEffects

_EFFECTS = LineEffects(None)

AfterLine: TypeAlias = Callable[[LinePath, LineNames], None]
"""Is given the place of each line that has run, and the names of its block.

On entry the place is empty.
"""


@define(eq=False, kw_only=True)
class Executor(MemoryExecutor):
    """Runs lines of all kinds.

    ``awaiting`` has results, with their places, whose types mention symbols that the next
    lines define.
    """

    kernels: Kernels
    flights: Flights
    after_line: AfterLine | None = None
    awaiting: list[tuple[str, wir.ValueType, RunValue, LinePath]] = field(
        factory=list[tuple[str, wir.ValueType, RunValue, LinePath]]
    )

    def run(self, lines: Sequence[wir.BodyLine], prefix: LinePath) -> None:
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
                if self.flights:
                    self.flights.check(line, self.frame)
                if effects.host_waits:
                    self.streams.host_reads()
                self.visit(line)
            if self.after_line is not None:
                self.after_line(self.path, LineNames(self.frame))
        self._check_awaiting()
        self.flights.check_none(self.frame)

    def visit_kernel_definition(self, line: wir.KernelDefinitionLine) -> None:
        """Do nothing: calls look kernels up by name."""

    def visit_multi_kernel(self, line: wir.MultiKernelLine) -> None:
        """Do nothing: calls look kernels up by name."""

    def visit_kernel_call(self, line: wir.KernelCallLine) -> None:
        """Launch a kernel."""
        require_cpu(line.device)
        arguments = [_kernel_value(a, self.frame) for a in line.arguments]
        launch = self.streams.launch(line.device, line.stream, self.path)
        self.kernels.call(line.kernel, arguments, launch)

    def visit_extern_kernel(self, line: wir.ExternKernelLine) -> None:
        """Call an operator."""
        launch = self.streams.launch(line.device, line.stream, self.path)
        value = call_operator(line, self.frame, launch)
        if line.result is not None and value is not None:
            self._define(line.result, line.type, value)

    def visit_multi_output(self, line: wir.MultiOutputLine) -> None:
        """Name an element of a tuple."""
        value = self.frame.value(line.source)
        for index in line.indices:
            if not isinstance(value, TupleValue) or not 0 <= index < len(value.elements):
                problem = f"has no element {list(line.indices)}"
                raise value_fault(Code.RUN_VALUE_KIND, line.source, problem)
            value = value.elements[index]
        mismatched = result_mismatch(line.type, value, self.frame.symbols)
        if mismatched is not None:
            raise value_fault(Code.RUN_RESULT_MISMATCH, line.result, mismatched)
        self._define(line.result, line.type, value)

    def visit_record_event(self, line: wir.RecordEventLine) -> None:
        """Name the point that a stream has reached."""
        require_cpu(line.device)
        event = self.streams.record(line.device, line.stream)
        self._define(line.result, None, event)

    def visit_wait_event(self, line: wir.WaitEventLine) -> None:
        """Order a stream after an event."""
        require_cpu(line.device)
        self.streams.wait(line.device, line.stream, self.frame.event(line.event))

    def visit_collective(self, line: wir.CollectiveLine) -> None:
        """Start a collective."""
        require_cpu(line.device)
        launch = self.streams.launch(line.device, line.stream, self.path)
        self.flights.start(line, self.frame, launch, self.path)
        self._define(line.result, None, self.streams.record(line.device, line.stream))

    def visit_wait_collective(self, line: wir.WaitCollectiveLine) -> None:
        """Wait for a collective."""
        launch = self.streams.launch(line.device, line.stream, self.path)
        self.flights.finish(line, self.frame, launch)

    def visit_conditional(self, line: wir.ConditionalLine) -> None:
        """Run the block that the predicate picks."""
        taken = holds(line.predicate, self.frame)
        block, name = (line.on_true, "on_true") if taken else (line.on_false, "on_false")
        self._call(block, name, line.operands, line.results)

    def visit_subgraph_call(self, line: wir.SubgraphCallLine) -> None:
        """Run the block."""
        self._call(line.body, "body", line.operands, line.results)

    def visit_graph_region(self, line: wir.GraphRegionLine) -> None:
        """Run the block, whose streams beside the region's are its own."""
        require_cpu(line.device)
        region = evolve(self, streams=self.streams.in_region(line.device, line.stream))
        region._call(line.body, "body", line.operands, line.results)

    def visit_while_loop(self, line: wir.WhileLoopLine) -> None:
        """Run the body while the condition holds.

        The values of an iteration are dropped when the next one has replaced them.  With
        no iteration the results are copies of the carried values.
        """
        last, stacks = line.results[: len(line.carried)], line.results[len(line.carried) :]
        history: list[list[RunValue]] = []
        carried = [operand(argument, self.frame) for argument in line.carried]
        invariant = [operand(argument, self.frame) for argument in line.invariant]
        previous: Frame | None = None
        while True:
            test = self._run_block(line.condition, "condition", [*carried, *invariant])
            if len(line.condition.results) != 1:
                raise FaultError(Code.RUN_BLOCK, "a condition returns one result")
            if isinstance(line.condition.results[0], wir.BufferRef):
                self.streams.host_reads()
            proceed = holds(line.condition.results[0], test)
            test.release()
            if not proceed:
                break
            frame = self._run_block(line.body, "body", [*carried, *invariant])
            returned = block_results(line.body, frame)
            frame.give_back()
            carried = typed_results(last, returned, self.frame.symbols)
            if line.stacked:
                launch = self.streams.launch(wir.CPU, 0, self.path)
                history.append([_copy(value, launch) for value in carried])
            if previous is not None:
                previous.release()
            previous = frame
        if previous is None:
            launch = self.streams.launch(wir.CPU, 0, self.path)
            copies = [_copy(value, launch) for value in carried]
            carried = typed_results(last, copies, self.frame.symbols)
        self._define_results(last, carried)
        if line.stacked:
            launch = self.streams.launch(wir.CPU, 0, self.path)
            columns = zip(*(history or [carried]), strict=True)
            whole = [self._stack(values, launch) for values in columns]
            typed = typed_results(stacks, whole, self.frame.symbols)
            self._define_results(stacks, typed)
        if previous is not None:
            previous.release()

    def visit_comment(self, line: wir.CommentLine) -> None:
        """Do nothing."""

    def _call(
        self,
        block: wir.Block,
        name: str,
        operands: Sequence[wir.KernelArgument],
        results: Sequence[wir.Result],
    ) -> None:
        values = [operand(argument, self.frame) for argument in operands]
        frame = self._run_block(block, name, values)
        returned = typed_results(results, block_results(block, frame), self.frame.symbols)
        self._define_results(results, returned)
        frame.release()

    def _run_block(self, block: wir.Block, name: str, values: Sequence[RunValue]) -> Frame:
        """Run a block's lines and return its frame, which still holds its results."""
        frame = enter_block(block, values, self.frame.constants, self.frame.symbols)
        evolve(self, frame=frame, awaiting=[]).run(block.lines, (*self.path, name))
        check_leaks(frame, block.results)
        return frame

    def _stack(self, values: Sequence[RunValue], launch: Launch) -> TensorValue:
        """Return a row-major tensor with a dimension for these values, the first.

        Raises:
            FaultError: a value is not a tensor.
        """
        tensors = [value for value in values if isinstance(value, TensorValue)]
        if len(tensors) != len(values):
            raise FaultError(Code.RUN_BLOCK, "only tensors are stacked")
        each = tensors[0].layout
        type = wir.tensor(each.dtype, (len(tensors), *each.size))
        made = allocate(type, layout_of(type, {}), zeroed=True)
        torch.stack([value.tensor for value in tensors], out=made.tensor)
        launch.write(made.storage.history, "a stack of a loop's values")
        return made

    def _define_results(
        self, results: Sequence[wir.Result], values: Sequence[RunValue]
    ) -> None:
        for named, value in zip(results, values, strict=True):
            self._define(named.name, named.type, value)

    def _define(self, name: str, type: wir.ValueType | None, value: RunValue) -> None:
        self.frame.define(name, value, self.path)
        if type is not None and awaits_symbols(type, self.frame.symbols):
            self.awaiting.append((name, type, value, self.path))

    def _check_awaiting(self) -> None:
        """Compare results with their types, now that the symbols have values."""
        for name, type, value, path in self.awaiting:
            with placed(path):
                problem = mismatch(type, value, self.frame.symbols)
                if problem is not None:
                    raise value_fault(Code.RUN_RESULT_MISMATCH, name, problem)
        self.awaiting.clear()


def _kernel_value(argument: wir.KernelArgument, frame: Frame) -> KernelValue:
    value = operand(argument, frame)
    if isinstance(value, TensorValue | int | float):
        return value
    raise FaultError(Code.RUN_VALUE_KIND, "a kernel takes tensors and numbers only")


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
