"""Launches of kernels in C++."""

from typing import TYPE_CHECKING

from wrapperir.emit.fragment import Fragment, joined
from wrapperir.emit.number_kinds import kind_of
from wrapperir.emit.walking import chosen_kernel
from wrapperir.ir.kernel import (
    Language,
    RuntimeParameter,
    ScalarParameter,
    runtime_parameters,
)
from wrapperir.ir.line import BufferRef, KernelArgument, KernelCallLine
from wrapperir_cpp.triton_kernels import emit_triton_launch

if TYPE_CHECKING:
    from wrapperir_cpp.lines import CppLines


def emit_kernel_call(lines: "CppLines", line: KernelCallLine) -> None:
    """Append ``cpp_fused_0(c.p[x], c.arena + 256, 64);``."""
    definition, positions = chosen_kernel(lines.survey.definitions, line.kernel)
    arguments = line.arguments
    if positions is not None:
        arguments = tuple(arguments[position] for position in positions)
    if definition.language is Language.TRITON:
        emit_triton_launch(lines, line, definition, arguments)
        return
    if definition.language is not Language.CPP:
        return  # its definition was reported
    if line.device.kind != "cpu":
        lines.report(f"a C++ kernel does not run on {line.device}", str(line.device))
    given = [
        _format_argument(lines, argument, parameter)
        for argument, parameter in zip(
            arguments, runtime_parameters(definition.parameters), strict=True
        )
    ]
    function = lines.module.kernels[definition.name]
    lines.writer.emit_line("{}({});", function, joined(", ", given))


def _format_argument(
    lines: "CppLines", argument: KernelArgument, parameter: RuntimeParameter
) -> Fragment:
    if isinstance(argument, BufferRef):
        if isinstance(parameter, ScalarParameter):
            return lines.scalar(argument.name)
        return lines.address(argument.name)
    dtype = parameter.dtype if isinstance(parameter, ScalarParameter) else None
    return lines.expressions.format_number(argument, kind_of(dtype))
