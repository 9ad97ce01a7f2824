"""Inductor's multi-kernels: recorded instead of written as text, and their lowering."""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen
from torch._inductor import config, ir
from torch._inductor.codegen.multi_kernel import MultiKernelState
from torch._inductor.codegen.wrapper import KernelCallLine
from torch._inductor.runtime.triton_heuristics import FixedGrid
from torch._inductor.select_algorithm import TritonTemplateKernel

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.frontend.aten.scope import take
from wrapperir.frontend.inductor.kernel_lines import append_call, launched
from wrapperir.frontend.inductor.memory_lines import ZERO_MODES
from wrapperir.frontend.inductor.scope import BlockScope
from wrapperir.frontend.inductor.triton_kernel import runtime_values
from wrapperir.ir.multi_kernel_builder import union_parameters

ShapeKey = tuple[tuple[int, ...] | None, ...]
"""The sizes that a kernel was tuned for: of its inputs, then of its output."""


@frozen
class SubKernel:
    """A kernel of a multi-kernel: its name, and the metadata that a call of it has.

    ``grid`` are the numbers that a call passes to it alone: a template's launch grid.
    """

    name: str
    triton_meta: Any
    inductor_meta: Any
    grid: tuple[Any, ...]


@frozen
class CapturedMultiKernel:
    """A multi-kernel of Inductor's.

    Attributes:
        keys: for a multi-kernel that goes by sizes, the key of each kernel.
        shaped: names of the buffers whose sizes are in the keys; ``None`` for an operand
            that is not a buffer.
        workspaces: workspaces that Inductor merged for all the kernels.
        forced: index of the kernel that the user's configuration picks.
    """

    name: str
    kernels: tuple[SubKernel, ...]
    keys: tuple[ShapeKey | None, ...] | None
    shaped: tuple[str | None, ...]
    workspaces: tuple[Any, ...]
    forced: int | None

    def calls(self, line: KernelCallLine) -> list[KernelCallLine]:
        """Return a call of this multi-kernel as calls of each of its kernels.

        A call has the arguments of all, then the grid of each kernel that is passed one.
        """
        arguments = list(line.call_args)
        begin = len(arguments) - sum(len(kernel.grid) for kernel in self.kernels)
        shared, calls = arguments[:begin], list[KernelCallLine]()
        for kernel in self.kernels:
            grid = arguments[begin : begin + len(kernel.grid)]
            begin += len(kernel.grid)
            calls.append(
                dataclasses.replace(
                    line,
                    kernel_name=kernel.name,
                    call_args=(*shared, *grid),
                    triton_meta=kernel.triton_meta,
                    inductor_meta=kernel.inductor_meta,
                )
            )
        return calls


class MultiKernels(MultiKernelState):
    """Multi-kernels of a graph and its subgraphs, one for each set of kernels and keys."""

    def __init__(self) -> None:
        """Begin with none."""
        stock: Any = super()
        stock.__init__()
        self.defined: dict[str, CapturedMultiKernel] = {}
        self._names: dict[tuple[object, ...], str] = {}

    def define_kernel(
        self, kernels: Sequence[Any], kernel_shape_keys: Sequence[Any] | None = None
    ) -> str:
        """Keep a multi-kernel and return its name: the same one for the same kernels."""
        keys = None if kernel_shape_keys is None else tuple(kernel_shape_keys)
        case = (*(kernel.kernel_name for kernel in kernels), keys)
        known = self._names.get(case)
        if known is not None:
            return known
        name = self._names[case] = f"multi_kernel_{len(self._names)}"
        forced = config.triton.multi_kernel - 2 if keys is None else -1
        template = kernels[0].output_node if keys is not None else None
        self.defined[name] = CapturedMultiKernel(
            name=name,
            kernels=tuple(_sub_kernel(kernel) for kernel in kernels),
            keys=keys,
            shaped=tuple(map(_buffer_name, [*template.inputs, template]))
            if template is not None
            else (),
            workspaces=tuple(kernels[0].args.workspace_args),
            forced=None if forced < 0 else forced,
        )
        return name


def _sub_kernel(kernel: Any) -> SubKernel:
    name, meta = kernel.kernel_name, kernel.triton_meta
    if not isinstance(kernel, TritonTemplateKernel):
        return SubKernel(name, meta, kernel.inductor_meta, ())
    template: Any = kernel
    grid = tuple(template.additional_call_args_and_types()[0])
    return SubKernel(name, meta, FixedGrid.setup_grid_as_args() if grid else None, grid)


def _buffer_name(value: Any) -> str | None:
    if not isinstance(value, ir.IRNode):
        return None
    base: Any = value.unwrap_view() if isinstance(value, ir.BaseView) else value
    name: str = base.get_name()
    return name


def lower_multi_call(
    scope: BlockScope, line: KernelCallLine, multi: CapturedMultiKernel
) -> None:
    """Lower a call of a multi-kernel, and at the first one its definition.

    Raises:
        DiagnosticError: WIR654, its kernels do not take the same arguments, the
            configuration picks a missing one, or a kernel has no definition.
    """
    calls = multi.calls(line)
    kernels = [launched(scope, call) for call in calls]
    given = [
        runtime_values(call, kernel) for call, kernel in zip(calls, kernels, strict=True)
    ]
    counts = {len(wir.runtime_parameters(kernel.parameters)) for kernel in kernels}
    if counts != {len(given[0])} or any(values != given[0] for values in given):
        raise Code.INDUCTOR_KERNEL.error(
            f"the kernels of {multi.name} do not take the same arguments"
        )
    name = _defined(scope, multi, kernels, given[0])
    append_call(scope, line, name, kernels, given[0])


def united_parameters(
    line: wir.MultiKernelLine, definitions: Mapping[str, wir.DefinitionLine]
) -> tuple[wir.RuntimeParameter, ...]:
    """Return the parameters of a multi-kernel, with the accesses of all its choices.

    Raises:
        DiagnosticError: WIR654, parameters of two choices differ in kind.
    """
    kernels: list[wir.KernelDefinitionLine] = []
    for choice in line.choices:
        kernel = definitions[choice.kernel]
        assert isinstance(kernel, wir.KernelDefinitionLine)
        kernels.append(kernel)
    try:
        return union_parameters(kernels, [choice.arguments for choice in line.choices])
    except ValueError as error:
        raise Code.INDUCTOR_KERNEL.error(f"multi-kernel {line.name}: {error}") from None


def _defined(
    scope: BlockScope,
    multi: CapturedMultiKernel,
    kernels: Sequence[wir.KernelDefinitionLine],
    values: Sequence[Any],
) -> str:
    """Return the name of the multi-kernel of these kernels; define it if it is new.

    Calls that launch the kernels on other grids call another multi-kernel.
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
        choices=tuple(wir.KernelChoice(choice, positions, needs) for choice in names),
        selection=selection,
    )
    definitions[name] = evolve(line, parameters=united_parameters(line, definitions))
    return name


def _needs(
    multi: CapturedMultiKernel, values: Sequence[Any]
) -> Iterator[wir.WorkspaceNeed]:
    """Yield the workspaces that each choice needs, if their counts are numbers.

    Inductor has merged them: each kernel is given the largest need of all.
    """
    for workspace in multi.workspaces:
        name = workspace.get_name()
        if name in values and workspace.count.is_number:
            mode = ZERO_MODES[workspace.zero_mode]
            yield wir.WorkspaceNeed(values.index(name), int(workspace.count), mode)


@frozen
class _HintedSize:
    """A size that a multi-kernel goes by, and its place in a shape key."""

    size: wir.KernelSize
    shape: int
    dim: int

    def extent(self, key: ShapeKey) -> int:
        """Return the size that a kernel was tuned for."""
        shape = key[self.shape]
        assert shape is not None
        return int(shape[self.dim])


def _selection(
    scope: BlockScope,
    multi: CapturedMultiKernel,
    indices: Sequence[int],
    values: Sequence[Any],
    kernel: wir.KernelDefinitionLine,
) -> tuple[tuple[_HintedSize, ...], wir.Selection]:
    """Return the sizes to go by, and how; ``indices`` are the choices of the kernels."""
    if multi.keys is None:
        if multi.forced is None:
            return (), wir.BenchmarkChoice()
        if multi.forced >= len(indices):
            raise Code.INDUCTOR_KERNEL.error(
                f"triton.multi_kernel={multi.forced + 2} picks kernel {multi.forced} of"
                f" {multi.name}, which has {len(indices)}"
            )
        return (), wir.ForcedChoice(indices[multi.forced])
    keyed = [(i, key) for i, key in zip(indices, multi.keys, strict=True) if key]
    if len(set(indices)) == 1 or not keyed:
        return (), wir.FirstChoice()
    parameters = wir.runtime_parameters(kernel.parameters)
    sizes = tuple(_hinted_sizes(scope, multi.shaped, keyed[0][1], values, parameters))
    if not sizes:
        return (), wir.FirstChoice()
    hints = [wir.Hint(i, tuple(size.extent(key) for size in sizes)) for i, key in keyed]
    return sizes, wir.NearestChoice(tuple(hints))


def _hinted_sizes(
    scope: BlockScope,
    shaped: Sequence[str | None],
    shapes: ShapeKey,
    values: Sequence[Any],
    parameters: Sequence[wir.RuntimeParameter],
) -> Iterator[_HintedSize]:
    """Yield the dimensions of tensor arguments that may differ between calls.

    Repeated dimensions of the keys are repeated here.  If something was fused into the
    kernel, the call does not write the template's result, the last of ``shaped``; its
    shape is then that of the buffer that the call writes instead.
    """
    taken = {parameter.name for parameter in parameters}
    outputs = [n for n, p in enumerate(parameters) if p.name.startswith(_OUTPUTS)]
    places: list[int | None] = [
        list(values).index(buffer) if buffer is not None and buffer in values else None
        for buffer in shaped
    ]
    if places[-1] is None and outputs:
        places[-1] = outputs[0]
    for number, (position, shape) in enumerate(zip(places, shapes, strict=True)):
        if position is None or shape is None:
            continue
        type = scope.types.get(scope.name(str(values[position])))
        if not isinstance(type, wir.TensorType) or len(type.size) != len(shape):
            continue
        for dim, extent in enumerate(type.size):
            if not isinstance(extent, int):
                name = take(taken, f"{parameters[position].name}_size{dim}")
                yield _HintedSize(wir.KernelSize(name, position, dim), number, dim)


_OUTPUTS = ("out_ptr", "in_out_ptr")
