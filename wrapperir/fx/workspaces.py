"""Workspaces that a module keeps, zeroed, from one call to the next."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false

from collections.abc import Sequence

import torch

from wrapperir.emit.torch_dtypes import torch_device, torch_dtype
from wrapperir.ir import TensorType, evaluate_int, storage_extent


def is_static(type: TensorType) -> bool:
    """Say whether a tensor's layout is known before the program runs."""
    return all(isinstance(entry, int) for entry in (*type.size, *type.stride))


def make_workspace(type: TensorType) -> "torch.Tensor | KeptWorkspace":
    """Return the memory of a workspace, or a module that makes it for symbolic sizes."""
    if not is_static(type):
        return KeptWorkspace(type)
    size = [evaluate_int(extent, {}) for extent in type.size]
    stride = [evaluate_int(step, {}) for step in type.stride]
    memory = _zeros(type, evaluate_int(storage_extent(type), {}))
    return memory.as_strided(size, stride)


class KeptWorkspace(torch.nn.Module):
    """A zeroed workspace for each layout that it is called with."""

    def __init__(self, type: TensorType) -> None:
        """Start with none."""
        super().__init__()
        self._type = type
        self._kept: dict[object, torch.Tensor] = {}

    def forward(self, size: Sequence[int], stride: Sequence[int]) -> torch.Tensor:
        """Return the workspace of a layout, as the last call left it."""
        layout = (tuple(size), tuple(stride))
        kept = self._kept.get(layout)
        if kept is None:
            extent = 1 + sum((n - 1) * step for n, step in zip(*layout, strict=True))
            memory = _zeros(self._type, 0 if 0 in layout[0] else extent)
            kept = self._kept[layout] = memory.as_strided(*layout)
        return kept


def _zeros(type: TensorType, extent: int) -> torch.Tensor:
    dtype, device = torch_dtype(type.dtype), torch_device(type.device)
    memory = torch.zeros(extent, dtype=dtype, device=device, pin_memory=type.pinned)
    if memory.is_cuda:  # any stream may use it at once
        torch.cuda.current_stream(memory.device).synchronize()
    return memory
