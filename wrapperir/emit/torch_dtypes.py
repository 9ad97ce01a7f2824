"""Element types and devices in PyTorch."""

import functools
from typing import TYPE_CHECKING

from wrapperir.ir import Device, DType

if TYPE_CHECKING:
    import torch


@functools.cache
def torch_dtype(dtype: DType) -> "torch.dtype":
    """Return the ``torch.dtype`` of an element type."""
    import torch  # loaded late: the names need none

    found: object = getattr(torch, dtype.torch_name)
    assert isinstance(found, torch.dtype)
    return found


@functools.cache
def torch_device(device: Device) -> "torch.device":
    """Return the ``torch.device``; an index left out stays so.

    Raises:
        ValueError: PyTorch knows no such kind of device.
    """
    import torch  # loaded late: the names need none

    try:
        if device.index is None:
            return torch.device(device.kind)
        return torch.device(device.kind, device.index)
    except RuntimeError:
        raise ValueError(f"PyTorch knows no device {device}") from None
