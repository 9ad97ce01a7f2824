"""Types of values: torch dtypes, devices and Inductor layouts as ours."""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import sympy
import torch

from wrapperir.diagnostics import Code
from wrapperir.ir import (
    DEFAULT_SPACE,
    Device,
    DType,
    Expr,
    ScalarType,
    TensorType,
    VendorLayout,
)
from wrapperir.symbolic import lower_size

if TYPE_CHECKING:
    from torch._inductor import ir

# By name, since not every supported release has every dtype.
_DTYPES: dict[torch.dtype, DType] = {
    getattr(torch, dtype.torch_name): dtype
    for dtype in DType
    if hasattr(torch, dtype.torch_name)
}


def lower_dtype(dtype: torch.dtype) -> DType:
    """Return our element type for torch's.

    Raises:
        DiagnosticError: WIR653, there is none.
    """
    try:
        return _DTYPES[dtype]
    except KeyError:
        raise Code.INDUCTOR_VALUE.error(
            f"element type {dtype} has no form in a program"
        ) from None


@lru_cache(maxsize=64)
def lower_device(device: torch.device | None) -> Device:
    """Return our device for torch's; none is the CPU."""
    if device is None:
        return Device("cpu")
    return Device(device.type, device.index if device.type != "cpu" else None)


def lower_shape(values: Sequence[Any]) -> tuple[Expr, ...]:
    """Return sizes or strides as expressions."""
    return tuple(
        [
            value
            if type(value) is int
            # Most sizes are numbers: this saves a look-up in the lowering's cache.
            else (value.p if isinstance(value, sympy.Integer) else lower_size(value))
            for value in values
        ]
    )


def tensor_type(
    dtype: torch.dtype,
    size: Sequence[Any],
    stride: Sequence[Any],
    device: torch.device | None,
    *,
    offset: Expr = 0,
    pinned: bool = False,
    space: str = DEFAULT_SPACE,
    layout: VendorLayout | None = None,
) -> TensorType:
    """Return the type of a strided tensor; sizes and strides may be sympy's."""
    return TensorType(
        dtype=lower_dtype(dtype),
        size=lower_shape(size),
        stride=lower_shape(stride),
        offset=offset,
        device=lower_device(device),
        pinned=pinned,
        space=space,
        layout=layout,
    )


def layout_type(layout: "ir.Layout", *, offset: Expr = 0) -> TensorType:
    """Return the type of a tensor with an Inductor layout.

    ``offset`` replaces the layout's: Inductor counts offsets from the tensor it views,
    a type from the start of the storage.
    """
    return tensor_type(
        layout.dtype,
        layout.size,
        layout.stride,
        layout.device,
        offset=offset,
        pinned=bool(getattr(layout, "is_pinned", False)),
    )


def buffer_type(buffer: Any) -> TensorType:
    """Return the type of an Inductor buffer that starts at its own storage."""
    return layout_type(buffer.get_layout())


def scalar_type(value: object) -> ScalarType:
    """Return the type of a number passed by value."""
    # A sympy symbol is an expression and a Boolean: it stands for a number.
    if isinstance(value, sympy.Expr):
        return ScalarType(DType.F64 if value.is_integer is False else DType.I64)
    if isinstance(value, bool | sympy.logic.boolalg.Boolean):
        return ScalarType(DType.BOOL)
    return ScalarType(DType.F64 if isinstance(value, float) else DType.I64)
