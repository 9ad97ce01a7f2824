"""Workspaces that a module keeps, zeroed, from one call to the next."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false

from collections.abc import Sequence

import torch
from attrs import evolve

from wrapperir.ir.expr import evaluate_int
from wrapperir.ir.types import TensorType, storage_extent
from wrapperir_fx.arguments import torch_device, torch_dtype


def is_static(type: TensorType) -> bool:
    """Say whether a tensor's layout is known before the program runs."""
    return all(isinstance(entry, int) for entry in (*type.size, *type.stride, type.offset))


def make_workspace(type: TensorType) -> "torch.Tensor | KeptWorkspace":
    """Return the memory of a workspace; where sizes are symbolic, what makes it."""
    return _zeroed(type) if is_static(type) else KeptWorkspace(type)


class KeptWorkspace(torch.nn.Module):
    """A zeroed workspace for each layout that it is called with."""

    def __init__(self, type: TensorType) -> None:
        """Start with none."""
        super().__init__()
        self._type = type
        self._kept: dict[object, torch.Tensor] = {}

    def forward(
        self, size: Sequence[int], stride: Sequence[int], offset: int
    ) -> torch.Tensor:
        """Return the workspace of a layout, as the last call left it."""
        layout = (tuple(size), tuple(stride), offset)
        kept = self._kept.get(layout)
        if kept is None:
            type = evolve(self._type, size=layout[0], stride=layout[1], offset=offset)
            kept = self._kept[layout] = _zeroed(type)
        return kept


def _zeroed(type: TensorType) -> torch.Tensor:
    """Return zeroed memory of static layout; its address is that of a multiple."""
    offset = evaluate_int(type.offset, {})
    extent = evaluate_int(storage_extent(type), {}) + offset
    alignment = type.alignment or 0
    spare = -(-alignment // type.dtype.itemsize)
    memory = torch.zeros(
        extent + spare,
        dtype=torch_dtype(type.dtype),
        device=torch_device(type.device),
        pin_memory=type.pinned,
    )
    skipped = 0
    if alignment:
        skipped = -memory.data_ptr() % alignment // type.dtype.itemsize
    size = [evaluate_int(extent, {}) for extent in type.size]
    stride = [evaluate_int(step, {}) for step in type.stride]
    return memory.as_strided(size, stride, skipped + offset)
