"""Kernel calls: the choice of a multi-kernel, checks of the arguments, the launch."""

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, cast

import torch

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, FaultError
from wrapperir.interp.fault import kernel_fault
from wrapperir.interp.kernel_memory import AccessWatch, CppWrites, check_memory
from wrapperir.interp.layout import integer_of, number_as
from wrapperir.interp.streams import Launch
from wrapperir.interp.values import TensorValue

if TYPE_CHECKING:
    from wrapperir.kernels import CppKernel
    from wrapperir.kernels.triton_kernel import TritonKernel

KernelValue = TensorValue | int | float
"""An argument of a kernel."""


class Kernels:
    """The kernels of a program; each is built when it is first called for."""

    def __init__(self, definitions: Iterable[wir.DefinitionLine]) -> None:
        """Take the definitions; nothing is built yet."""
        self._definitions = {line.name: line for line in definitions}
        self._cpp: dict[str, CppKernel | FaultError] = {}
        self._triton: dict[str, TritonKernel | FaultError] = {}

    def build_cpp(self, called: Iterable[str]) -> None:
        """Build the C++ kernels among the called kernels, several at a time.

        A kernel that does not build is a fault where it is called, not here.
        """
        found = {
            kernel.name: kernel for name in called for kernel in self._candidates(name)
        }
        wanted = [
            kernel
            for kernel in found.values()
            if kernel.language is wir.Language.CPP and kernel.name not in self._cpp
        ]
        if not wanted:
            return
        from wrapperir.kernels import CppBuildError, CppKernel, build_libraries
        from wrapperir.kernels.emitted.kernel_sources import with_vectors

        built = build_libraries([with_vectors(k.source, k.vectors) for k in wanted])
        for kernel, library in zip(wanted, built, strict=True):
            if isinstance(library, CppBuildError):
                message = f"@{kernel.name} does not compile: {library}"
                self._cpp[kernel.name] = FaultError(Code.RUN_KERNEL_BUILD, message)
                continue
            try:
                self._cpp[kernel.name] = CppKernel(kernel, library)
            except FaultError as fault:
                self._cpp[kernel.name] = fault

    def call(self, name: str, arguments: Sequence[KernelValue], launch: Launch) -> None:
        """Launch a kernel or the choice of a multi-kernel.

        Raises:
            FaultError: it is not defined, does not build, its arguments do not fit, or it
                is not ordered after another use of their memory.
        """
        kernel, given = self._chosen(name, arguments)
        given = _checked_arguments(kernel, given, launch.device)
        check_memory(kernel, given, launch)
        match kernel.language:
            case wir.Language.CPP:
                built = self._cpp_kernel(kernel)
                writes = CppWrites(kernel, given)
                built.launch(_tensors(given))
                writes.note()
            case wir.Language.TRITON:
                constants = _constants(kernel)
                loaded = self._triton_kernel(kernel)
                grid = _grid(kernel, given, constants)
                watch = AccessWatch(kernel, given)
                loaded.launch(_tensors(given), constants, grid, watch)
            case wir.Language.OPAQUE:
                message = f"@{kernel.name} is in a language that cannot be run"
                raise FaultError(Code.RUN_OPAQUE_KERNEL, message)

    def _candidates(self, name: str) -> list[wir.KernelDefinitionLine]:
        """Return the defined kernels that a call of ``name`` may launch."""
        line = self._definitions.get(name)
        if isinstance(line, wir.MultiKernelLine):
            named = [self._definitions.get(c.kernel) for c in _choices_of(line)]
        else:
            named = [line]
        return [kernel for kernel in named if isinstance(kernel, wir.KernelDefinitionLine)]

    def _chosen(
        self, name: str, arguments: Sequence[KernelValue]
    ) -> tuple[wir.KernelDefinitionLine, Sequence[KernelValue]]:
        line = self._definitions.get(name)
        if isinstance(line, wir.KernelDefinitionLine):
            return line, arguments
        if line is None:
            raise kernel_fault(Code.RUN_UNDEFINED_KERNEL, name, "is not defined")
        choice = choice_at(line, arguments)
        kernel = self._definitions.get(choice.kernel)
        if not isinstance(kernel, wir.KernelDefinitionLine):
            problem = f"chooses @{choice.kernel}, which is not a kernel"
            raise kernel_fault(Code.RUN_UNDEFINED_KERNEL, name, problem)
        if any(not 0 <= position < len(arguments) for position in choice.arguments):
            problem = f"has no parameter for one of @{kernel.name}"
            raise kernel_fault(Code.RUN_KERNEL_ARGUMENTS, name, problem)
        return kernel, [arguments[position] for position in choice.arguments]

    def _cpp_kernel(self, kernel: wir.KernelDefinitionLine) -> "CppKernel":
        if kernel.name not in self._cpp:
            self.build_cpp((kernel.name,))
        built = self._cpp[kernel.name]
        if isinstance(built, FaultError):
            raise built
        return built

    def _triton_kernel(self, kernel: wir.KernelDefinitionLine) -> "TritonKernel":
        from wrapperir.kernels.triton_kernel import TritonKernel

        loaded = self._triton.get(kernel.name)
        if loaded is None:
            try:
                loaded = TritonKernel(kernel)
            except FaultError as fault:
                loaded = fault
            self._triton[kernel.name] = loaded
        if isinstance(loaded, FaultError):
            raise loaded
        return loaded


def _tensors(arguments: Sequence[KernelValue]) -> list[torch.Tensor | wir.Number]:
    return [a.tensor if isinstance(a, TensorValue) else a for a in arguments]


def _checked_arguments(
    kernel: wir.KernelDefinitionLine, arguments: Sequence[KernelValue], device: wir.Device
) -> list[KernelValue]:
    """Return the arguments, which fit their parameters, numbers in their types."""
    parameters = wir.runtime_parameters(kernel.parameters)
    if len(arguments) != len(parameters):
        problem = f"takes {len(parameters)} arguments, not {len(arguments)}"
        raise kernel_fault(Code.RUN_KERNEL_ARGUMENTS, kernel.name, problem)
    checked: list[KernelValue] = []
    for parameter, argument in zip(parameters, arguments, strict=True):
        mismatch = _mismatch(kernel.language, parameter, argument, device)
        if mismatch is not None:
            message = f"{parameter.name} of @{kernel.name} {mismatch}"
            raise FaultError(Code.RUN_KERNEL_ARGUMENTS, message, subject=f"@{kernel.name}")
        if not isinstance(argument, TensorValue):
            argument = cast(wir.Number, number_as(parameter.dtype, argument))
        checked.append(argument)
    return checked


def _mismatch(
    language: wir.Language,
    parameter: wir.RuntimeParameter,
    argument: KernelValue,
    device: wir.Device,
) -> str | None:
    wanted = parameter.dtype.value
    if isinstance(parameter, wir.TensorParameter):
        if not isinstance(argument, TensorValue):
            return "needs a tensor"
        if argument.layout.dtype is not parameter.dtype:
            return f"needs elements of {wanted}, not {argument.layout.dtype.value}"
        if argument.tensor.device.type != device.kind:
            return f"is on {argument.tensor.device}, not {device}"
        if isinstance(parameter, wir.DescriptorParameter):
            return _descriptor_mismatch(language, parameter, argument)
        return None
    if isinstance(argument, TensorValue):
        return "needs a number"
    if number_as(parameter.dtype, argument) is None:
        return f"needs a whole number, not {argument}"
    return None


def _descriptor_mismatch(
    language: wir.Language, parameter: wir.DescriptorParameter, value: TensorValue
) -> str | None:
    """Return why a kernel cannot take a tensor behind a descriptor, if that is so."""
    if language is not wir.Language.TRITON:
        return f"is a descriptor, which no kernel in {language.value} takes"
    fault = wir.block_fault(parameter)
    if fault is not None:
        return f"has a block that no descriptor has: {fault}"
    fault = wir.layout_fault(parameter, value.layout.size, value.layout.stride)
    if fault is not None:
        return f"is given a tensor that {fault}"
    aligned = wir.DESCRIPTOR_ALIGNMENT
    if value.tensor.data_ptr() % aligned:
        return f"is given a tensor whose address is not a multiple of {aligned}"
    placed = value.storage.alignment
    if placed is not None and placed % aligned:
        return (
            f"is given a tensor whose place in a pool is aligned to {placed} bytes, "
            f"not {aligned}"
        )
    return None


def _constants(kernel: wir.KernelDefinitionLine) -> Mapping[str, object]:
    """Return the constants and the values of the first config."""
    first = kernel.configs[0].values if kernel.configs else ()
    return {**dict(kernel.constants), **dict(first)}


def _grid(
    kernel: wir.KernelDefinitionLine,
    arguments: Sequence[KernelValue],
    constants: Mapping[str, object],
) -> tuple[int, ...]:
    names: dict[str, wir.Number] = {
        name: value for name, value in constants.items() if isinstance(value, int | float)
    }
    parameters = wir.runtime_parameters(kernel.parameters)
    for parameter, argument in zip(parameters, arguments, strict=True):
        if not isinstance(argument, TensorValue):
            names[parameter.name] = argument
    grid = tuple(integer_of(extent, names) for extent in kernel.grid)
    if len(grid) > 3 or any(extent < 0 for extent in grid):
        raise kernel_fault(Code.RUN_EVALUATION, kernel.name, f"has the grid {grid}")
    return (*grid, 1, 1, 1)[:3]


def _choices_of(line: wir.MultiKernelLine) -> tuple[wir.KernelChoice, ...]:
    """Return the choices that calls of a multi-kernel may run here, in order."""
    selection = line.selection
    if isinstance(selection, wir.ComputedChoice) and wir.settled_choice(selection) is None:
        return line.choices
    if isinstance(selection, wir.NearestChoice):
        wanted = {hint.choice for hint in selection.hints}
    else:
        wanted = {wir.settled_choice(selection) or 0}
    return tuple(c for index, c in enumerate(line.choices) if index in wanted)


def choice_at(
    line: wir.MultiKernelLine, arguments: Sequence[KernelValue]
) -> wir.KernelChoice:
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


def _index(line: wir.MultiKernelLine, arguments: Sequence[KernelValue]) -> int:
    selection = line.selection
    settled = wir.settled_choice(selection)
    if settled is not None:
        return settled
    if isinstance(selection, wir.BenchmarkChoice):
        return 0
    if isinstance(selection, wir.NearestChoice):
        for hint in selection.hints:
            if len(hint.sizes) != len(line.sizes):
                counts = f"{len(hint.sizes)} sizes, not {len(line.sizes)}"
                message = f"a hint of @{line.name} has {counts}"
                raise _misfit(line, message, Code.RUN_UNDEFINED_KERNEL)
    sizes = [_size(line, arguments, size) for size in line.sizes]
    try:
        return wir.choose(selection, sizes, _values(line, arguments))
    except wir.EvaluationError as error:
        message = f"the choice of @{line.name}: {error}"
        raise _misfit(line, message, Code.RUN_EVALUATION) from None


def _values(
    line: wir.MultiKernelLine, arguments: Sequence[KernelValue]
) -> dict[str, wir.Number]:
    """Return the values of scalar parameters and sizes by name."""
    values: dict[str, wir.Number] = {
        parameter.name: argument
        for parameter, argument in zip(line.parameters, arguments, strict=True)
        if not isinstance(argument, TensorValue)
    }
    values.update({size.name: _size(line, arguments, size) for size in line.sizes})
    return values


def _size(
    line: wir.MultiKernelLine, arguments: Sequence[KernelValue], size: wir.KernelSize
) -> int:
    extents = _tensor(line, arguments, size.parameter).layout.size
    if not 0 <= size.dim < len(extents):
        place = f"dimension {size.dim} of {len(extents)}"
        raise _misfit(line, f"{size.name} of @{line.name} is of {place}")
    return extents[size.dim]


def _tensor(
    line: wir.MultiKernelLine, arguments: Sequence[KernelValue], position: int
) -> TensorValue:
    argument = arguments[position] if 0 <= position < len(arguments) else None
    if not isinstance(argument, TensorValue):
        raise _misfit(line, f"argument {position} of @{line.name} is not a tensor")
    return argument


def _misfit(
    line: wir.MultiKernelLine, message: str, code: Code = Code.RUN_KERNEL_ARGUMENTS
) -> FaultError:
    return FaultError(code, message, subject=f"@{line.name}")
