"""Each line kind in C and C++, over the functions of ``wir_memory.h``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from wrapperir import ir as wir
from wrapperir.diagnostics import LinePath
from wrapperir.emit.assert_messages import (
    layout_subject,
    not_nan_message,
    scalar_message,
)
from wrapperir.emit.c.blocks import CBlocks
from wrapperir.emit.c.context import CContext
from wrapperir.emit.c.expressions import format_int, format_string
from wrapperir.emit.c.symbols import emit_symbol, format_source
from wrapperir.emit.partial_lines import PartialLines
from wrapperir.emit.source_text import Fragment, fragment, joined

COPY = "aten.copy_.default"
"""The operator that copies between tensors of one size and element type."""
_EXPONENTS: Mapping[wir.DType, int] = {
    wir.DType.F64: 0x7FF0000000000000,
    wir.DType.F32: 0x7F800000,
    wir.DType.F16: 0x7C00,
    wir.DType.BF16: 0x7F80,
}
"""The bits that are all ones in infinities and NaN, and only there."""


class CLines(PartialLines):
    """Appends the C of lines to the context's writer.

    An emitter's own lines say how kernels are declared and launched: ``emit_kernel`` and
    ``emit_launch``.  Operators other than copies are an override of
    ``visit_extern_kernel``.  ``driver`` is the header with the functions that
    ``wir_memory.h`` lists; it is after ``context.head`` in the file.
    """

    device: ClassVar[str] = "cpu"
    """The kind of device whose memory the driver allocates."""
    driver: ClassVar[Path]

    def __init__(self, context: CContext) -> None:
        """Append to the function of ``context``."""
        self.context = context
        self.files: dict[str, str | bytes] = {}
        """Further files of the artifact, such as the sources of kernels."""

    def emit_kernel(self, line: wir.KernelDefinitionLine) -> None:
        """Append to ``context.head`` what launches of a kernel need."""
        raise NotImplementedError

    def emit_launch(
        self, line: wir.KernelCallLine, kernel: wir.KernelDefinitionLine
    ) -> None:
        """Append the launch of a kernel."""
        raise NotImplementedError

    def emit_order(self, function: Fragment, event: str, stream: int) -> None:
        """Append the call of a driver's function for an event and a stream."""
        numbers = self.context.events[event], self.context.streams[stream]
        self.context.emit_step("{}(r, {}, {})", function, *map(format_int, numbers))

    def emit_lines(self, lines: Sequence[wir.BodyLine], path: LinePath) -> None:
        """Append the lines at ``path``."""
        for _, line in self.context.walk(lines, path):
            remark = self.context.new_remark(line.provenance)
            if remark:
                self.context.writer.emit_comment(remark)
            self.visit(line)

    def finish(self) -> None:
        """Append to ``context.head`` what all kernels need together; by default nothing."""

    def visit_kernel_definition(self, line: wir.KernelDefinitionLine) -> None:
        """Append what launches of the kernel need, if there are any."""
        if line.name in self.context.kernels:
            self.context.check_source(line)
            self.emit_kernel(line)

    def visit_kernel_call(self, line: wir.KernelCallLine) -> None:
        """Append the launch of the kernel."""
        if line.device.kind != self.device:
            self.context.report(f"kernels run on {self.device} only", str(line.device))
        candidates = [*self.context.facts.runnable(line).kernels.values()]
        if len(candidates) > 1:
            self.context.report("kernels that are chosen in a call", line.kernel)
            return
        self.emit_launch(line, candidates[0].kernel)

    def visit_extern_kernel(self, line: wir.ExternKernelLine) -> None:
        """Append a copy, within the device or between it and the host."""
        context, types = self.context, self.context.facts.types
        buffers = [x.name for x in line.arguments if isinstance(x, wir.BufferRef)]
        tensors = [types[x] for x in buffers]
        if line.operator != COPY or line.result is not None or line.keywords:
            context.report(f"{COPY} is the only operator", line.operator)
            return
        match tensors:
            case [wir.TensorType() as to, wir.TensorType() as source] if (
                to.dtype is source.dtype
                and to.size == source.size
                and len(line.arguments) == 2
            ):
                item, rank = format_int(to.dtype.itemsize), Fragment(str(len(to.size)))
                arrays = map(context.format_array, (to.size, to.stride, source.stride))
                names = [context.values[x] for x in buffers]
                parts = (*names, item, rank, joined(", ", arrays))
                context.emit_step("wir_copy(r, &{}, &{}, {}, {}, {})", *parts)
            case _:
                context.report("copies are of one size and element type", line.operator)

    def visit_allocate(self, line: wir.AllocateLine) -> None:
        """Allocate memory; a workspace that the program keeps is allocated once."""
        context, type = self.context, line.type
        context.check_memory(type)
        name = context.declare(line.result, type)
        place = context.format_place(type)
        parts = (place, context.format_offset(type), context.format_span(type))
        if line.workspace is wir.ZeroMode.ZERO_PER_PROGRAM:
            if not all(isinstance(n, int) for n in (*type.size, *type.stride, type.offset)):
                context.report("a kept workspace has a symbolic size", line.result)
            kept = format_int(context.kept[line.result])
            context.emit_step("wir_keep(r, {}, &{}, {}, {}, {})", kept, name, *parts)
            return
        context.emit_step("wir_allocate(r, &{}, {}, {}, {})", name, *parts)
        self._zero(line)

    def _zero(self, line: wir.AllocateLine | wir.PlaceLine) -> None:
        if line.workspace is wir.ZeroMode.ZERO_ON_CALL:
            assert isinstance(line.type, wir.TensorType)  # verified
            span = self.context.format_span(line.type)
            self.context.emit_step(
                "wir_zero(r, {}, {})", self.context.values[line.result], span
            )

    def visit_allocate_pool(self, line: wir.AllocatePoolLine) -> None:
        """Allocate the pool's bytes."""
        self.context.check_memory(line.type)
        name = self.context.declare(line.result, line.type)
        size = self.context.expressions.format_index(line.type.size)
        place = self.context.format_place(line.type)
        self.context.emit_step("wir_allocate(r, &{}, {}, 0, {})", name, place, size)

    def visit_place(self, line: wir.PlaceLine) -> None:
        """Name bytes of a pool."""
        self.context.check_memory(line.type)
        begin = self.context.expressions.format_index(line.offset)
        self._name(line.result, line.pool, line.type, begin)
        self._zero(line)

    def visit_reinterpret(self, line: wir.ReinterpretLine) -> None:
        """Name a view."""
        self._name(line.result, line.source, line.type, fragment("0"))

    def visit_reuse(self, line: wir.ReuseLine) -> None:
        """Name the memory anew, and drop its old name."""
        self._name(line.result, line.source, line.type, fragment("0"))
        self._drop(line.source)

    def _name(
        self, result: str, source: str, type: wir.TensorType | wir.PoolType, begin: Fragment
    ) -> None:
        context = self.context
        name = context.declare(result, type)
        if isinstance(type, wir.PoolType):
            bytes = fragment("0, {}", context.expressions.format_index(type.size))
        else:
            span = context.format_span(type)
            bytes = fragment("{}, {}", context.format_offset(type), span)
        parts = (name, context.values[source], begin, bytes)
        context.emit_step("wir_name(r, &{}, {}, {}, {})", *parts)

    def _drop(self, name: str) -> None:
        self.context.writer.emit_line("wir_drop(r, &{});", self.context.values[name])

    def visit_free(self, line: wir.FreeLine) -> None:
        """Drop a name; numbers and events have no memory."""
        type = self.context.facts.types[line.buffer]
        if isinstance(type, wir.TensorType | wir.PoolType):
            self._drop(line.buffer)

    def visit_symbol_definition(self, line: wir.SymbolDefinitionLine) -> None:
        """Compute a number, and check its range."""
        emit_symbol(self.context, line, format_source(self.context, line))

    def visit_assert_size_stride(self, line: wir.AssertSizeStrideLine) -> None:
        """Compare the sizes and strides of a tensor's type with others."""
        context = self.context
        wanted = map(context.format_array, (line.size, line.stride))
        layout = context.format_layout(context.facts.tensor_type(line.buffer))
        subject = format_string(layout_subject(line))
        parts = (subject, layout, joined(", ", wanted))
        context.emit_step("wir_check_layout(r, {}, {}, {})", *parts)

    def visit_assert_scalar(self, line: wir.AssertScalarLine) -> None:
        """Check a condition."""
        condition = self.context.expressions.format_number(
            line.condition, wir.SymbolKind.BOOL
        )
        message = format_string(scalar_message(line))
        self.context.emit_step("wir_check(r, {}, {})", condition, message)

    def visit_assert_not_nan(self, line: wir.AssertNotNanLine) -> None:
        """Copy a tensor to the host and look at its elements; whole numbers are finite."""
        context, type = self.context, self.context.facts.tensor_type(line.buffer)
        exponent = _EXPONENTS.get(type.dtype)
        if exponent is None:
            if not type.dtype.is_integer:
                context.report(f"elements of {type.dtype.value} cannot be checked")
            return
        context.emit_step(
            "wir_check_finite(r, &{}, {}, {}, {}, {})",
            *(context.values[line.buffer], format_int(type.dtype.itemsize)),
            *(format_int(exponent), context.format_layout(type)),
            format_string(not_nan_message(line)),
        )

    def visit_conditional(self, line: wir.ConditionalLine) -> None:
        """Append both blocks, after the variables of their results."""
        CBlocks(self.context, self.emit_lines).emit_conditional(line)

    def visit_while_loop(self, line: wir.WhileLoopLine) -> None:
        """Append the loop, after the variables of its results."""
        CBlocks(self.context, self.emit_lines).emit_while_loop(line)

    def visit_subgraph_call(self, line: wir.SubgraphCallLine) -> None:
        """Append the block in place."""
        CBlocks(self.context, self.emit_lines).emit_subgraph(line)

    def visit_comment(self, line: wir.CommentLine) -> None:
        """Append a comment."""
        self.context.writer.emit_comment(line.text)
