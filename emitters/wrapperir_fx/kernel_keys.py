"""What a graph's call of a C++ or opaque kernel says: its key, and its lists of arguments.

A key is the kernel's name and the beginning of its definition's SHA-256, as in
``add:0f3c4b5a69788796``.  Two programs that are loaded in one process never run each
other's kernel of the same name.

A call has its tensors in two lists: those that it writes and those that it only reads.  A
parameter that is only read stands among the written ones in a call where its argument may
share memory with one that is written.  The key of such a call names these parameters:
``add:0f3c4b5a69788796:left,right``.
"""

import hashlib
from collections.abc import Collection, Sequence, Set
from typing import TypeVar

import attrs

from wrapperir.ir.kernel import RuntimeParameter, ScalarParameter, runtime_parameters
from wrapperir.ir.line import KernelDefinitionLine
from wrapperir.text import format_line

_T = TypeVar("_T")


def definition_key(definition: KernelDefinitionLine) -> str:
    """Return the key of a kernel; where the kernel came from makes no difference.

    Raises:
        DiagnosticError: the definition has no text.
    """
    text = format_line(attrs.evolve(definition, provenance=None))
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{definition.name}:{digest[:16]}"


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


def argument_order(definition: KernelDefinitionLine, shared: Set[str]) -> tuple[int, ...]:
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
