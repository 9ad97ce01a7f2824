"""Each line kind in Python: one method a kind, for third parties to override."""

# mypy checks that these functions are methods; pyright wants the base class as ``self``.
# pyright: reportAssignmentType=false

from collections.abc import Sequence

from wrapperir import ir as wir
from wrapperir.diagnostics import LinePath
from wrapperir.emit import Fragment, SourceWriter, fragment, joined
from wrapperir.emit.context import provenances_to_show
from wrapperir.emit.graph_regions import RegionStreams, region_streams
from wrapperir.emit.partial_lines import OperatorCollectives
from wrapperir.emit.python.compiled_launches import (
    emit_compilation,
    emit_compiled_kernel,
    format_launch_arguments,
    is_compiled,
    reason_against,
)
from wrapperir.emit.python.cpp_kernels import emit_cpp_end, emit_cpp_kernel
from wrapperir.emit.python.expressions import format_int
from wrapperir.emit.python.kernels import emit_triton_kernel
from wrapperir.ir.line_effects import uses
from wrapperir.ir.mentions import buffers_in
from wrapperir_python import checks
from wrapperir_python.blocks import PythonBlocks
from wrapperir_python.choices import describe_choice, find_callee
from wrapperir_python.context import PythonContext
from wrapperir_python.operators import format_operator_call
from wrapperir_python.pools import drop_name, emit_place, emit_pool, emit_pool_view
from wrapperir_python.regions import emit_region, reason_against_recording
from wrapperir_python.streams import emit_actions, emit_zero, on_stream


class PythonLines(PythonContext, OperatorCollectives):
    """Appends each line's Python to ``writer``; definitions go to ``module``.

    Subclasses override ``visit_*`` methods, or the methods of
    :class:`~wrapperir_python.context.PythonContext` for what several lines share.  A line
    that cannot be expressed is given to :meth:`report`.
    """

    def emit_definitions(self, definitions: Sequence[wir.DefinitionLine]) -> None:
        """Append the kernels."""
        self._visit_lines(definitions, ("definitions",), self.module.definitions)
        emit_compilation(self.module)
        emit_cpp_end(self.module)

    def emit_begin(self, program: wir.Program) -> None:
        """Append the code before all lines."""

    def emit_end(self, program: wir.Program) -> None:
        """Append the code after all lines."""
        emit_actions(self, self.streams.use_on_main(buffers_in(program.outputs)))

    def emit_lines(
        self, lines: Sequence[wir.BodyLine], path: LinePath = ("lines",)
    ) -> None:
        """Append lines; ``path`` is the place of their tuple."""
        self._visit_lines(lines, path, self.writer)

    def _visit_lines(
        self, lines: Sequence[wir.AnyLine], path: LinePath, remarks: SourceWriter
    ) -> None:
        origins = provenances_to_show(lines)
        for index, line in self.walk(lines, path):
            remark = self.new_remark(origins[index])
            if remark:
                remarks.emit_comment(remark)
            self.visit(line)

    def visit_kernel_definition(self, line: wir.KernelDefinitionLine) -> None:
        """Append the kernel, if it is called."""
        if line.name not in self.facts.kernel_devices:
            self.module.definitions.emit_comment(f"{line.name} is never called.")
        elif line.language is wir.Language.CPP:
            emit_cpp_kernel(self.module, line)
        elif line.language is wir.Language.TRITON:
            self.check_source(line)
            self._emit_triton_kernel(line)

    def _emit_triton_kernel(self, line: wir.KernelDefinitionLine) -> None:
        if self.facts.kernel_devices[line.name] != frozenset({"cuda"}):
            emit_triton_kernel(self.module, line)
            return
        facts = self.argument_facts[line.name]
        reason = reason_against(line, facts)
        if reason is None:
            is_choice = line.name not in self.facts.certain_kernels
            emit_compiled_kernel(self.module, line, facts, is_choice=is_choice)
        else:
            remark = f"Triton launches {line.name}: {reason}."
            self.module.definitions.emit_comment(remark)
            emit_triton_kernel(self.module, line)

    def visit_multi_kernel(self, line: wir.MultiKernelLine) -> None:
        """Append a remark; calls append the objects that pick at run time."""
        self.module.definitions.emit_comment(describe_choice(line))

    def visit_allocate(self, line: wir.AllocateLine) -> None:
        """Append ``buf0 = empty_strided_cpu((8, 8), (8, 1), float32)``."""
        result = self.values[line.result]
        if line.workspace is wir.ZeroMode.ZERO_PER_PROGRAM:
            self._emit_program_workspace(result, line.type)
            return
        self.owned.add(line.result)
        allocation = self.format_allocation(line.type)
        with on_stream(self, self.streams.allocate(line)):
            self.writer.emit_line("{} = {}", result, allocation)
        if line.workspace is wir.ZeroMode.ZERO_ON_CALL:
            emit_zero(self, line.result)

    def _emit_program_workspace(self, name: Fragment, type: wir.TensorType) -> None:
        """Append a workspace that is kept: a global, or one kept for each layout."""
        definitions = self.module.definitions
        layout = (*type.size, *type.stride, type.offset)
        static = all(isinstance(entry, int) for entry in layout)
        allocation = self.format_allocation(type, in_call=not static)
        if static:
            definitions.emit_line("{} = {}.zero_()", name, allocation)
            return
        kept = self.module.names.claim("kept_workspaces")
        definitions.emit_line("{} = {{}}", kept)
        key = self.expressions.format_tuple(layout)
        self.writer.emit_line("{} = {}.get({})", name, kept, key)
        self.writer.emit_line("if {} is None:", name)
        with self.writer.indented():
            self.writer.emit_line("{} = {}[{}] = {}.zero_()", name, kept, key, allocation)

    def visit_allocate_pool(self, line: wir.AllocatePoolLine) -> None:
        """Append ``pool0 = empty_strided_cpu((512,), (1,), float32)``."""
        with on_stream(self, self.streams.allocate(line)):
            emit_pool(self, line)
        emit_actions(self, self.streams.after_allocation(line))

    def visit_place(self, line: wir.PlaceLine) -> None:
        """Append a view of the pool, unless there is one of that place and type."""
        self.streams.alias(line.result, line.pool)
        emit_place(self, line)
        if line.workspace is wir.ZeroMode.ZERO_ON_CALL:
            emit_zero(self, line.result)

    def visit_free(self, line: wir.FreeLine) -> None:
        """Append ``del buf0``; a buffer in a pool is dropped with the pool."""
        if line.buffer in self.pools:
            drop_name(self, line.buffer)
        elif line.buffer not in self.unrecorded:
            self.writer.emit_line("del {}", self.values[line.buffer])

    def visit_reuse(self, line: wir.ReuseLine) -> None:
        """Append ``buf1 = reinterpret_tensor(buf0, …); del buf0`` if the layout differs."""
        self.streams.alias(line.result, line.source)
        if line.source in self.pools:
            emit_pool_view(self, line.result, line.source, line.type)
            drop_name(self, line.source)
            return
        source = self.values[line.source]
        view = self._format_view(line.source, line.type)
        self.owned.add(line.result)
        if view == source:
            self.values[line.result] = source
            self.writer.emit_comment(f"{line.result} is {source}")
            return
        result = self.values[line.result]
        self.writer.emit_line("{} = {}; del {}  # reuse", result, view, source)

    def visit_reinterpret(self, line: wir.ReinterpretLine) -> None:
        """Append ``view0 = reinterpret_tensor(buf0, (64,), (1,), 0)``."""
        self.streams.alias(line.result, line.source)
        if line.source in self.pools:
            emit_pool_view(self, line.result, line.source, line.type)
            return
        view = self._format_view(line.source, line.type)
        if line.source in self.owned:
            self.owned.add(line.result)
        self.writer.emit_line("{} = {}", self.values[line.result], view)

    def visit_kernel_call(self, line: wir.KernelCallLine) -> None:
        """Append ``cpp_fused_0(buf0, buf1, 64)``, ``mm_by_shape[s0, 64](buf0, s0)``."""
        self.check_call(line)
        callee = find_callee(self, line)
        arguments = line.arguments
        if callee.positions is not None:
            arguments = tuple(arguments[position] for position in callee.positions)
        kernel = callee.definition
        if is_compiled(self.module, kernel.name):
            assert isinstance(kernel, wir.KernelDefinitionLine)
            formatted = self.format_each_argument(arguments, callee.scalars)
            own = self.expressions, self.facts.kinds
            text = format_launch_arguments(kernel, arguments, formatted, *own)
        else:
            text = self.format_kernel_arguments(arguments, callee.scalars)
        with on_stream(self, self._stream_of(line)):
            self.emit_launch(callee, text, line.device)
        emit_actions(self, self.streams.after_launch(line))

    def visit_extern_kernel(self, line: wir.ExternKernelLine) -> None:
        """Append ``mm_out(arg0, arg1, buf0)``, ``buf1 = aten_relu_default(buf0)``."""
        call = format_operator_call(self, line)
        if line.result is not None:
            call = fragment("{} = {}", self.values[line.result], call)
        with on_stream(self, self._stream_of(line)):
            self.writer.emit_line("{}", call)
        emit_actions(self, self.streams.after_launch(line))

    def _stream_of(
        self, line: wir.KernelCallLine | wir.ExternKernelLine
    ) -> wir.Stream | None:
        if line.device.kind not in ("cpu", "cuda") and line.stream:
            self.report(f"{line.device} has no stream {line.stream}", "stream")
        return wir.Stream(line.device, line.stream) if line.device.kind == "cuda" else None

    def visit_record_event(self, line: wir.RecordEventLine) -> None:
        """Append ``event = cuda_0_stream_1.record_event()``; nothing on the CPU."""
        actions = self.streams.record(line)
        if not actions:
            self.unrecorded.add(line.result)
        emit_actions(self, actions)

    def visit_wait_event(self, line: wir.WaitEventLine) -> None:
        """Append ``cuda_0_stream_2.wait_event(event)``; nothing on the CPU."""
        emit_actions(self, self.streams.wait(line))

    def visit_multi_output(self, line: wir.MultiOutputLine) -> None:
        """Append ``buf1 = buf0[1]``."""
        self.streams.alias(line.result, line.source)
        indices = [fragment("[{}]", format_int(index)) for index in line.indices]
        result, source = self.values[line.result], self.values[line.source]
        self.writer.emit_line("{} = {}{}", result, source, joined("", indices))

    visit_symbol_definition = checks.emit_symbol_definition
    visit_assert_size_stride = checks.emit_assert_size_stride
    visit_assert_alignment = checks.emit_assert_alignment
    visit_assert_scalar = checks.emit_assert_scalar
    visit_assert_not_nan = checks.emit_assert_not_nan

    def visit_conditional(self, line: wir.ConditionalLine) -> None:
        """Append ``if`` and ``else``."""
        if isinstance(line.predicate, wir.BufferRef):
            emit_actions(self, self.streams.join())
        emit_actions(self, self.streams.use_on_main(uses(line)))
        PythonBlocks(self).emit_conditional(line)

    def visit_while_loop(self, line: wir.WhileLoopLine) -> None:
        """Append a ``while`` loop."""
        emit_actions(self, self.streams.join())
        emit_actions(self, self.streams.use_on_main(uses(line)))
        PythonBlocks(self).emit_while_loop(line)

    def visit_subgraph_call(self, line: wir.SubgraphCallLine) -> None:
        """Append the lines of the block in place."""
        emit_actions(self, self.streams.use_on_main(uses(line)))
        self.writer.emit_comment(f"subgraph {line.name}")
        PythonBlocks(self).emit_subgraph(line)

    def visit_graph_region(self, line: wir.GraphRegionLine) -> None:
        """Append ``buf1, = layer0(arg0, buf0)``, or the lines of the block in place."""
        emit_actions(self, self.streams.enter_region(line))
        streams = region_streams(self.facts, line)
        reason = self.reason_against_recording(line, streams)
        if reason is None:
            emit_region(self, line, streams.side)
        else:
            self.writer.emit_comment(f"graph region {line.name} is not recorded: {reason}")
            PythonBlocks(self).emit_subgraph(line)
        self.streams.leave_region(line)

    def reason_against_recording(
        self, line: wir.GraphRegionLine, streams: RegionStreams
    ) -> str | None:
        """Return why a region is not recorded, ``None`` if it is."""
        return reason_against_recording(self, line, streams)

    def visit_comment(self, line: wir.CommentLine) -> None:
        """Append the comment, escaped."""
        self.writer.emit_comment(line.text)

    def _format_view(self, source: str, type: wir.TensorType) -> Fragment:
        old = self.facts.tensor_type(source)
        return self.arguments.format_view(self.values[source], old, type)
