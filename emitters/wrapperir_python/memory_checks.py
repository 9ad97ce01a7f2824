"""Emitted code that checks its own memory: the checks that are added after each line.

The checks are told what the program says, and look at the tensors that the rest of the
emitted code made, so that they agree only if both are right.
"""

import functools
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.emit import Fragment, Loaded, Value, fragment, joined
from wrapperir.emit.graph_regions import RegionStreams
from wrapperir.emit.python.expressions import format_int, format_string, format_tuple
from wrapperir.emit.support import natural_alignment
from wrapperir.ir.line_effects import LineEffects
from wrapperir.ir.mentions import buffers_in
from wrapperir_python.lines import PythonLines

if TYPE_CHECKING:
    from wrapperir_python.emitted.memory_check import MemoryPlanError


class CheckedLines(PythonLines):
    """Mixed in before other lines, appends checks of memory to theirs."""

    _known: set[str]

    def emit_begin(self, program: wir.Program) -> None:
        """Append the start of the checks, and the inputs."""
        super().emit_begin(program)
        self._known = set()  # what the checks have been told of
        self.module.import_file("memory_check", Path(__file__).with_name("emitted"))
        self.writer.emit_line("memory = memory_check.Memory()")
        for name in _entered(program):
            self._known.add(name)
            self._emit("entered", format_string(name), self.values[name])
        for index, given in enumerate(program.inputs):
            if given.donated:
                place = format_tuple([format_string("inputs"), format_int(index)])
                self._emit("donated", format_string(given.name), place)

    def emit_end(self, program: wir.Program) -> None:
        """Append the check that nothing else is alive."""
        donated = {given.name for given in program.inputs if given.donated}
        names = ({*_entered(program)} - donated) | {*buffers_in(program.outputs)}
        self._emit("finish", format_tuple([format_string(name) for name in sorted(names)]))
        super().emit_end(program)

    def emit_moved(self, names: Iterable[str]) -> None:
        """Append that the results of a block have become results of its line."""
        super().emit_moved(names)
        moved = [format_string(name) for name in names if name in self._known]
        if moved:
            self._emit("returned", format_tuple(moved))

    def visit_allocate(self, line: wir.AllocateLine) -> None:
        """Check the memory that a buffer has."""
        super().visit_allocate(line)
        if line.workspace is not wir.ZeroMode.ZERO_PER_PROGRAM:
            self._emit_check(
                "allocated",
                line.result,
                self.values[line.result],
                self._format_layout(line.type),
                _spare(line.type),
            )

    def visit_allocate_pool(self, line: wir.AllocatePoolLine) -> None:
        """Check the memory that a pool has."""
        super().visit_allocate_pool(line)
        self._emit_check(
            "allocated_pool",
            line.result,
            self.values[line.result],
            self.expressions.format_index(line.type.size),
            _spare(line.type),
        )

    def visit_place(self, line: wir.PlaceLine) -> None:
        """Check where a buffer is, and that nothing else is there."""
        super().visit_place(line)
        pool = format_string(line.pool)
        offset = self.expressions.format_index(line.offset)
        if isinstance(line.type, wir.PoolType):
            size = self.expressions.format_index(line.type.size)
            self._emit_check("placed_pool", line.result, pool, offset, size)
            return
        tensor = self.values[line.result]
        layout = self._format_layout(line.type)
        self._emit_check("placed", line.result, pool, offset, tensor, layout)

    def visit_free(self, line: wir.FreeLine) -> None:
        """Check that the name is alive, and that its memory goes with it."""
        super().visit_free(line)
        if line.buffer in self._known:
            self._emit_check("freed", line.buffer)

    def visit_reuse(self, line: wir.ReuseLine) -> None:
        """Check that the reused memory is large enough."""
        super().visit_reuse(line)
        self._emit_viewed(line)
        if line.source in self._known:
            self._emit_check("freed", line.source)

    def visit_reinterpret(self, line: wir.ReinterpretLine) -> None:
        """Check that a view lies in its memory."""
        super().visit_reinterpret(line)
        self._emit_viewed(line)

    def visit_extern_kernel(self, line: wir.ExternKernelLine) -> None:
        """Check that written tensors stay in place, and that results have own memory."""
        super().visit_extern_kernel(line)
        for name in line.writes:
            if name in self._known:
                self._emit_check("written", name, self.values[name])
        if line.result is None or isinstance(line.type, wir.ScalarType):
            return
        if line.aliases:
            self._emit_given(line.result)
        else:
            self._emit_check("made", line.result, self.values[line.result])

    def visit_multi_output(self, line: wir.MultiOutputLine) -> None:
        """Record a result."""
        super().visit_multi_output(line)
        if not isinstance(line.type, wir.ScalarType):
            self._emit_given(line.result)

    def visit_conditional(self, line: wir.ConditionalLine) -> None:
        """Record the results."""
        self._emit_lent(line)
        super().visit_conditional(line)
        self._emit_results(line.results)

    def visit_while_loop(self, line: wir.WhileLoopLine) -> None:
        """Record the results."""
        self._emit_lent(line)
        super().visit_while_loop(line)
        self._emit_results(line.results)

    def visit_subgraph_call(self, line: wir.SubgraphCallLine) -> None:
        """Record the results."""
        self._emit_lent(line)
        super().visit_subgraph_call(line)
        self._emit_results(line.results)

    def visit_graph_region(self, line: wir.GraphRegionLine) -> None:
        """Record the results."""
        self._emit_lent(line)
        super().visit_graph_region(line)
        self._emit_results(line.results)

    def reason_against_recording(
        self, line: wir.GraphRegionLine, streams: RegionStreams
    ) -> str | None:
        """Return that memory is checked in each call."""
        return "its memory is checked"

    def _emit_results(self, results: Iterable[wir.Result]) -> None:
        for result in results:
            if not isinstance(result.type, wir.ScalarType):
                self._emit_given(result.name)

    def _emit_lent(self, line: wir.BodyLine) -> None:
        for nested in LineEffects(None).visit(line).blocks:
            for parameter, operand in zip(
                nested.block.parameters, nested.operands, strict=True
            ):
                if isinstance(parameter.type, wir.PoolType) and isinstance(
                    operand, wir.BufferRef
                ):
                    names = format_string(parameter.name), format_string(operand.name)
                    self._emit("lent", *names)

    def _emit_viewed(self, line: wir.ReuseLine | wir.ReinterpretLine) -> None:
        source, tensor = format_string(line.source), self.values[line.result]
        self._emit_check("viewed", line.result, source, tensor)

    def _emit_given(self, name: str) -> None:
        self._known.add(name)
        self._emit("given", format_string(name), self.values[name])

    def _emit_check(self, method: str, name: str, *arguments: Fragment) -> None:
        self._known.add(name)
        place = [
            format_int(part) if isinstance(part, int) else format_string(part)
            for part in self.path
        ]
        self._emit(method, format_string(name), format_tuple(place), *arguments)

    def _emit(self, method: str, *arguments: Fragment) -> None:
        call = Fragment(f"memory.{method}")
        self.writer.emit_line("{}({})", call, joined(", ", arguments))

    def _format_layout(self, type: wir.TensorType) -> Fragment:
        return fragment(
            "({}, {}, {}, {})",
            self.expressions.format_tuple(type.size),
            self.expressions.format_tuple(type.stride),
            self.expressions.format_index(type.offset),
            self.arguments.format_dtype(type.dtype),
        )


def _entered(program: wir.Program) -> list[str]:
    """Return the names of the tensors that a program is given."""
    inputs = [x.name for x in program.inputs if not isinstance(x.type, wir.ScalarType)]
    return inputs + [constant.name for constant in program.constants]


def _spare(type: wir.TensorType | wir.PoolType) -> Fragment:
    """Return the bytes that an allocation may take more for its alignment."""
    wanted = type.alignment or 0
    return format_int(wanted if wanted > natural_alignment(type.device) else 0)


def checked(lines: type[PythonLines]) -> type[PythonLines]:
    """Return lines of that kind with checks of memory."""
    return cast(type[PythonLines], type("Checked", (CheckedLines, lines), {}))


def reporting_faults(call: Loaded, memory_check: ModuleType) -> Loaded:
    """Return ``call``, whose differences from its plan are raised as WIR842."""
    failure = cast("type[MemoryPlanError]", memory_check.MemoryPlanError)

    @functools.wraps(call)
    def reporting(inputs: list[Value]) -> tuple[Value, ...]:
        try:
            return call(inputs)
        except failure as error:
            subject = f"%{error.buffer}"
            message = f"{subject} {error.difference}"
            raise Code.RUN_MEMORY_PLAN.error(
                message, path=error.place, subject=subject
            ) from error

    return reporting
