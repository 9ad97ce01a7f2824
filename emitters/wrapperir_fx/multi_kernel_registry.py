"""Registers multi-kernels in this process, each with what makes its choices."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false

import functools
from collections.abc import Iterable, Sequence

import torch
from attrs import define, field

from wrapperir.fx import (
    Launcher,
    MultiKernelDefinition,
    Number,
    multi_kernel_key,
    register_multi_kernel,
    registered_multi_kernel,
)
from wrapperir.ir import KernelDefinitionLine, Language
from wrapperir_fx.choosing import Given, Runner, deciding_runner
from wrapperir_fx.kernel_functions import kernel_launcher


@define(eq=False)
class MultiKernel:
    """A multi-kernel of this process, with separate decisions for each device."""

    definition: MultiKernelDefinition
    _on_devices: dict[torch.device, Runner] = field(
        factory=dict[torch.device, Runner], init=False
    )

    def run(self, given: Given, deciding: Sequence[Number], device: torch.device) -> None:
        """Run the choice of a call whose tensors are on ``device``.

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


def register_multi_kernels(definitions: Iterable[MultiKernelDefinition]) -> None:
    """Let calls of multi-kernels run in the whole process.

    A choice that is not built yet is built when it first runs.
    """
    for definition in definitions:
        key = multi_kernel_key(definition)
        if registered_multi_kernel(key) is None:  # whose decisions are kept
            register_multi_kernel(key, definition, MultiKernel(definition).run)


def _launching(
    kernel: KernelDefinitionLine, positions: tuple[int, ...], device: torch.device
) -> Launcher:
    """Return a function that launches a choice; it takes all arguments of a call."""

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
    """Return ``launcher``, made to launch with ``device`` current, as Triton needs."""

    def launch(*arguments: torch.Tensor | Number) -> object:
        if device.index == torch.cuda.current_device():
            return launcher(*arguments)
        with torch.cuda.device(device):
            return launcher(*arguments)

    return launch
