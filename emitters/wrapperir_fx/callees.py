"""The kernels that the graphs of a program call."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from attrs import define, field, frozen

from wrapperir.fx import MultiKernelDefinition, definition_key, multi_kernel_key
from wrapperir.ir import (
    DefinitionLine,
    Device,
    KernelDefinitionLine,
    Language,
    MultiKernelLine,
    RuntimeParameter,
    ScalarParameter,
    runtime_parameters,
)

Report: TypeAlias = Callable[[str, str | None], None]
"""Records that a line needs something that the emitter lacks: a message and its subject."""


@frozen
class Signature:
    """The key and the runtime parameters of a kernel that an operator of ours runs.

    ``writes_all`` says that it only reads no tensor.
    """

    key: str
    parameters: tuple[RuntimeParameter, ...]
    writes_all: bool


@define(eq=False)
class Callee:
    """A kernel that is called.

    ``index`` is its place among the program's definitions; ``devices`` are the kinds of
    device that it was called on.
    """

    definition: KernelDefinitionLine
    index: int
    signature: Signature
    devices: set[str] = field(factory=set[str])


class Callees:
    """The kernels and multi-kernels that are called, each looked at once."""

    def __init__(self, definitions: Mapping[str, DefinitionLine]) -> None:
        """Start with no kernel called; ``definitions`` are those of the program."""
        self._definitions = definitions
        self._kernels: dict[str, Callee] = {}
        self._multi_kernels: dict[str, Signature] = {}

    def kernel(
        self, definition: KernelDefinitionLine, device: Device, report: Report
    ) -> Callee:
        """Return a kernel that is called on a device; report where it cannot run there."""
        callee = self._kernels.get(definition.name)
        if callee is None:
            index = list(self._definitions).index(definition.name)
            is_triton = definition.language is Language.TRITON
            key = "" if is_triton else definition_key(definition)
            signature = _signature(key, definition)
            callee = Callee(definition, index, signature)
            self._kernels[definition.name] = callee
            if any("\ud800" <= character <= "\udfff" for character in definition.source):
                report("the source of a kernel is not Unicode text", definition.name)
        if device.kind not in callee.devices:
            callee.devices.add(device.kind)
            self._check_device(callee, device, report)
        return callee

    def multi_kernel(self, definition: MultiKernelLine) -> Signature:
        """Return the signature of a multi-kernel whose choice is made at run time."""
        signature = self._multi_kernels.get(definition.name)
        if signature is None:
            key = multi_kernel_key(MultiKernelDefinition.of(definition, self._definitions))
            signature = _signature(key, definition)
            self._multi_kernels[definition.name] = signature
        return signature

    def _check_device(self, callee: Callee, device: Device, report: Report) -> None:
        language = callee.definition.language
        if language is Language.CPP and device.kind != "cpu":
            report(f"a C++ kernel does not run on {device}", str(device))
        if language is Language.TRITON:
            kinds = {
                kind
                for other in self._kernels.values()
                if other.definition.language is Language.TRITON
                for kind in other.devices
            }
            if "cpu" in kinds and len(kinds) > 1:
                problem = "Triton kernels run on the CPU and elsewhere in one program"
                report(problem, None)


def _signature(key: str, definition: DefinitionLine) -> Signature:
    parameters = runtime_parameters(definition.parameters)
    tensors = [item for item in parameters if not isinstance(item, ScalarParameter)]
    return Signature(key, parameters, all(item.access.writes for item in tensors))
