"""Element types and devices in PyTorch."""

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

from wrapperir.ir import Device, DType

if TYPE_CHECKING:
    import torch

TORCH_DTYPES: Mapping[DType, str] = {
    DType.F64: "float64",
    DType.F32: "float32",
    DType.F16: "float16",
    DType.BF16: "bfloat16",
    DType.F8E4M3FN: "float8_e4m3fn",
    DType.F8E4M3FNUZ: "float8_e4m3fnuz",
    DType.F8E5M2: "float8_e5m2",
    DType.F8E5M2FNUZ: "float8_e5m2fnuz",
    DType.F8E8M0FNU: "float8_e8m0fnu",
    DType.F4E2M1FN_X2: "float4_e2m1fn_x2",
    DType.I64: "int64",
    DType.I32: "int32",
    DType.I16: "int16",
    DType.I8: "int8",
    DType.U64: "uint64",
    DType.U32: "uint32",
    DType.U16: "uint16",
    DType.U8: "uint8",
    DType.BOOL: "bool",
    DType.C32: "complex32",
    DType.C64: "complex64",
    DType.C128: "complex128",
}
"""Each element type's attribute name in the ``torch`` module."""


@functools.cache
def torch_dtype(dtype: DType) -> "torch.dtype":
    """Return the ``torch.dtype`` of an element type."""
    import torch  # loaded late: the names need none

    found: object = getattr(torch, TORCH_DTYPES[dtype])
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
