"""Element types and devices in PyTorch."""

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.ir import Device, DType

if TYPE_CHECKING:
    import torch


class UnknownDeviceError(ValueError):
    """PyTorch has no device of that kind."""

    def __init__(self, device: Device) -> None:
        """Keep the device."""
        super().__init__(f"PyTorch has no device {device}")
        self.device = device

    @property
    def unsupported(self) -> DiagnosticError:
        """The error of an emitter that needs the device: WIR704."""
        hint = "import the library that registers the device with PyTorch"
        subject = str(self.device)
        return Code.UNSUPPORTED_DEVICE.error(str(self), subject=subject, hint=hint)


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
        UnknownDeviceError: PyTorch has no such kind of device.
    """
    import torch  # loaded late: the names need none

    try:
        if device.index is None:
            return torch.device(device.kind)
        return torch.device(device.kind, device.index)
    except RuntimeError:
        raise UnknownDeviceError(device) from None
