"""Element types and devices in PyTorch."""

import functools
from collections.abc import Mapping
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


def element_type(dtype: "torch.dtype") -> DType | None:
    """Return the element type of a ``torch.dtype``; ``None`` if there is none."""
    return _element_types().get(dtype)


@functools.cache
def _element_types() -> "Mapping[torch.dtype, DType]":
    import torch  # loaded late: the names need none

    # Not every supported release has every dtype.
    known = (dtype for dtype in DType if hasattr(torch, dtype.torch_name))
    return {torch_dtype(dtype): dtype for dtype in known}


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
