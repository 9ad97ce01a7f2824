"""Lowering of calls of multi-kernels."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen
from torch._inductor.codegen.wrapper import KernelCallLine

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend.inductor.kernel_lines import append_call, launched
from wrapperir.frontend.inductor.memory_lines import ZERO_MODES
from wrapperir.frontend.inductor.multi_kernels import MultiKernelDefinition, ShapeKey
from wrapperir.frontend.inductor.scope import Scope
from wrapperir.frontend.inductor.triton_kernel import runtime_values
from wrapperir.ir import (
    BenchmarkChoice,
    FirstChoice,
    ForcedChoice,
    Hint,
    KernelChoice,
    KernelSize,
    NearestChoice,
    RuntimeParameter,
    Selection,
    TensorType,
    WorkspaceNeed,
    runtime_parameters,
)
from wrapperir.ir import line as wir
from wrapperir.ir.multi_kernel_builder import union_parameters


def lower_multi_call(
    scope: Scope, line: KernelCallLine, multi: MultiKernelDefinition
) -> None:
    """Lower a call of a multi-kernel, and at the first one its definition.

    Raises:
        DiagnosticError: WIR654, its kernels do not take the same arguments, the
            configuration picks one that is not there, or a kernel has no definition.
    """
    calls = multi.calls(line)
    kernels = [launched(scope, call) for call in calls]
    given = [
        runtime_values(call, dict(kernel.constants))
        for call, kernel in zip(calls, kernels, strict=True)
    ]
    counts = {len(runtime_parameters(kernel.parameters)) for kernel in kernels}
    if counts != {len(given[0])} or any(values != given[0] for values in given):
        raise _refused(f"the kernels of {multi.name} do not take the same arguments")
    name = _defined(scope, multi, kernels, given[0])
    append_call(scope, line, name, kernels, given[0])


def united_parameters(
    line: wir.MultiKernelLine, definitions: Mapping[str, wir.DefinitionLine]
) -> tuple[RuntimeParameter, ...]:
    """Return the parameters of a multi-kernel: they do what those of any choice do.

    Raises:
        DiagnosticError: WIR654, two choices have other kinds of parameters in one place.
    """
    kernels: list[wir.KernelDefinitionLine] = []
    for choice in line.choices:
        kernel = definitions[choice.kernel]
        assert isinstance(kernel, wir.KernelDefinitionLine)
        kernels.append(kernel)
    try:
        return union_parameters(kernels, [choice.arguments for choice in line.choices])
    except ValueError as error:
        raise _refused(f"multi-kernel {line.name}: {error}") from None


def _defined(
    scope: Scope,
    multi: MultiKernelDefinition,
    kernels: Sequence[wir.KernelDefinitionLine],
    values: Sequence[Any],
) -> str:
    """Return the name of the multi-kernel of these kernels; define it if it is new.

    A call of the same multi-kernel may launch them on other grids, which are others'.
    """
    names = tuple(dict.fromkeys(kernel.name for kernel in kernels))
    definitions, name = scope.session.definitions, multi.name
    for number in itertools.count(2):
        known = definitions.get(name)
        if known is None:
            break
        assert isinstance(known, wir.MultiKernelLine)
        if tuple(choice.kernel for choice in known.choices) == names:
            return name
        name = f"{multi.name}_grid{number}"
    positions = tuple(range(len(values)))
    needs = tuple(_needs(multi, values))
    indices = [names.index(kernel.name) for kernel in kernels]
    sizes, selection = _selection(scope, multi, indices, values, kernels[0])
    line = wir.MultiKernelLine(
        name=name,
        parameters=(),
        sizes=tuple(size.size for size in sizes),
        choices=tuple(KernelChoice(choice, positions, needs) for choice in names),
        selection=selection,
    )
    definitions[name] = evolve(line, parameters=united_parameters(line, definitions))
    return name


def _needs(multi: MultiKernelDefinition, values: Sequence[Any]) -> Iterator[WorkspaceNeed]:
    """Yield what all choices need of workspaces, where their counts are numbers.

    Inductor has merged them: each kernel takes what the greediest of them needs.
    """
    for workspace in multi.workspaces:
        name = workspace.get_name()
        if name in values and workspace.count.is_number:
            mode = ZERO_MODES[workspace.zero_mode]
            yield WorkspaceNeed(values.index(name), int(workspace.count), mode)


@frozen
class _HintedSize:
    """A size that a multi-kernel goes by, and its place in a shape key."""

    size: KernelSize
    shape: int
    dim: int


def _selection(
    scope: Scope,
    multi: MultiKernelDefinition,
    indices: Sequence[int],
    values: Sequence[Any],
    kernel: wir.KernelDefinitionLine,
) -> tuple[tuple[_HintedSize, ...], Selection]:
    """Return the sizes to go by, and how; ``indices`` are the choices of the kernels."""
    if multi.keys is None:
        if multi.forced is None:
            return (), BenchmarkChoice()
        if multi.forced >= len(indices):
            raise _refused(
                f"triton.multi_kernel={multi.forced + 2} picks kernel {multi.forced} of"
                f" {multi.name}, which has {len(indices)}"
            )
        return (), ForcedChoice(indices[multi.forced])
    keyed = [(i, key) for i, key in zip(indices, multi.keys, strict=True) if key]
    if len(set(indices)) == 1 or not keyed:
        return (), FirstChoice()
    parameters = runtime_parameters(kernel.parameters)
    sizes = tuple(_hinted_sizes(scope, multi.shaped, keyed[0][1], values, parameters))
    if not sizes:
        return (), FirstChoice()
    hints = [Hint(i, tuple(_extent(key, size) for size in sizes)) for i, key in keyed]
    return sizes, NearestChoice(tuple(hints))


def _extent(key: ShapeKey, size: _HintedSize) -> int:
    shape = key[size.shape]
    assert shape is not None
    return int(shape[size.dim])


def _hinted_sizes(
    scope: Scope,
    shaped: Sequence[str | None],
    shapes: ShapeKey,
    values: Sequence[Any],
    parameters: Sequence[RuntimeParameter],
) -> Iterator[_HintedSize]:
    """Yield the dimensions of tensor arguments that may differ between calls.

    Each counts as often as the keys have it.  The shape of a result that the call does
    not write itself, since something was fused into the kernel, is that of what it
    writes instead.
    """
    taken = {parameter.name for parameter in parameters}
    last = len(shaped) - 1
    for number, (buffer, shape) in enumerate(zip(shaped, shapes, strict=True)):
        if shape is None:
            continue
        position = _position(buffer, values, parameters, is_output=number == last)
        if position is None:
            continue
        type = scope.types.get(scope.name(str(values[position])))
        if not isinstance(type, TensorType) or len(type.size) != len(shape):
            continue
        for dim, extent in enumerate(type.size):
            if isinstance(extent, int):
                continue
            name = _new_name(f"{parameters[position].name}_size{dim}", taken)
            yield _HintedSize(KernelSize(name, position, dim), number, dim)


def _position(
    buffer: str | None,
    values: Sequence[Any],
    parameters: Sequence[RuntimeParameter],
    *,
    is_output: bool,
) -> int | None:
    if buffer is not None and buffer in values:
        return list(values).index(buffer)
    if not is_output:
        return None
    for position, parameter in enumerate(parameters):
        if parameter.name.startswith(("out_ptr", "in_out_ptr")):
            return position
    return None


def _new_name(name: str, taken: set[str]) -> str:
    found, number = name, 2
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    taken.add(found)
    return found


def _refused(message: str) -> DiagnosticError:
    return Code.INDUCTOR_KERNEL.error(message)
