"""One method for each line kind, which appends its C++."""

from collections.abc import Sequence
from typing import ClassVar, LiteralString

from wrapperir import ir as wir
from wrapperir.diagnostics import LinePath
from wrapperir.emit import SourceWriter, fragment
from wrapperir.emit.assert_messages import (
    alignment_message,
    layout_subject,
    not_nan_message,
    scalar_message,
)
from wrapperir.emit.context import provenances_to_show
from wrapperir.emit.partial_lines import OperatorCollectives
from wrapperir.text import format_type
from wrapperir_cpp.blocks import CppBlocks
from wrapperir_cpp.bounds import emit_place_check, emit_view_check
from wrapperir_cpp.context import Context
from wrapperir_cpp.debugged_values import showing_values
from wrapperir_cpp.entry import emit_symbol_definition
from wrapperir_cpp.kernels import CPP_KERNELS, KernelLanguages
from wrapperir_cpp.launches import declare_kernel, emit_kernel_call
from wrapperir_cpp.literals import format_dtype, format_int, format_string
from wrapperir_cpp.memory import (
    allocate,
    emit_zero,
    is_aligned,
    make_changed,
    tensor_address,
    tensor_handle,
)
from wrapperir_cpp.operators import emit_operator
from wrapperir_cpp.regions import emit_region
from wrapperir_cpp.streams import (
    emit_block_begin,
    emit_block_end,
    emit_join,
    emit_record,
    emit_wait,
    on_stream,
)
from wrapperir_cpp.triton_kernels import TRITON_KERNELS


class CppLines(OperatorCollectives):
    """Appends each line's C++ to ``context.writer``.

    Lines that C++ cannot express are given to ``context.report``.  An emitter for another
    device overrides the methods of lines that differ there, and adds to ``languages``.
    """

    languages: ClassVar[KernelLanguages] = {
        ("cpu", wir.Language.CPP): CPP_KERNELS,
        ("cuda", wir.Language.TRITON): TRITON_KERNELS,
    }

    def __init__(self, context: Context) -> None:
        """Append to a program that begins."""
        self.context = context

    def emit_definitions(self, definitions: Sequence[wir.DefinitionLine]) -> None:
        """Append the kernels."""
        for _, line in self.context.walk(definitions, ("definitions",)):
            self.visit(line)

    def emit_symbols(self, symbols: Sequence[wir.SymbolDefinitionLine]) -> None:
        """Append the symbols that are known on entry."""
        for _, line in self.context.walk(symbols, ("symbols",)):
            with showing_values(self.context, line):
                self.visit(line)

    def emit_lines(
        self, lines: Sequence[wir.BodyLine], path: LinePath = ("lines",)
    ) -> None:
        """Append lines, in functions of their own where they are many."""
        context = self.context
        writer = context.writer
        shown = provenances_to_show(lines)

        def emit_part(writer: SourceWriter, part: range) -> None:
            context.writer = writer
            for index, line in context.walk(lines, path, part):
                remark = context.new_remark(shown[index])
                if remark:
                    context.writer.emit_comment(remark)
                if path == ("lines",):
                    emit_block_begin(context, index)
                with showing_values(context, line):
                    self.visit(line)
                if path == ("lines",):
                    emit_block_end(context, index)

        context.module.emit_chunks(writer, lines, emit_part)
        context.writer = writer

    def visit_kernel_definition(self, line: wir.KernelDefinitionLine) -> None:
        """Declare the kernel, if it is called."""
        declare_kernel(self.context, line, self.languages)

    def visit_multi_kernel(self, line: wir.MultiKernelLine) -> None:
        """Append a remark, if all calls run the same choice: they go straight to it."""
        settled = wir.settled_choice(line.selection)
        if settled is not None:
            choice = line.choices[settled].kernel
            self.context.module.statics.emit_comment(f"{line.name} is {choice}.")

    def visit_allocate(self, line: wir.AllocateLine) -> None:
        """Append ``empty(c.t[buf0], DType::f32, ints_8_8, ints_8_1, 3);`` or a remark."""
        allocate(self.context, line.result, line.type)
        make_changed(self.context, line.result)
        planned = line.result in self.context.arena.offsets
        per_program = line.workspace is wir.ZeroMode.ZERO_PER_PROGRAM
        if line.workspace is wir.ZeroMode.ZERO_ON_CALL or (per_program and not planned):
            emit_zero(self.context, line.result, line.type)

    def visit_allocate_pool(self, line: wir.AllocatePoolLine) -> None:
        """Append ``empty(c.t[pool0], DType::u8, ints_512, ints_1, 3);`` or a remark."""
        allocate(self.context, line.result, line.type)

    def visit_place(self, line: wir.PlaceLine) -> None:
        """Append a remark."""
        emit_place_check(self.context, line)
        own = line.result in self.context.layouts.apart
        self.context.values.place(line.result, line.pool, line.offset, line.type, own=own)
        self._remark(line.result, "lies in", line.pool, line.type)
        if isinstance(line.type, wir.TensorType):
            make_changed(self.context, line.result)
            if line.workspace is wir.ZeroMode.ZERO_ON_CALL:
                emit_zero(self.context, line.result, line.type)

    def visit_free(self, line: wir.FreeLine) -> None:
        """Append ``c.t[buf0].reset();`` if this was the last name of a slot's memory."""
        self.context.values.drop(line.buffer)

    def visit_reuse(self, line: wir.ReuseLine) -> None:
        """Append a remark."""
        self._name_view(line.result, line.source, line.type, "takes")
        self.context.values.drop(line.source)

    def visit_reinterpret(self, line: wir.ReinterpretLine) -> None:
        """Append a remark; a tensor is made where one is needed."""
        self._name_view(line.result, line.source, line.type, "views")

    def _name_view(
        self, result: str, source: str, type: wir.TensorType, how: LiteralString
    ) -> None:
        emit_view_check(self.context, source, type)
        own = result in self.context.layouts.apart
        self.context.values.add_view(result, source, type, own=own)
        if source in self.context.checked and result not in self.context.layouts.changed:
            self.context.checked.add(result)
        self._remark(result, how, source, type)
        make_changed(self.context, result)

    def _remark(
        self, name: str, how: LiteralString, other: str, type: wir.TensorType | wir.PoolType
    ) -> None:
        self.context.writer.emit_comment(f"{name} {how} {other}: {format_type(type)}")

    def visit_kernel_call(self, line: wir.KernelCallLine) -> None:
        """Append ``cpp_fused_0(c.p[arg0], c.arena + 256, 64);``."""
        emit_kernel_call(self.context, line, self.languages)

    def visit_extern_kernel(self, line: wir.ExternKernelLine) -> None:
        """Append the call of an operator."""
        with on_stream(self.context, line.device, line.stream):
            emit_operator(self.context, line)

    def visit_record_event(self, line: wir.RecordEventLine) -> None:
        """Append ``c.cuda_0->record(0, 1, 12);``; nothing on the CPU."""
        emit_record(self.context, line)

    def visit_wait_event(self, line: wir.WaitEventLine) -> None:
        """Append ``c.cuda_0->wait(*c.cuda_0, 0, 2, 14);``; nothing on the CPU."""
        emit_wait(self.context, line)

    def visit_multi_output(self, line: wir.MultiOutputLine) -> None:
        """Append a remark."""
        self.context.values.take_element(line.result, line.source, line.indices)
        place = "".join(f"[{index}]" for index in line.indices)
        self.context.writer.emit_comment(f"{line.result} is {line.source}{place}")

    def visit_symbol_definition(self, line: wir.SymbolDefinitionLine) -> None:
        """Append ``c.s0 = size(...);`` and the check of its range."""
        if isinstance(line.source, wir.ItemOf):
            emit_join(self.context)
        emit_symbol_definition(self.context, line)

    def visit_assert_size_stride(self, line: wir.AssertSizeStrideLine) -> None:
        """Append ``num::assert_size_stride(c.t[x].get(), ints_8_8, ints_8_1, "%x", 3);``.

        A layout that was checked already, or made so, is not checked.
        """
        context = self.context
        type = context.facts.tensor_type(line.buffer)
        is_exact = line.buffer in context.layouts.exact
        if is_exact and (type.size, type.stride) == (line.size, line.stride):
            return
        context.writer.emit_line(
            "num::assert_size_stride({}, {}, {}, {}, {});",
            *(tensor_handle(context, line.buffer), context.format_ints(line.size)),
            *(context.format_ints(line.stride), format_string(layout_subject(line))),
            context.line_number(),
        )
        is_declared = (type.size, type.stride) == (line.size, line.stride)
        may_change = line.buffer in context.layouts.changed
        # A block that may not run has names of its own, but for constants.
        if is_declared and not may_change and line.buffer not in context.facts.constants:
            context.checked.add(line.buffer)

    def visit_assert_alignment(self, line: wir.AssertAlignmentLine) -> None:
        """Append a check of the address, unless it is known."""
        context = self.context
        if not is_aligned(context, line.buffer, line.bytes):
            context.writer.emit_line(
                "num::assert_alignment({}, {}, {}, {});",
                *(tensor_address(context, line.buffer), format_int(line.bytes)),
                *(format_string(alignment_message(line)), context.line_number()),
            )

    def visit_assert_scalar(self, line: wir.AssertScalarLine) -> None:
        """Append a check of a condition, unless it is known to hold."""
        expressions = self.context.expressions
        if not expressions.constant(line.condition):
            self.context.writer.emit_line(
                'if (!({})) fail({}, "%s", {});',
                expressions.format_condition(line.condition),
                *(self.context.line_number(), format_string(scalar_message(line))),
            )

    def visit_assert_not_nan(self, line: wir.AssertNotNanLine) -> None:
        """Append a check of every element; ints have no NaN."""
        context = self.context
        emit_join(context)
        type = context.facts.tensor_type(line.buffer)
        dtype, on_cpu = type.dtype, type.device.kind == "cpu"
        if not (dtype.is_float or dtype.value.startswith("c")):
            return
        message = format_string(not_nan_message(line))
        if dtype is wir.DType.F4E2M1FN_X2 or (dtype.value.startswith("f8") and not on_cpu):
            refused = f"elements of {dtype} on {type.device} cannot be checked"
            context.report(refused, line.buffer)
        elif on_cpu:
            context.writer.emit_line(
                "num::assert_finite({}, {}, {}, {}, {}, {});",
                *(tensor_address(context, line.buffer), format_dtype(dtype)),
                *(context.format_ints(type.size), context.format_ints(type.stride)),
                *(message, context.line_number()),
            )
        else:
            name = "aoti_torch_check_inf_and_nan"
            parameters = fragment("const char*, AtenTensorHandle")
            context.module.declare(fragment(f"AOTITorchError {name}({{}})", parameters))
            handle = tensor_handle(context, line.buffer)
            context.writer.emit_line(
                f"check({name}({{}}, {{}}), {{}});", message, handle, context.line_number()
            )

    def visit_conditional(self, line: wir.ConditionalLine) -> None:
        """Append ``if`` and ``else``."""
        if isinstance(line.predicate, wir.BufferRef):
            emit_join(self.context)
        CppBlocks(self.context, line.results, self.emit_lines).emit_conditional(line)

    def visit_while_loop(self, line: wir.WhileLoopLine) -> None:
        """Append a loop."""
        emit_join(self.context)
        last = line.results[: len(line.carried)]
        CppBlocks(self.context, last, self.emit_lines).emit_while_loop(line)

    def visit_subgraph_call(self, line: wir.SubgraphCallLine) -> None:
        """Append the lines of the block in place."""
        self.context.writer.emit_comment(f"subgraph {line.name}")
        CppBlocks(self.context, line.results, self.emit_lines).emit_subgraph(line)

    def visit_graph_region(self, line: wir.GraphRegionLine) -> None:
        """Append a run of the region; what is not recorded is appended in place."""
        emit_region(self.context, line, self.emit_lines)

    def visit_comment(self, line: wir.CommentLine) -> None:
        """Append the comment, escaped."""
        self.context.writer.emit_comment(line.text)
