"""Launches of kernels in Python: what a kernel's name stands for, on which device."""

from typing import TYPE_CHECKING

from attrs import frozen

from wrapperir.emit.fragment import Fragment, fragment
from wrapperir.emit.walking import chosen_kernel
from wrapperir.ir.kernel import Language, ScalarParameter, runtime_parameters
from wrapperir.ir.line import KernelCallLine, KernelDefinitionLine
from wrapperir.ir.types import Device, DType
from wrapperir_python.literals import format_int

if TYPE_CHECKING:
    from wrapperir_python.lines import PythonLines


@frozen
class Callee:
    """What a kernel call's name stands for."""

    function: Fragment
    definition: KernelDefinitionLine
    positions: tuple[int, ...] | None
    scalars: tuple[DType | None, ...]


def find_callee(lines: "PythonLines", line: KernelCallLine) -> Callee:
    """Return the kernel that a call launches."""
    definition, positions = chosen_kernel(lines.survey.definitions, line.kernel)
    if definition.language is Language.CPP and line.device.kind != "cpu":
        lines.report(f"a C++ kernel does not run on {line.device}", str(line.device))
    return Callee(
        lines.module.kernels[definition.name],
        definition,
        positions,
        tuple(
            parameter.dtype if isinstance(parameter, ScalarParameter) else None
            for parameter in runtime_parameters(definition.parameters)
        ),
    )


def emit_launch(
    lines: "PythonLines", callee: Callee, arguments: Fragment, device: Device
) -> None:
    """Append the launch of a kernel, with its device made current."""
    call = fragment("{}({})", callee.function, arguments)
    if device.kind == "cuda" and device.index not in (None, lines.memory.current_index):
        index = format_int(device.index or 0)
        lines.writer.emit_line("with torch.cuda._DeviceGuard({}):", index)
        with lines.writer.indented():
            lines.writer.emit_line("{}", call)
    else:
        lines.writer.emit_line("{}", call)
