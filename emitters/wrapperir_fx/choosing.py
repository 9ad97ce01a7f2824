"""Decides at run time which choice of a multi-kernel a call runs.

Decisions are made by the same code as in emitted Python.  Each is logged at INFO by the
logger ``wrapperir.choices`` and returned by :func:`choices`; times are kept in the user's
cache.
"""

# torch says little of its types.
# pyright: reportUnknownMemberType=false

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch

from wrapperir.emit.runnable_kernels import kernel_digest, updated_arguments
from wrapperir.fx import MultiKernelDefinition, deciding_parameters
from wrapperir.ir import (
    BenchmarkChoice,
    ComputedChoice,
    MultiKernelLine,
    NearestChoice,
    Number,
    choose,
)
from wrapperir.tuning.kernel_choices import (
    Benchmarked,
    ByShape,
    Choice,
    Decision,
    choices,
)

__all__ = ["Decision", "choices", "deciding_runner"]

Given: TypeAlias = Sequence[torch.Tensor | Number]
"""The arguments of a call, in the order of the multi-kernel's parameters."""
Launcher: TypeAlias = Callable[..., object]
"""Runs a choice; takes all arguments of a call."""
Runner: TypeAlias = Callable[[Given, Sequence[Number]], object]
"""Runs a call; takes its arguments, and the numbers that the policy names."""

_EMITTER = "fx"
_RUN = "run"


def deciding_runner(
    definition: MultiKernelDefinition, launchers: Sequence[Launcher]
) -> Runner:
    """Return a function that runs the calls of a multi-kernel on one device.

    ``launchers`` run its choices, in order.  A decision is kept: that of a benchmark for
    all calls, any other for calls with the same sizes and the same numbers and types.
    """
    line = definition.line
    found = [
        Choice(kernel.name, launcher, kernel_digest(kernel), choice.arguments)
        for kernel, launcher, choice in zip(
            definition.kernels, launchers, line.choices, strict=True
        )
    ]
    if isinstance(line.selection, BenchmarkChoice):
        return _timed(definition, found)
    return _by_rule(line, found)


def _timed(definition: MultiKernelDefinition, found: Sequence[Choice]) -> Runner:
    line = definition.line
    positions = [choice.arguments for choice in line.choices]
    updated = updated_arguments(zip(definition.kernels, positions, strict=True))
    bound: dict[str, Launcher] = {}
    bound[_RUN] = Benchmarked(
        line.name,
        found,
        updated=sorted(updated),
        emitter=_EMITTER,
        namespace=bound,
        bound=_RUN,
    )

    def run(given: Given, deciding: Sequence[Number]) -> object:
        return bound[_RUN](*given)

    return run


def _by_rule(line: MultiKernelLine, found: Sequence[Choice]) -> Runner:
    sizes = tuple([(size.parameter, size.dim) for size in line.sizes])
    names = [size.name for size in line.sizes]
    names += [line.parameters[place].name for place in deciding_parameters(line)]

    def rule(*case: Number) -> int:
        values = dict(zip(names, case, strict=True))
        return choose(line.selection, [int(size) for size in case[: len(sizes)]], values)

    nearest = isinstance(line.selection, NearestChoice)
    reason = "the nearest hint" if nearest else _reason(line)
    # One table for each combination of types: 1, 1.0 and True are equal as keys, but an
    # expression may have different values for them.
    chosen: dict[tuple[type, ...], ByShape] = {}

    def run(given: Given, deciding: Sequence[Number]) -> object:
        extents = [_size(given[place], dim) for place, dim in sizes]
        types = tuple([type(number) for number in deciding])
        table = chosen.get(types)
        if table is None:
            made = ByShape(line.name, dict(enumerate(found)), rule, reason)
            table = chosen.setdefault(types, made)
        return table[(*extents, *deciding)](*given)

    return run


def _size(given: torch.Tensor | Number, dim: int) -> int:
    assert isinstance(given, torch.Tensor)
    return given.shape[dim]


def _reason(line: MultiKernelLine) -> str:
    device = line.selection.device if isinstance(line.selection, ComputedChoice) else ""
    return f"computed from times on {device}" if device else "computed"
