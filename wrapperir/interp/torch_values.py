"""PyTorch's forms of the types and arguments of a program.

Shared by the interpreter and by everything else that hands a program's values to torch.
"""

from collections.abc import Callable, Mapping

import torch

from wrapperir.emit.torch_dtypes import torch_device, torch_dtype
from wrapperir.interp.layout import Layout
from wrapperir.ir import (
    Argument,
    BufferRef,
    ComplexLiteral,
    Device,
    DType,
    Number,
    Operation,
    Symbol,
    TorchEnum,
    evaluate,
)

TORCH_DTYPES: Mapping[DType, torch.dtype] = {dtype: torch_dtype(dtype) for dtype in DType}
"""Each element type's ``torch.dtype``."""

DTYPES: Mapping[torch.dtype, DType] = {value: key for key, value in TORCH_DTYPES.items()}
"""The element type of each ``torch.dtype`` that has one."""

_ENUMS: Mapping[str, Mapping[str, object]] = {
    "layout": {
        "strided": torch.strided,
        "sparse_coo": torch.sparse_coo,
        "sparse_csr": torch.sparse_csr,
        "sparse_csc": torch.sparse_csc,
        "sparse_bsr": torch.sparse_bsr,
        "sparse_bsc": torch.sparse_bsc,
    },
    "memory_format": {
        "contiguous_format": torch.contiguous_format,
        "preserve_format": torch.preserve_format,
        "channels_last": torch.channels_last,
        "channels_last_3d": torch.channels_last_3d,
    },
}


def torch_enum(value: TorchEnum) -> object:
    """Return the ``torch.layout`` or ``torch.memory_format``.

    Raises:
        ValueError: there is none of that kind and name.
    """
    try:
        return _ENUMS[value.kind][value.name]
    except KeyError:
        raise ValueError(f"torch has no {value.kind} {value.name}") from None


def empty(layout: Layout, device: Device) -> torch.Tensor:
    """Return an uninitialised tensor of this size and stride, at offset 0."""
    return torch.empty_strided(
        layout.size,
        layout.stride,
        dtype=TORCH_DTYPES[layout.dtype],
        device=torch_device(device),
    )


def python_value(
    argument: Argument, symbols: Mapping[str, Number], value_of: Callable[[str], object]
) -> object:
    """Return the Python object that an operator is given for ``argument``.

    Names go through ``value_of``; expressions become numbers, tuples lists.

    Raises:
        EvaluationError: an expression has no value.
        ValueError: a device or enum is unknown to PyTorch.
    """
    match argument:
        case BufferRef(name):
            return value_of(name)
        case tuple():
            return [python_value(item, symbols, value_of) for item in argument]
        case DType():  # before str, of which it is a subclass
            return TORCH_DTYPES[argument]
        case Device():
            return torch_device(argument)
        case TorchEnum():
            return torch_enum(argument)
        case ComplexLiteral(real, imaginary):
            return complex(real, imaginary)
        case Symbol() | Operation():
            return evaluate(argument, symbols)
        case _:
            return argument
