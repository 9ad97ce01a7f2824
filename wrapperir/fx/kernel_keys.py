"""Kernel keys and argument lists of the operators that run kernels.

A key is the kernel's name and the beginning of its definition's SHA-256, as in
``add:0f3c4b5a69788796``.  Two programs that are loaded in one process never run each
other's kernel of the same name.

A call has its tensors in two lists: those that it writes and those that it only reads.  A
parameter that is only read stands among the written ones in a call where its argument may
share memory with one that is written.  The key of such a call names these parameters:
``add:0f3c4b5a69788796:left,right``.

The key of a multi-kernel is made alike, of its definition and the keys of its choices.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence, Set
from typing import TypeVar

import attrs
from attrs import frozen

from wrapperir.ir import (
    ComputedChoice,
    DefinitionLine,
    KernelDefinitionLine,
    MultiKernelLine,
    RuntimeParameter,
    ScalarParameter,
    runtime_parameters,
    symbols_in,
)
from wrapperir.text import format_line

_T = TypeVar("_T")


def definition_key(definition: KernelDefinitionLine) -> str:
    """Return the key of a kernel; where the kernel came from makes no difference.

    Raises:
        DiagnosticError: the definition has no text.
    """
    return _key(definition.name, format_line(attrs.evolve(definition, provenance=None)))


@frozen
class MultiKernelDefinition:
    """A multi-kernel, and the kernels of its choices, in order."""

    line: MultiKernelLine
    kernels: tuple[KernelDefinitionLine, ...]

    @classmethod
    def of(
        cls, line: MultiKernelLine, definitions: Mapping[str, DefinitionLine]
    ) -> "MultiKernelDefinition":
        """Return a multi-kernel with the definitions of its choices."""
        kernels = [definitions[choice.kernel] for choice in line.choices]
        found = [kernel for kernel in kernels if isinstance(kernel, KernelDefinitionLine)]
        assert len(found) == len(kernels)
        return cls(line, tuple(found))


def multi_kernel_key(definition: MultiKernelDefinition) -> str:
    """Return the key of a multi-kernel.

    Raises:
        DiagnosticError: a definition has no text.
    """
    line = definition.line
    texts = [format_line(attrs.evolve(line, provenance=None))]
    texts += map(definition_key, definition.kernels)
    return _key(line.name, "\n".join(texts))


def deciding_parameters(line: MultiKernelLine) -> tuple[int, ...]:
    """Return the positions of the scalar parameters that a multi-kernel's policy names.

    A call passes their values before conversion to the parameters' types.
    """
    if not isinstance(line.selection, ComputedChoice):
        return ()
    named = frozenset(symbols_in(line.selection.index))
    return tuple(
        place
        for place, parameter in enumerate(line.parameters)
        if isinstance(parameter, ScalarParameter) and parameter.name in named
    )


def call_key(kernel: str, shared: Sequence[str]) -> str:
    """Return the key of a call of ``kernel``, a kernel's key.

    ``shared`` are the read-only parameters whose arguments stand among the written.
    """
    return f"{kernel}:{','.join(shared)}" if shared else kernel


def split_key(key: str) -> tuple[str, frozenset[str]]:
    """Return the kernel's key and the parameters that the key of a call names."""
    name, _, rest = key.partition(":")
    digest, _, shared = rest.partition(":")
    return f"{name}:{digest}", frozenset(shared.split(",") if shared else ())


def split_arguments(
    parameters: Sequence[RuntimeParameter],
    arguments: Sequence[_T],
    shared: Collection[str],
) -> tuple[list[_T], list[_T], list[_T]]:
    """Return the arguments of a call as those written, those only read, and numbers."""
    lists: tuple[list[_T], list[_T], list[_T]] = ([], [], [])
    for parameter, argument in zip(parameters, arguments, strict=True):
        lists[_list_of(parameter, shared)].append(argument)
    return lists


def argument_order(definition: DefinitionLine, shared: Set[str]) -> tuple[int, ...]:
    """Return where each argument stands in the three lists, laid end to end."""
    parameters = runtime_parameters(definition.parameters)
    written, read, numbers = split_arguments(parameters, range(len(parameters)), shared)
    listed = [*written, *read, *numbers]
    place = {index: position for position, index in enumerate(listed)}
    return tuple(place[index] for index in range(len(parameters)))


def _list_of(parameter: RuntimeParameter, shared: Collection[str]) -> int:
    if isinstance(parameter, ScalarParameter):
        return 2
    return 0 if parameter.access.writes or parameter.name in shared else 1


def _key(name: str, text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name}:{digest[:16]}"
