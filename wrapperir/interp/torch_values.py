"""PyTorch's forms of the types and arguments of a program.

Shared by the interpreter and by everything else that hands a program's values to torch.
"""

from collections.abc import Callable, Mapping

import torch

from wrapperir.emit.torch_dtypes import torch_device
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

TORCH_DTYPES: Mapping[DType, torch.dtype] = {
    DType.F64: torch.float64,
    DType.F32: torch.float32,
    DType.F16: torch.float16,
    DType.BF16: torch.bfloat16,
    DType.F8E4M3FN: torch.float8_e4m3fn,
    DType.F8E4M3FNUZ: torch.float8_e4m3fnuz,
    DType.F8E5M2: torch.float8_e5m2,
    DType.F8E5M2FNUZ: torch.float8_e5m2fnuz,
    DType.F8E8M0FNU: torch.float8_e8m0fnu,
    DType.F4E2M1FN_X2: torch.float4_e2m1fn_x2,
    DType.I64: torch.int64,
    DType.I32: torch.int32,
    DType.I16: torch.int16,
    DType.I8: torch.int8,
    DType.U64: torch.uint64,
    DType.U32: torch.uint32,
    DType.U16: torch.uint16,
    DType.U8: torch.uint8,
    DType.BOOL: torch.bool,
    DType.C32: torch.complex32,
    DType.C64: torch.complex64,
    DType.C128: torch.complex128,
}
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
