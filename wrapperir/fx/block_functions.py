"""Functions that graphs call around lines with nested blocks."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false

from collections.abc import Callable, Sequence

import torch
from torch.fx.node import has_side_effect


@has_side_effect
def ran(results: object) -> None:
    """Mark that blocks ran: their writes keep them from being dead code."""


def graph_region(
    body: Callable[..., tuple[object, ...]],
    name: str,
    device: torch.device,
    stream: int,
    recordings: int,
    *operands: object,
) -> tuple[object, ...]:
    """Return the results of the block of a graph region, which runs in the plain way."""
    return body(*operands)


def packed(*elements: object) -> tuple[object, ...]:
    """Return a tuple: tuples go into blocks, and come out of them, element by element."""
    return elements


def laid_out(
    tensor: torch.Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    offset: int,
    *,
    pinned: bool = False,
) -> torch.Tensor:
    """Return a loop's result with its layout.

    After no iteration, PyTorch returns a copy of the initial value, which has neither gaps
    between elements nor ``offset`` elements before the first.  It is copied once more.
    """
    pairs = zip(size, tensor.stride(), stride, strict=True)
    same = all(extent == 1 or step == wanted for extent, step, wanted in pairs)
    same = same and tensor.storage_offset() >= offset and (not pinned or tensor.is_pinned())
    if same or tensor.numel() == 0:
        return tensor
    steps = zip(size, stride, strict=True)
    room = offset + 1 + sum((extent - 1) * step for extent, step in steps)
    memory = torch.empty(room, dtype=tensor.dtype, device=tensor.device, pin_memory=pinned)
    return memory.as_strided(size, stride, offset).copy_(tensor)
