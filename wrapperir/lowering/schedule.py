"""From a graph of nests, one for each operator, to kernels and calls in order."""

import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias, Union

from attrs import evolve, field, frozen

from wrapperir.ir import Provenance, TensorType
from wrapperir.lowering.kernel import (
    KernelLaunch,
    SizeSymbol,
    SizeSymbols,
    kernel_of,
    linear_accesses,
)
from wrapperir.lowering.loops import BufferView, ExternCall, InnerLoop, LoopGraph, Nest
from wrapperir.lowering.renderer import LoopKernel, Tiling
from wrapperir.lowering.substitution import instructions

ScheduleItem: TypeAlias = Union[KernelLaunch, ExternCall]

_LONGEST_NAME = 48


@frozen(kw_only=True)
class Schedule:
    """Kernels and operator calls, in the order they run.

    ``buffers`` are those that exist: a buffer that only its own kernel reads does not.
    Workspaces are among them.  ``outputs`` are as in the graph.
    """

    items: tuple[ScheduleItem, ...]
    buffers: Mapping[str, TensorType]
    outputs: tuple[tuple[str, BufferView], ...]


@frozen(kw_only=True)
class SchedulingOptions:
    """Options of scheduling.

    ``symbols`` is what is known of the size symbols.  ``fuse`` is false to give each nest
    a kernel of its own.
    """

    symbols: SizeSymbols = field(factory=dict[str, SizeSymbol])
    fuse: bool = True


def plan_kernels(graph: LoopGraph, options: SchedulingOptions | None = None) -> Schedule:
    """Return the kernels of a graph, in order.

    Equal kernels are one object with one name.
    """
    options = options or SchedulingOptions()
    kernels = _KernelNames()
    items: list[ScheduleItem] = []
    for item in graph.items:
        if isinstance(item, ExternCall):
            items.append(item)
            continue
        linear = linear_accesses(item, graph.buffers, options.symbols)
        tiling = Tiling(blocks=(tuple(axis.name for axis in linear.axes),))
        launch = kernel_of(linear, tiling, graph.buffers, options.symbols)
        items.append(kernels.named(launch, linear))
    return Schedule(items=tuple(items), buffers=graph.buffers, outputs=graph.outputs)


class _KernelNames:
    """Gives kernels names, and equal kernels the same."""

    def __init__(self) -> None:
        self._named: dict[object, LoopKernel] = {}

    def named(self, launch: KernelLaunch, nest: Nest) -> KernelLaunch:
        """Return a launch of the kernel with its name."""
        key = _literal_key(launch.kernel)
        kernel = self._named.get(key)
        if kernel is None:
            name = f"{kernel_title(nest)}_{len(self._named)}"
            kernel = evolve(
                launch.kernel, name=name, nest=evolve(launch.kernel.nest, name=name)
            )
            self._named[key] = kernel
        return evolve(launch, kernel=kernel)


def _literal_key(kernel: LoopKernel) -> object:
    """Return a key of kernels: literals of one value but other kinds or signs differ."""
    values: list[str] = []
    for each in instructions(kernel.nest.body):
        for value in (getattr(each, "value", None), getattr(each, "other", None)):
            if isinstance(value, int | float):
                values.append(repr(value))
    return (kernel, tuple(values))


def kernel_title(nest: Nest) -> str:
    """Return a name for a nest's kernel: what it loops over and the operators it has."""
    kind = "reduce" if any(isinstance(step, InnerLoop) for step in nest.body) else "map"
    operators = dict.fromkeys(map(_operator_name, nest.provenance))
    words = [kind, *filter(None, operators)]
    title = ""
    for word in words:
        if len(title) + len(word) > _LONGEST_NAME:
            break
        title += f"_{word}" if title else word
    return title


def _operator_name(provenance: Provenance) -> str:
    """Return ``add`` for ``aten.add.Tensor``."""
    parts = (provenance.operator or "").removeprefix("torch.ops.").split(".")
    name = parts[1] if len(parts) > 1 else parts[0]
    return re.sub(r"\W", "_", name).strip("_")


def launched_kernels(items: Iterable[ScheduleItem]) -> tuple[LoopKernel, ...]:
    """Return the distinct kernels of a schedule's items, in order of first use."""
    found = {
        item.kernel.name: item.kernel for item in items if isinstance(item, KernelLaunch)
    }
    return tuple(found.values())
