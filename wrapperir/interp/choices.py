"""The choice of a multi-kernel that a call runs; nothing is timed."""

from collections.abc import Sequence
from math import prod

from wrapperir.diagnostics import Code, FaultError
from wrapperir.interp.layout import integer_of
from wrapperir.interp.values import TensorValue
from wrapperir.ir import (
    BenchmarkChoice,
    ComputedChoice,
    EvaluationError,
    KernelChoice,
    KernelSize,
    MultiKernelLine,
    NearestChoice,
    Number,
    choose,
    settled_choice,
)

KernelValue = TensorValue | int | float
"""An argument of a kernel."""


def choices_of(line: MultiKernelLine) -> tuple[KernelChoice, ...]:
    """Return the choices that calls of a multi-kernel may run here, in order."""
    selection = line.selection
    if isinstance(selection, ComputedChoice) and settled_choice(selection) is None:
        return line.choices
    if isinstance(selection, NearestChoice):
        wanted = {hint.choice for hint in selection.hints}
    else:
        wanted = {settled_choice(selection) or 0}
    return tuple(c for index, c in enumerate(line.choices) if index in wanted)


def choice_at(line: MultiKernelLine, arguments: Sequence[KernelValue]) -> KernelChoice:
    """Return the choice of a call with these arguments.

    A choice by benchmark is the first choice.

    Raises:
        FaultError: there is no such choice, an expression has no value, a tensor lacks a
            size, or a workspace is smaller than the choice needs.
    """
    if len(arguments) != len(line.parameters):
        wanted = len(line.parameters)
        raise _misfit(line, f"@{line.name} takes {wanted} arguments, not {len(arguments)}")
    index = _index(line, arguments)
    if not 0 <= index < len(line.choices):
        message = f"@{line.name} has no choice {index}"
        raise _misfit(line, message, Code.RUN_UNDEFINED_KERNEL)
    choice = line.choices[index]
    for need in choice.workspaces:
        count = integer_of(need.count, _values(line, arguments))
        workspace = _tensor(line, arguments, need.parameter)
        if prod(workspace.layout.size) < count:
            raise _misfit(line, f"@{choice.kernel} needs a workspace of {count} elements")
    return choice


def _index(line: MultiKernelLine, arguments: Sequence[KernelValue]) -> int:
    selection = line.selection
    settled = settled_choice(selection)
    if settled is not None:
        return settled
    if isinstance(selection, BenchmarkChoice):
        return 0
    if isinstance(selection, NearestChoice):
        for hint in selection.hints:
            if len(hint.sizes) != len(line.sizes):
                counts = f"{len(hint.sizes)} sizes, not {len(line.sizes)}"
                message = f"a hint of @{line.name} has {counts}"
                raise _misfit(line, message, Code.RUN_UNDEFINED_KERNEL)
    sizes = [_size(line, arguments, size) for size in line.sizes]
    try:
        return choose(selection, sizes, _values(line, arguments))
    except EvaluationError as error:
        message = f"the choice of @{line.name}: {error}"
        raise _misfit(line, message, Code.RUN_EVALUATION) from None


def _values(line: MultiKernelLine, arguments: Sequence[KernelValue]) -> dict[str, Number]:
    """Return the values of scalar parameters and sizes by name."""
    values: dict[str, Number] = {
        parameter.name: argument
        for parameter, argument in zip(line.parameters, arguments, strict=True)
        if not isinstance(argument, TensorValue)
    }
    values.update({size.name: _size(line, arguments, size) for size in line.sizes})
    return values


def _size(line: MultiKernelLine, arguments: Sequence[KernelValue], size: KernelSize) -> int:
    extents = _tensor(line, arguments, size.parameter).layout.size
    if not 0 <= size.dim < len(extents):
        place = f"dimension {size.dim} of {len(extents)}"
        raise _misfit(line, f"{size.name} of @{line.name} is of {place}")
    return extents[size.dim]


def _tensor(
    line: MultiKernelLine, arguments: Sequence[KernelValue], position: int
) -> TensorValue:
    argument = arguments[position] if 0 <= position < len(arguments) else None
    if not isinstance(argument, TensorValue):
        raise _misfit(line, f"argument {position} of @{line.name} is not a tensor")
    return argument


def _misfit(
    line: MultiKernelLine, message: str, code: Code = Code.RUN_KERNEL_ARGUMENTS
) -> FaultError:
    return FaultError(code, message, subject=f"@{line.name}")
