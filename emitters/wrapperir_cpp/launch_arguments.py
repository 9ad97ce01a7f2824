"""The arguments of a launch: what the program gives, and where tensors are."""

from collections.abc import Callable
from typing import TypeAlias

from attrs import frozen

from wrapperir.emit.fragment import Fragment
from wrapperir.emit.runnable_kernels import Candidate
from wrapperir.ir.line import BufferRef, KernelArgument, KernelCallLine

Addresses: TypeAlias = Callable[[int], Fragment]
"""Returns the address of the tensor at a position of a call's arguments."""


@frozen
class LaunchArgument:
    """A tensor and the address of its first element, or a scalar, which has none."""

    value: KernelArgument
    address: Fragment | None = None


def launch_arguments(
    line: KernelCallLine, candidate: Candidate, addresses: Addresses
) -> list[LaunchArgument]:
    """Return what a call gives a kernel, one for each of its runtime parameters."""
    positions = candidate.positions
    if positions is None:
        positions = tuple(range(len(line.arguments)))
    found: list[LaunchArgument] = []
    for position in positions:
        value = line.arguments[position]
        is_tensor = isinstance(value, BufferRef)
        found.append(LaunchArgument(value, addresses(position) if is_tensor else None))
    return found
