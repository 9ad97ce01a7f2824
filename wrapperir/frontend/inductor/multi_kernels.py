"""Inductor's multi-kernels, recorded instead of written as text."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from attrs import frozen
from torch._inductor import config, ir
from torch._inductor.codegen.multi_kernel import MultiKernelState
from torch._inductor.codegen.wrapper import KernelCallLine
from torch._inductor.runtime.triton_heuristics import FixedGrid
from torch._inductor.select_algorithm import TritonTemplateKernel

ShapeKey = tuple[tuple[int, ...] | None, ...]
"""The sizes that a kernel was tuned for: of its inputs, then of its output."""


@frozen
class SubKernel:
    """One of the kernels: its name, and what Inductor would say of it at a call.

    ``grid`` are the numbers that a call passes to it alone: a template's launch grid.
    """

    name: str
    triton_meta: Any
    inductor_meta: Any
    grid: tuple[Any, ...]


@frozen
class MultiKernelDefinition:
    """A multi-kernel of Inductor's.

    ``keys`` are there for one that goes by sizes, one for each kernel; ``shaped`` name
    the buffers whose sizes they are, ``None`` for what is not a buffer.  ``workspaces`` are
    what Inductor has merged for all the kernels.  ``forced`` is the kernel that the
    user's configuration picks.
    """

    name: str
    kernels: tuple[SubKernel, ...]
    keys: tuple[ShapeKey | None, ...] | None
    shaped: tuple[str | None, ...]
    workspaces: tuple[Any, ...]
    forced: int | None

    def calls(self, line: KernelCallLine) -> list[KernelCallLine]:
        """Return a call of this one as calls of each of its kernels.

        A call has the arguments of all, then the grid of each kernel that is passed one.
        """
        arguments = list(line.call_args)
        end = len(arguments) - sum(len(kernel.grid) for kernel in self.kernels)
        shared, calls, begin = arguments[:end], list[KernelCallLine](), end
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
        self.defined: dict[str, MultiKernelDefinition] = {}
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
        self.defined[name] = MultiKernelDefinition(
            name=name,
            kernels=tuple(_sub_kernel(kernel) for kernel in kernels),
            keys=keys,
            shaped=() if keys is None else _shaped(kernels[0].output_node),
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


def _shaped(node: Any) -> tuple[str | None, ...]:
    """Return the names of a template's inputs and output, as the keys have their sizes."""
    return tuple(_name(value) for value in [*node.inputs, node])


def _name(value: Any) -> str | None:
    if not isinstance(value, ir.IRNode):
        return None
    base: Any = value.unwrap_view() if isinstance(value, ir.BaseView) else value
    name: str = base.get_name()
    return name
