"""Each line kind in C."""

from collections.abc import Sequence

from wrapperir import ir as wir
from wrapperir.diagnostics import LinePath
from wrapperir.emit import Fragment, fragment, joined
from wrapperir.emit.assert_messages import (
    format_range,
    layout_subject,
    not_nan_message,
    scalar_message,
)
from wrapperir.emit.c.expressions import C_KINDS, format_float, format_int, format_string
from wrapperir.emit.partial_lines import PartialLines
from wrapperir_opencl.blocks import OpenclBlocks
from wrapperir_opencl.context import OpenclContext
from wrapperir_opencl.element_types import EXPONENTS, converted, item_type
from wrapperir_opencl.launches import emit_copy, emit_launch


class OpenclLines(PartialLines):
    """Appends the C of lines to the context's writer."""

    def __init__(self, context: OpenclContext) -> None:
        """Append to the function of ``context``."""
        self._context = context

    def emit_lines(self, lines: Sequence[wir.BodyLine], path: LinePath) -> None:
        """Append the lines at ``path``."""
        for _, line in self._context.walk(lines, path):
            remark = self._context.new_remark(line.provenance)
            if remark:
                self._context.writer.emit_comment(remark)
            self.visit(line)

    def visit_kernel_definition(self, line: wir.KernelDefinitionLine) -> None:
        """Nothing: definitions are beside the function."""

    def visit_allocate(self, line: wir.AllocateLine) -> None:
        """Allocate a buffer; a workspace that the program keeps is allocated once."""
        context, type = self._context, line.type
        context.check_memory(type)
        if line.workspace is wir.ZeroMode.ZERO_PER_PROGRAM:
            self._keep_workspace(line)
            return
        name = context.declare(line.result, type)
        parts = context.format_offset(type), context.format_span(type)
        place = context.format_place(type)
        context.emit_step("wir_allocate(r, &{}, {}, {}, {})", name, place, *parts)
        self._zero(line)

    def _keep_workspace(self, line: wir.AllocateLine) -> None:
        context, type = self._context, line.type
        if not all(isinstance(n, int) for n in (*type.size, *type.stride, type.offset)):
            context.report("a workspace of the program has a symbolic size", line.result)
        name = context.declare(line.result, type)
        kept = fragment("r->state->kept[{}]", Fragment(str(context.kept[line.result])))
        parts = context.format_offset(type), context.format_span(type)
        place = context.format_place(type)
        context.emit_step("wir_keep(r, &{}, &{}, {}, {}, {})", kept, name, place, *parts)

    def _zero(self, line: wir.AllocateLine | wir.PlaceLine) -> None:
        if line.workspace is wir.ZeroMode.ZERO_ON_CALL:
            assert isinstance(line.type, wir.TensorType)  # verified
            span = self._context.format_span(line.type)
            name = self._context.values[line.result]
            self._context.emit_step("wir_zero(r, {}, {})", name, span)

    def visit_allocate_pool(self, line: wir.AllocatePoolLine) -> None:
        """Allocate a buffer of the pool's bytes."""
        self._context.check_memory(line.type)
        name = self._context.declare(line.result, line.type)
        size = self._context.expressions.format_index(line.type.size)
        place = self._context.format_place(line.type)
        self._context.emit_step("wir_allocate(r, &{}, {}, 0, {})", name, place, size)

    def visit_place(self, line: wir.PlaceLine) -> None:
        """Name bytes of a pool."""
        self._context.check_memory(line.type)
        begin = self._context.expressions.format_index(line.offset)
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
        context = self._context
        name = context.declare(result, type)
        if isinstance(type, wir.PoolType):
            bytes = fragment("0, {}", context.expressions.format_index(type.size))
        else:
            span = context.format_span(type)
            bytes = fragment("{}, {}", context.format_offset(type), span)
        parts = (name, context.values[source], begin, bytes)
        context.emit_step("wir_name(r, &{}, {}, {}, {})", *parts)

    def _drop(self, name: str) -> None:
        self._context.writer.emit_line("wir_drop(r, &{});", self._context.values[name])

    def visit_free(self, line: wir.FreeLine) -> None:
        """Drop a name; numbers and events have no memory."""
        type = self._context.facts.types[line.buffer]
        if isinstance(type, wir.TensorType | wir.PoolType):
            self._drop(line.buffer)

    def visit_kernel_call(self, line: wir.KernelCallLine) -> None:
        """Set a kernel's arguments and launch it."""
        emit_launch(self._context, line)

    def visit_extern_kernel(self, line: wir.ExternKernelLine) -> None:
        """Copy a tensor, which is the only operator."""
        emit_copy(self._context, line)

    def visit_record_event(self, line: wir.RecordEventLine) -> None:
        """Enqueue a marker."""
        self._order("wir_record", line.result, line.stream)

    def visit_wait_event(self, line: wir.WaitEventLine) -> None:
        """Enqueue a barrier that waits for the marker."""
        self._order("wir_wait", line.event, line.stream)

    def _order(self, function: str, event: str, stream: int) -> None:
        numbers = self._context.events[event], self._context.queues[stream]
        parts = [Fragment(str(number)) for number in numbers]
        self._context.emit_step("{}(r, {}, {})", Fragment(function), *parts)

    def visit_symbol_definition(self, line: wir.SymbolDefinitionLine) -> None:
        """Compute a number, and check its range."""
        self.emit_symbol(line, self.format_source(line))

    def emit_symbol(self, line: wir.SymbolDefinitionLine, value: Fragment) -> None:
        """Append the variable of a symbol, and the check of its range."""
        name = self._context.symbols[line.symbol]
        kind = fragment(C_KINDS[line.kind])
        self._context.writer.emit_line("{} {} = {};", kind, name, value)
        self._emit_range(line)

    def format_source(self, line: wir.SymbolDefinitionLine) -> Fragment:
        """Return the value of a symbol, by the types of tensors."""
        context = self._context
        format_number = context.expressions.format_number
        match line.source:
            case wir.SizeOf(name, dim):
                return format_number(context.facts.tensor_type(name).size[dim], line.kind)
            case wir.StrideOf(name, dim):
                return format_number(context.facts.tensor_type(name).stride[dim], line.kind)
            case wir.OffsetOf(name):
                return format_number(context.facts.tensor_type(name).offset, line.kind)
            case wir.ValueOf(name):
                type = context.facts.types[name]
                assert isinstance(type, wir.ScalarType)  # verified
                return converted(context.values[name], type.dtype, line.kind)
            case wir.ItemOf(name):
                return self._item(name, line.kind)
            case int() | float() | wir.Symbol() | wir.Operation() as expr:
                return format_number(expr, line.kind)

    def _item(self, name: str, kind: wir.SymbolKind) -> Fragment:
        context, type = self._context, self._context.facts.tensor_type(name)
        spelled = item_type(type.dtype)
        if spelled is None:
            context.report(f"the host cannot read an element of {type.dtype.value}", name)
            return fragment("0")
        item = context.names.claim(f"{name}_item")
        context.writer.emit_line("{} {} = 0;", spelled, item)
        parts = (context.values[name], item, item)
        context.emit_step("wir_item(r, &{}, sizeof {}, &{})", *parts)
        return converted(item, type.dtype, kind)

    def _emit_range(self, line: wir.SymbolDefinitionLine) -> None:
        """Append the check of a symbol's range; without one, that it has a value."""
        context, (low, high) = self._context, (line.lower, line.upper)
        symbol = context.symbols[line.symbol]
        if low is None and high is None:
            context.emit_step('wir_check(r, 1, "")')
            return
        said = f"Expected {format_range(line.symbol, low, high)} but received "
        if line.kind is wir.SymbolKind.FLOAT:
            limits = (low is None and "-inf") or low, (high is None and "inf") or high
            ends = [format_float(float(end or 0)) for end in limits]
            function = fragment("wir_check_real")
        else:
            least = -(2**63) if low is None else max(low, -(2**63))
            most = 2**63 - 1 if high is None else min(high, 2**63 - 1)
            ends = [format_int(least), format_int(most)]
            function = fragment("wir_check_whole")
        parts = (function, format_string(said), symbol, joined(", ", ends))
        context.emit_step("{}(r, {}, {}, {})", *parts)

    def visit_assert_size_stride(self, line: wir.AssertSizeStrideLine) -> None:
        """Compare the sizes and strides of a tensor's type with others."""
        context = self._context
        wanted = map(context.expressions.format_array, (line.size, line.stride))
        layout = context.format_layout(context.facts.tensor_type(line.buffer))
        subject = format_string(layout_subject(line))
        parts = (subject, layout, joined(", ", wanted))
        context.emit_step("wir_check_layout(r, {}, {}, {})", *parts)

    def visit_assert_scalar(self, line: wir.AssertScalarLine) -> None:
        """Check a condition."""
        condition = self._context.expressions.format_number(
            line.condition, wir.SymbolKind.BOOL
        )
        message = format_string(scalar_message(line))
        self._context.emit_step("wir_check(r, {}, {})", condition, message)

    def visit_assert_not_nan(self, line: wir.AssertNotNanLine) -> None:
        """Copy a tensor to the host and look at its elements; whole numbers are finite."""
        context, type = self._context, self._context.facts.tensor_type(line.buffer)
        exponent = EXPONENTS.get(type.dtype)
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
        OpenclBlocks(self._context, self.emit_lines).emit_conditional(line)

    def visit_while_loop(self, line: wir.WhileLoopLine) -> None:
        """Append the loop, after the variables of its results."""
        OpenclBlocks(self._context, self.emit_lines).emit_while_loop(line)

    def visit_subgraph_call(self, line: wir.SubgraphCallLine) -> None:
        """Append the block in place."""
        OpenclBlocks(self._context, self.emit_lines).emit_subgraph(line)

    def visit_comment(self, line: wir.CommentLine) -> None:
        """Append a comment."""
        self._context.writer.emit_comment(line.text)
