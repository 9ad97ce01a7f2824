"""What programs do with OpenCL: kernels, launches, streams and events."""

from pathlib import Path
from typing import ClassVar

from wrapperir import ir as wir
from wrapperir.emit import Fragment, fragment
from wrapperir.emit.c.expressions import format_int, format_string
from wrapperir.emit.c.lines import CLines
from wrapperir_opencl.kernels import DEVICE, FAULT, LANGUAGE, number_type


class OpenclLines(CLines):
    """Appends kernels as strings, their launches, and the order of streams."""

    device: ClassVar[str] = DEVICE
    driver: ClassVar[Path] = Path(__file__).with_name("wir_opencl.h")

    def emit_kernel(self, line: wir.KernelDefinitionLine) -> None:
        """Append the source of a kernel; refuse it if it is not in OpenCL C."""
        context = self.context
        if LANGUAGE not in line.metadata:
            said = f"metadata does not say {LANGUAGE[0]} = {LANGUAGE[1]!r}"
            context.report(said, line.name)
        if "\0" in line.source or "\0" in line.entry:
            context.report("the source of a kernel has a null character", line.name)
        for parameter in line.parameters:
            if isinstance(parameter, wir.ConstexprParameter):
                context.report(f"parameter {parameter.name} is a constexpr", line.name)
            elif (
                isinstance(parameter, wir.ScalarParameter)
                and number_type(parameter.dtype) is None
            ):
                said = f"parameter {parameter.name} is a {parameter.dtype.value}"
                context.report(said, line.name)
        name = Fragment(f"WIR_SOURCE_{context.kernels[line.name]}")
        context.head.emit_line("static const char {}[] =", name)
        for text in line.source.splitlines(keepends=True) or [""]:
            context.head.emit_line("    {}", format_string(text))
        context.head.emit_line("    ;")

    def finish(self) -> None:
        """Append the tables of kernels, by their numbers."""
        context = self.context
        for name in ("WIR_ENTRIES", "WIR_SOURCES"):
            context.head.emit_line("static const char *const {}[] = {{", Fragment(name))
            for kernel, number in context.kernels.items():
                definition = context.facts.definitions[kernel]
                assert isinstance(definition, wir.KernelDefinitionLine)  # they are resolved
                source = Fragment(f"WIR_SOURCE_{number}")
                is_entry = name == "WIR_ENTRIES"
                text = format_string(definition.entry) if is_entry else source
                context.head.emit_line("    {},", text)
            context.head.emit_line("    NULL}};")

    def emit_launch(
        self, line: wir.KernelCallLine, kernel: wir.KernelDefinitionLine
    ) -> None:
        """Append the steps that set a kernel's arguments and launch it on its stream."""
        context = self.context
        number, position = format_int(context.kernels[kernel.name]), 0
        numbers: dict[str, wir.Expr] = {}
        parameters = wir.runtime_parameters(kernel.parameters)
        for parameter, argument in zip(parameters, line.arguments, strict=True):
            at = format_int(position)
            if isinstance(argument, wir.BufferRef):
                item = format_int(parameter.dtype.itemsize)
                parts = at, context.values[argument.name], item
                context.emit_step("wir_give_buffer(r, {}, {}, &{}, {})", number, *parts)
                position += 2
                continue
            assert isinstance(parameter, wir.ScalarParameter)  # verified
            numbers[parameter.name] = argument
            value = context.format_kernel_number(argument, parameter)
            given = context.names.claim("given")
            spelled = number_type(parameter.dtype) or fragment("char")  # else refused
            context.writer.emit_line("const {} {} = {};", spelled, given, value)
            parts = at, given, given
            context.emit_step("wir_give(r, {}, {}, sizeof {}, &{})", number, *parts)
            position += 1
        if FAULT in kernel.metadata:
            context.emit_step("wir_give_fault(r, {}, {})", number, format_int(position))
        queue = format_int(context.streams[line.stream])
        grid = [wir.substitute(extent, numbers) for extent in kernel.grid]
        rank, extents = format_int(len(grid)), context.format_array(grid)
        context.emit_step("wir_launch(r, {}, {}, {}, {})", number, queue, rank, extents)

    def visit_record_event(self, line: wir.RecordEventLine) -> None:
        """Enqueue a marker."""
        self.emit_order(fragment("wir_record"), line.result, line.stream)

    def visit_wait_event(self, line: wir.WaitEventLine) -> None:
        """Enqueue a barrier that waits for the marker."""
        self.emit_order(fragment("wir_wait"), line.event, line.stream)
