"""Which arguments kernels update, so that what times them must bring these back."""

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from wrapperir.ir import KernelDefinitionLine, TensorParameter, runtime_parameters

Argument = TypeVar("Argument", bound=Hashable)


def updated_arguments(
    kernels: Iterable[tuple[KernelDefinitionLine, Sequence[Argument]]],
    zeroed: Iterable[Argument] = (),
) -> frozenset[Argument]:
    """Return the arguments that a run of any of the kernels may change for a later one.

    Each kernel comes with its arguments, one a parameter that it takes at run time.  Those
    are meant that any of them reads and any writes, by whatever parameter; and of those
    that must begin ``zeroed``, all that any writes.
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
