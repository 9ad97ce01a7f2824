"""Kernels of a language on a kind of device: how they are defined and launched."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from attrs import frozen

from wrapperir.emit import Fragment
from wrapperir.emit.runnable_kernels import Candidate
from wrapperir.ir import (
    BufferRef,
    KernelArgument,
    KernelCallLine,
    KernelDefinitionLine,
    Language,
)
from wrapperir_cpp.context import Context

Addresses: TypeAlias = Callable[[int], Fragment]
"""Returns the address of the tensor at a position of a call's arguments."""


@frozen
class LaunchArgument:
    """A tensor and the address of its first element, or a scalar, which has none."""

    value: KernelArgument
    address: Fragment | None = None


@frozen
class KernelLanguage:
    """Functions that emit kernels of one language on one kind of device.

    ``declare`` adds a definition to the module.  ``format_launch`` returns the expression
    that launches a kernel; ``None`` where its definition was reported.
    """

    declare: Callable[[Context, KernelDefinitionLine], None]
    format_launch: Callable[
        [Context, KernelCallLine, KernelDefinitionLine, Sequence[LaunchArgument]],
        Fragment | None,
    ]


KernelLanguages: TypeAlias = Mapping[tuple[str, Language], KernelLanguage]
"""By kind of device and language."""


def launch_arguments(
    line: KernelCallLine, candidate: Candidate, addresses: Addresses
) -> list[LaunchArgument]:
    """Return a call's argument for each runtime parameter of a kernel."""
    positions = candidate.positions
    if positions is None:
        positions = tuple(range(len(line.arguments)))
    found: list[LaunchArgument] = []
    for position in positions:
        value = line.arguments[position]
        is_tensor = isinstance(value, BufferRef)
        found.append(LaunchArgument(value, addresses(position) if is_tensor else None))
    return found
