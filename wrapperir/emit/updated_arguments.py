"""The arguments that kernels update: timing the kernels must restore these."""

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from wrapperir.ir import KernelDefinitionLine, TensorParameter, runtime_parameters

Argument = TypeVar("Argument", bound=Hashable)


def updated_arguments(
    kernels: Iterable[tuple[KernelDefinitionLine, Sequence[Argument]]],
    zeroed: Iterable[Argument] = (),
) -> frozenset[Argument]:
    """Return the arguments that a run of any of the kernels may change for a later one.

    Each kernel comes with its arguments, one a runtime parameter.  The result includes
    every argument that one kernel reads and another, or the same, writes; and every
    argument in ``zeroed``, which must begin as zeros, that any kernel writes.
    """
    reads: set[Argument] = set(zeroed)
    writes: set[Argument] = set()
    for kernel, arguments in kernels:
        parameters = runtime_parameters(kernel.parameters)
        for parameter, argument in zip(parameters, arguments, strict=True):
            if isinstance(parameter, TensorParameter):
                if parameter.access.reads:
                    reads.add(argument)
                if parameter.access.writes:
                    writes.add(argument)
    return frozenset(reads & writes)
