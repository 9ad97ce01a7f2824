"""The multi-kernels of this process, by key."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import torch
from attrs import define, field

from wrapperir.fx.kernel_keys import (
    MultiKernelDefinition,
    argument_order,
    multi_kernel_key,
    split_key,
)
from wrapperir.fx.kernel_registry import (
    Launcher,
    Number,
    register_multi_kernel,
    unregistered,
)
from wrapperir.ir.kernel import Language
from wrapperir.ir.line import KernelDefinitionLine
from wrapperir_fx.choosing import Given, Runner, deciding_runner
from wrapperir_fx.kernel_functions import kernel_launcher

MultiKernelFunction: TypeAlias = Callable[
    [Sequence[torch.Tensor], Sequence[torch.Tensor], Sequence[Number], Sequence[Number]],
    None,
]
"""Runs a choice; takes tensors that are written, tensors that are read, numbers, and the
numbers that the policy names."""

_CPU = torch.device("cpu")


@define(eq=False)
class MultiKernel:
    """A multi-kernel of this process; each device has decisions of its own."""

    definition: MultiKernelDefinition
    _on_devices: dict[torch.device, Runner] = field(
        factory=dict[torch.device, Runner], init=False
    )

    def run(self, given: Given, deciding: Sequence[Number], device: torch.device) -> None:
        """Run the choice of a call with these arguments, of which tensors are on a device.

        Raises:
            DiagnosticError: WIR709, the choice does not build.
            EvaluationError: an expression of the policy has no value.
        """
        runner = self._on_devices.get(device)
        if runner is None:
            made = deciding_runner(self.definition, self._launchers(device))
            # Another thread may have come first, and may be timing.
            runner = self._on_devices.setdefault(device, made)
        runner(given, deciding)

    def _launchers(self, device: torch.device) -> list[Launcher]:
        line, kernels = self.definition.line, self.definition.kernels
        return [
            _launching(kernel, choice.arguments, device)
            for kernel, choice in zip(kernels, line.choices, strict=True)
        ]


_MULTI_KERNELS: dict[str, MultiKernel] = {}


class _MultiKernelFunctions(dict[str, MultiKernelFunction]):
    """What was called before, so that a call costs one look into a dictionary."""

    def __missing__(self, key: str) -> MultiKernelFunction:
        name, shared = split_key(key)
        found = _MULTI_KERNELS.get(name)
        if found is None:
            raise unregistered(key)
        order = argument_order(found.definition.line, shared)
        made = self[key] = _taking_lists(found, order)
        return made


MULTI_KERNEL_FUNCTIONS = _MultiKernelFunctions()
"""The function of each key; one that no program registered is a DiagnosticError."""


def register_multi_kernels(definitions: Iterable[MultiKernelDefinition]) -> None:
    """Let calls of multi-kernels run in the whole process.

    A choice that is not built yet is when it is first run.
    """
    for definition in definitions:
        key = multi_kernel_key(definition)
        if key not in _MULTI_KERNELS:  # whose decisions are kept
            _MULTI_KERNELS[key] = MultiKernel(definition)
            register_multi_kernel(key, definition)


def _taking_lists(kernel: MultiKernel, order: tuple[int, ...]) -> MultiKernelFunction:
    def run(
        written: Sequence[torch.Tensor],
        read: Sequence[torch.Tensor],
        numbers: Sequence[Number],
        deciding: Sequence[Number],
    ) -> None:
        listed = *written, *read, *numbers
        tensors = written or read
        device = tensors[0].device if tensors else _CPU
        kernel.run([listed[place] for place in order], deciding, device)

    return run


def _launching(
    kernel: KernelDefinitionLine, positions: tuple[int, ...], device: torch.device
) -> Launcher:
    """Return what launches a choice; it takes all arguments of a call."""

    @functools.cache
    def launcher() -> Launcher:
        interpreted = device.type == "cpu"
        found = kernel_launcher(kernel, interpreted=interpreted)
        if kernel.language is Language.TRITON and device.type == "cuda":
            return _on_device(found, device)
        return found

    def launch(*given: torch.Tensor | Number) -> object:
        return launcher()(*[given[position] for position in positions])

    return launch


def _on_device(launcher: Launcher, device: torch.device) -> Launcher:
    """Return what launches with ``device`` made current, as Triton launches on that."""

    def launch(*arguments: torch.Tensor | Number) -> object:
        if device.index == torch.cuda.current_device():
            return launcher(*arguments)
        with torch.cuda.device(device):
            return launcher(*arguments)

    return launch
