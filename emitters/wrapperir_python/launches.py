"""Launches of kernels in Python: what a kernel's name stands for, on which device."""

from typing import TYPE_CHECKING

from attrs import frozen

from wrapperir.emit.fragment import Fragment, fragment
from wrapperir.emit.runnable_kernels import (
    Runnable,
    runnable_kernels,
    taken_arguments,
)
from wrapperir.ir.expr import Expr
from wrapperir.ir.kernel import Language, ScalarParameter, runtime_parameters
from wrapperir.ir.line import (
    BufferRef,
    DefinitionLine,
    KernelCallLine,
    MultiKernelLine,
)
from wrapperir.ir.types import Device, DType
from wrapperir_python.choices import format_choice
from wrapperir_python.literals import format_int

if TYPE_CHECKING:
    from wrapperir_python.lines import PythonLines


@frozen
class Callee:
    """What a kernel call's name stands for.

    ``definition`` is the kernel, or the multi-kernel where the program picks while it runs.
    ``positions`` are those of the call's arguments that it takes, ``None`` for all, and
    ``scalars`` the dtypes that the numbers among these are given as.
    """

    function: Fragment
    definition: DefinitionLine
    positions: tuple[int, ...] | None
    scalars: tuple[DType | None, ...]


def find_callee(lines: "PythonLines", line: KernelCallLine) -> Callee:
    """Return what a call launches."""
    survey = lines.survey
    runnable = runnable_kernels(survey.definitions, line, survey.types)
    for candidate in runnable.kernels.values():
        language = candidate.kernel.language
        if language is Language.CPP and line.device.kind != "cpu":
            lines.report(f"a C++ kernel does not run on {line.device}", str(line.device))
    definition = survey.definitions[line.kernel]
    if isinstance(definition, MultiKernelLine) and len(runnable.kernels) > 1:
        function = format_choice(lines, definition, runnable)
        scalars = _scalars_of_choices(lines, line, definition, runnable)
        return Callee(function, definition, None, scalars)
    (chosen,) = runnable.kernels.values()
    function = lines.module.kernels[chosen.kernel.name]
    return Callee(function, chosen.kernel, chosen.positions, _scalars(chosen.kernel))


def _scalars(definition: DefinitionLine) -> tuple[DType | None, ...]:
    return tuple(
        parameter.dtype if isinstance(parameter, ScalarParameter) else None
        for parameter in runtime_parameters(definition.parameters)
    )


def _scalars_of_choices(
    lines: "PythonLines",
    line: KernelCallLine,
    definition: MultiKernelLine,
    runnable: Runnable,
) -> tuple[DType | None, ...]:
    """Return the dtypes of a multi-kernel's numbers, where a choice may take these.

    Others stay the numbers that they are: one that is not whole is no fault there.
    """
    taken = taken_arguments(runnable, len(line.arguments))
    return tuple(
        dtype
        if dtype is None or position in taken or isinstance(argument, BufferRef)
        else _own_dtype(lines, argument)
        for position, (dtype, argument) in enumerate(
            zip(_scalars(definition), line.arguments, strict=True)
        )
    )


def _own_dtype(lines: "PythonLines", number: Expr) -> DType:
    kinds = lines.survey.kinds
    if kinds.may_be_float(number):
        return DType.F64
    return DType.BOOL if kinds.is_bool(number) else DType.I64


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
