"""Runs multi-kernels: decides at run time which choice each call runs.

Decisions are made by the same code as in emitted Python.  Each is logged at INFO by the
logger ``wrapperir.choices`` and returned by :func:`choices`; times are kept in the user's
cache.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import torch

from wrapperir.emit.runnable_kernels import (
    choice_reason,
    kernel_digest,
    updated_arguments,
)
from wrapperir.fx import (
    Launcher,
    MultiKernelDefinition,
    MultiKernelRunner,
    deciding_parameters,
    multi_kernel_key,
    register_multi_kernel,
    registered_multi_kernel,
)
from wrapperir.ir import (
    BenchmarkChoice,
    KernelDefinitionLine,
    Language,
    MultiKernelLine,
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
from wrapperir_fx.kernel_functions import kernel_launcher

__all__ = ["Decision", "choices", "register_multi_kernels"]

CallArguments: TypeAlias = Sequence[torch.Tensor | Number]
"""The arguments of a call, in the order of the multi-kernel's parameters."""
DeviceRunner: TypeAlias = Callable[[CallArguments, Sequence[Number]], object]
"""Runs a call; takes its arguments, and the numbers that the policy names."""

_RUN = "run"


def register_multi_kernels(definitions: Iterable[MultiKernelDefinition]) -> None:
    """Register multi-kernels, so that calls in the whole process find them.

    A choice that is not built yet is built when it first runs.  Each device has its own
    decisions.
    """
    for definition in definitions:
        key = multi_kernel_key(definition)
        if registered_multi_kernel(key) is None:  # whose decisions are kept
            register_multi_kernel(key, definition, _choosing_by_device(definition))


def _choosing_by_device(definition: MultiKernelDefinition) -> MultiKernelRunner:
    runners: dict[torch.device, DeviceRunner] = {}

    def run(given: CallArguments, deciding: Sequence[Number], device: torch.device) -> None:
        runner = runners.get(device)
        if runner is None:
            # Another thread may have come first, and may be timing.
            runner = runners.setdefault(device, _choosing_on(definition, device))
        runner(given, deciding)

    return run


def _choosing_on(definition: MultiKernelDefinition, device: torch.device) -> DeviceRunner:
    """Return a function that runs the calls of a multi-kernel on one device.

    A decision is kept: that of a benchmark for all calls, any other for calls with the same
    sizes and the same numbers and types.
    """
    line = definition.line
    found = [
        Choice(
            *(kernel.name, _launching(kernel, choice.arguments, device)),
            *(kernel_digest(kernel), choice.arguments),
        )
        for kernel, choice in zip(definition.kernels, line.choices, strict=True)
    ]
    if isinstance(line.selection, BenchmarkChoice):
        return _timed(definition, found)
    return _by_rule(line, found)


def _timed(definition: MultiKernelDefinition, found: Sequence[Choice]) -> DeviceRunner:
    line = definition.line
    positions = [choice.arguments for choice in line.choices]
    updated = updated_arguments(zip(definition.kernels, positions, strict=True))
    bound: dict[str, Launcher] = {}
    bound[_RUN] = Benchmarked(
        *(line.name, found),
        updated=sorted(updated),
        emitter="fx",
        namespace=bound,
        bound=_RUN,
    )
    return lambda given, deciding: bound[_RUN](*given)


def _by_rule(line: MultiKernelLine, found: Sequence[Choice]) -> DeviceRunner:
    sizes = tuple([(size.parameter, size.dim) for size in line.sizes])
    names = [size.name for size in line.sizes]
    names += [line.parameters[place].name for place in deciding_parameters(line)]

    def rule(*case: Number) -> int:
        values = dict(zip(names, case, strict=True))
        return choose(line.selection, [int(size) for size in case[: len(sizes)]], values)

    # One table for each combination of types: 1, 1.0 and True are equal as keys, but an
    # expression may have different values for them.
    chosen: dict[tuple[type, ...], ByShape] = {}

    def run(given: CallArguments, deciding: Sequence[Number]) -> object:
        extents = [_size(given[place], dim) for place, dim in sizes]
        types = tuple([type(number) for number in deciding])
        table = chosen.get(types)
        if table is None:
            made = ByShape(line.name, dict(enumerate(found)), rule, choice_reason(line))
            table = chosen.setdefault(types, made)
        return table[(*extents, *deciding)](*given)

    return run


def _size(given: torch.Tensor | Number, dim: int) -> int:
    assert isinstance(given, torch.Tensor)
    return given.shape[dim]


def _launching(
    kernel: KernelDefinitionLine, positions: tuple[int, ...], device: torch.device
) -> Launcher:
    """Return a function that launches a choice; it takes all arguments of a call."""
    # Triton launches on the current device.
    is_current = kernel.language is not Language.TRITON or device.type != "cuda"

    @functools.cache
    def launcher() -> Launcher:
        return kernel_launcher(kernel, interpreted=device.type == "cpu")

    def launch(*given: torch.Tensor | Number) -> object:
        arguments = [given[position] for position in positions]
        if is_current or device.index == torch.cuda.current_device():
            return launcher()(*arguments)
        with torch.cuda.device(device):
            return launcher()(*arguments)

    return launch
