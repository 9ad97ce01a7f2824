"""Kernels of this process by key: from loaded programs and from users."""

from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

import torch

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.fx.kernel_keys import MultiKernelDefinition, argument_order, split_key
from wrapperir.ir import KernelDefinitionLine, Number

Launcher: TypeAlias = Callable[..., object]
"""Runs a kernel; takes its tensors and numbers in the order of its parameters."""
MultiKernelRunner: TypeAlias = Callable[
    [Sequence[torch.Tensor | Number], Sequence[Number], torch.device], object
]
"""Runs a choice; takes the arguments of a call in the order of the parameters, the numbers
that the policy names, and the device."""

_CPU = torch.device("cpu")
_LAUNCHERS: dict[str, tuple[KernelDefinitionLine, Launcher]] = {}
_OPAQUE: dict[str, Launcher] = {}
_MULTI_KERNELS: dict[str, tuple[MultiKernelDefinition, MultiKernelRunner]] = {}
_TRITON: dict[object, KernelDefinitionLine] = {}


class _Functions(dict[str, Callable[..., None]]):
    """The functions of calls so far, so that a call costs one look into a dictionary."""

    def __init__(self, make: Callable[[str, frozenset[str]], Callable[..., None]]) -> None:
        """Use ``make`` for a kernel's key and the parameters that the call's key names."""
        self._make = make

    def __missing__(self, key: str) -> Callable[..., None]:
        try:
            made = self[key] = self._make(*split_key(key))
        except KeyError:
            raise unregistered(key) from None
        return made


def registered_definition(key: str) -> KernelDefinitionLine | None:
    """Return the kernel of a key, without the parameters of a call; ``None`` if none is."""
    found = _LAUNCHERS.get(key)
    return None if found is None else found[0]


def registered_launcher(key: str) -> Launcher:
    """Return the function that runs the C++ or opaque kernel of a key.

    Raises:
        KeyError: none is registered.
    """
    return _LAUNCHERS[key][1]


def register_kernel(key: str, definition: KernelDefinitionLine, launcher: Launcher) -> None:
    """Let calls of the kernel of ``key`` run ``launcher``, in the whole process."""
    _LAUNCHERS[key] = definition, launcher


def register_multi_kernel(
    key: str, definition: MultiKernelDefinition, runner: MultiKernelRunner
) -> None:
    """Let calls of the multi-kernel of ``key`` run ``runner``, in the whole process."""
    _MULTI_KERNELS[key] = definition, runner


def registered_multi_kernel(key: str) -> MultiKernelDefinition | None:
    """Return the multi-kernel of a key, without the parameters of a call, or ``None``."""
    found = _MULTI_KERNELS.get(key)
    return None if found is None else found[0]


def register_triton_function(function: object, definition: KernelDefinitionLine) -> None:
    """Note the definition that a Triton function of this process was built from."""
    _TRITON[function] = definition


def triton_definition(function: object) -> KernelDefinitionLine | None:
    """Return the definition that a Triton function was built from, if it is registered."""
    return _TRITON.get(function)


def register_opaque_kernel(entry: str, function: Launcher) -> None:
    """Let opaque kernels with that ``entry`` run ``function`` in this process.

    It is called with the kernel's arguments, tensors and numbers in the order of the
    parameters, and writes the tensors of its written parameters.  Its result is dropped.
    It replaces an earlier function for that entry.  Its exceptions are raised with a note
    that names the kernel.

    Raises:
        TypeError: ``function`` cannot be called.
    """
    if not callable(cast(object, function)):
        raise TypeError(
            f"the function for opaque kernels with entry {entry!a} is a"
            f" {type(function).__name__}, which cannot be called"
        )
    _OPAQUE[entry] = function


def opaque_launcher(definition: KernelDefinitionLine) -> Launcher:
    """Return a launcher that runs the function registered for an opaque kernel.

    It looks the function up in each call, and raises WIR712 if there is none.
    """

    def launch(*arguments: torch.Tensor | Number) -> None:
        function = _OPAQUE.get(definition.entry)
        if function is None:
            raise _unknown_opaque(definition)
        try:
            function(*arguments)
        except Exception as error:
            error.add_note(f"in opaque kernel @{definition.name}, entry {definition.entry}")
            raise

    return launch


def _kernel_function(kernel: str, shared: frozenset[str]) -> Callable[..., None]:
    definition, launcher = _LAUNCHERS[kernel]
    order = argument_order(definition, shared)

    def run(
        written: Sequence[torch.Tensor],
        read: Sequence[torch.Tensor],
        numbers: Sequence[Number],
    ) -> None:
        launcher(*written, *read, *numbers)

    def run_reordered(
        written: Sequence[torch.Tensor],
        read: Sequence[torch.Tensor],
        numbers: Sequence[Number],
    ) -> None:
        given = *written, *read, *numbers
        launcher(*[given[place] for place in order])

    return run if order == tuple(range(len(order))) else run_reordered


def _multi_kernel_function(name: str, shared: frozenset[str]) -> Callable[..., None]:
    definition, runner = _MULTI_KERNELS[name]
    order = argument_order(definition.line, shared)

    def run(
        written: Sequence[torch.Tensor],
        read: Sequence[torch.Tensor],
        numbers: Sequence[Number],
        deciding: Sequence[Number],
    ) -> None:
        listed = *written, *read, *numbers
        tensors = written or read
        device = tensors[0].device if tensors else _CPU
        runner([listed[place] for place in order], deciding, device)

    return run


KERNEL_FUNCTIONS = _Functions(_kernel_function)
"""The function of each key of a call: it takes the tensors that the kernel writes, those
that it reads, and the numbers.  A key that is not registered is a ``DiagnosticError``."""
MULTI_KERNEL_FUNCTIONS = _Functions(_multi_kernel_function)
"""As above for multi-kernels; the numbers that the policy names are a fourth argument."""


def unregistered(key: str) -> DiagnosticError:
    """Return the error for a key without a registered kernel or multi-kernel."""
    return Code.UNREGISTERED_KERNEL.error(
        f"kernel {key[:160]!a} is not registered in this process",
        subject=key,
        hint="load the program with the fx emitter, or the saved graph module, first",
    )


def _unknown_opaque(definition: KernelDefinitionLine) -> DiagnosticError:
    return Code.UNREGISTERED_KERNEL.error(
        f"opaque kernel @{definition.name} has no function: none is registered"
        f" for its entry {definition.entry}",
        subject=f"@{definition.name}",
        hint="give wrapperir.fx.kernel_registry.register_opaque_kernel a function for"
        " that entry, or have compile_graph replace the node",
    )
