"""Types of values: tensors, scalars, tuples of results."""

import re
from enum import StrEnum
from typing import LiteralString, TypeAlias, Union

from attrs import field, frozen

from wrapperir.ir.expr import Expr, mul


class DType(StrEnum):
    """Element types; the value is the name in text and JSON.

    Attributes:
        itemsize: Bytes of one element.
        torch_name: The name in the ``torch`` module, such as ``float32``.
        cpp_type: The C++ type of an element, such as ``int64_t`` or ``c10::Half``.
        triton_name: Triton's name, such as ``fp32``; ``None`` where it has no such type.
    """

    F64 = "f64"
    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    F8E4M3FN = "f8e4m3fn"
    F8E4M3FNUZ = "f8e4m3fnuz"
    F8E5M2 = "f8e5m2"
    F8E5M2FNUZ = "f8e5m2fnuz"
    F8E8M0FNU = "f8e8m0fnu"
    F4E2M1FN_X2 = "f4e2m1fn_x2"
    I64 = "i64"
    I32 = "i32"
    I16 = "i16"
    I8 = "i8"
    U64 = "u64"
    U32 = "u32"
    U16 = "u16"
    U8 = "u8"
    BOOL = "bool"
    C32 = "c32"
    C64 = "c64"
    C128 = "c128"

    itemsize: int
    torch_name: LiteralString
    cpp_type: LiteralString
    triton_name: LiteralString | None

    @property
    def is_float(self) -> bool:
        """Whether elements are real floating-point numbers."""
        return self.value.startswith(("f", "bf"))

    @property
    def is_integer(self) -> bool:
        """Whether elements are whole numbers; bools are."""
        return self is DType.BOOL or self.value.startswith(("i", "u"))


_DTYPES: dict[DType, tuple[int, LiteralString, LiteralString, LiteralString | None]] = {
    DType.F64: (8, "float64", "double", "fp64"),
    DType.F32: (4, "float32", "float", "fp32"),
    DType.F16: (2, "float16", "c10::Half", "fp16"),
    DType.BF16: (2, "bfloat16", "c10::BFloat16", "bf16"),
    DType.F8E4M3FN: (1, "float8_e4m3fn", "c10::Float8_e4m3fn", "fp8e4nv"),
    DType.F8E4M3FNUZ: (1, "float8_e4m3fnuz", "c10::Float8_e4m3fnuz", "fp8e4b8"),
    DType.F8E5M2: (1, "float8_e5m2", "c10::Float8_e5m2", "fp8e5"),
    DType.F8E5M2FNUZ: (1, "float8_e5m2fnuz", "c10::Float8_e5m2fnuz", "fp8e5b16"),
    DType.F8E8M0FNU: (1, "float8_e8m0fnu", "c10::Float8_e8m0fnu", None),
    DType.F4E2M1FN_X2: (1, "float4_e2m1fn_x2", "c10::Float4_e2m1fn_x2", None),
    DType.I64: (8, "int64", "int64_t", "i64"),
    DType.I32: (4, "int32", "int32_t", "i32"),
    DType.I16: (2, "int16", "int16_t", "i16"),
    DType.I8: (1, "int8", "int8_t", "i8"),
    DType.U64: (8, "uint64", "uint64_t", "u64"),
    DType.U32: (4, "uint32", "uint32_t", "u32"),
    DType.U16: (2, "uint16", "uint16_t", "u16"),
    DType.U8: (1, "uint8", "uint8_t", "u8"),
    DType.BOOL: (1, "bool", "bool", "u1"),
    DType.C32: (4, "complex32", "c10::complex<c10::Half>", None),
    DType.C64: (8, "complex64", "c10::complex<float>", None),
    DType.C128: (16, "complex128", "c10::complex<double>", None),
}
for _dtype, _facts in _DTYPES.items():  # attributes, as look-ups by member are slow
    _dtype.itemsize, _dtype.torch_name, _dtype.cpp_type, _dtype.triton_name = _facts


@frozen
class Device:
    """A device: its kind (``cpu``, ``cuda``, or a third party's) and index."""

    kind: str
    index: int | None = None

    def __str__(self) -> str:
        """Return ``kind`` or ``kind:index``."""
        return self.kind if self.index is None else f"{self.kind}:{self.index}"


CPU = Device("cpu")


def _indexed(device: Device) -> Device:
    return Device(device.kind, 0) if device.index is None else device


@frozen(cache_hash=True)
class Stream:
    """A stream of a device, by number; ``cuda`` and ``cuda:0`` are the same device.

    ``region`` is 0 outside of graph regions.  A replayed region has streams of its own
    beside the one that it is on: the streams of the ``region``-th one that an analysis
    meets.
    """

    device: Device = field(converter=_indexed)
    number: int = 0
    region: int = 0


LayoutValue: TypeAlias = int | str


@frozen
class VendorLayout:
    """A third party's memory layout: a namespaced name and its parameters.

    Planners must not reuse a buffer with a vendor layout for one without, or with
    another.  Example: ``acme.tiled(16, 16)``.
    """

    name: str
    parameters: tuple[LayoutValue, ...] = ()


ONEDNN_LAYOUT = VendorLayout("torch.mkldnn")
"""The layout of a constant that oneDNN laid out: only its operators know the elements."""

DEFAULT_SPACE = "global"


@frozen(kw_only=True, cache_hash=True)
class TensorType:
    """A strided tensor in memory.

    ``size`` and ``stride`` count elements and have one entry a dimension; ``offset``
    counts elements from the start of the storage.  ``alignment`` is in bytes; ``None``
    promises nothing.  ``space`` is a memory space: ``global``, ``comm`` (symmetric
    memory of collectives) or a third party's.
    """

    dtype: DType
    size: tuple[Expr, ...]
    stride: tuple[Expr, ...]
    offset: Expr = 0
    device: Device = CPU
    space: str = DEFAULT_SPACE
    pinned: bool = False
    alignment: int | None = None
    layout: VendorLayout | None = None


@frozen
class ScalarType:
    """A number passed by value, such as a size given as a program input."""

    dtype: DType


@frozen
class TupleType:
    """The results of an operator that returns several; entries may nest."""

    elements: tuple["ValueType", ...]


@frozen
class OpaqueType:
    """A value the program only passes on: a ``None`` result, a script object."""

    description: str = field(default="")


POOL_ALIGNMENT = 64
"""Alignment of PyTorch's CPU memory, in bytes, and the default alignment of a pool."""


@frozen(kw_only=True)
class PoolType:
    """Raw memory of ``size`` bytes that buffers are placed in.

    ``device``, ``space``, ``pinned`` and ``alignment`` are as in a tensor type.
    """

    size: Expr
    device: Device = CPU
    space: str = DEFAULT_SPACE
    pinned: bool = False
    alignment: int = POOL_ALIGNMENT


@frozen
class EventType:
    """A point in the work of a stream of ``device``, for other streams to wait for."""

    device: Device


ValueType: TypeAlias = Union[
    TensorType, ScalarType, TupleType, OpaqueType, PoolType, EventType
]


def contiguous_stride(size: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Return row-major strides: each the product of the sizes to its right."""
    strides: list[Expr] = []
    step: Expr = 1
    for extent in reversed(size):
        strides.append(step)
        step = mul(extent, step)
    return tuple(reversed(strides))


def tensor(
    dtype: DType | str,
    size: tuple[Expr, ...],
    stride: tuple[Expr, ...] | None = None,
    *,
    offset: Expr = 0,
    device: Device = CPU,
    space: str = DEFAULT_SPACE,
    pinned: bool = False,
    alignment: int | None = None,
    layout: VendorLayout | None = None,
) -> TensorType:
    """Return a tensor type; row-major where no ``stride`` is given.

    Raises:
        ValueError: ``dtype`` names no element type.
        TypeError: ``size`` or ``stride`` is not a tuple.
    """
    _check_tuple("size", size)
    if stride is not None:
        _check_tuple("stride", stride)
    return TensorType(
        dtype=_element_type(dtype),
        size=size,
        stride=contiguous_stride(size) if stride is None else stride,
        offset=offset,
        device=device,
        space=space,
        pinned=pinned,
        alignment=alignment,
        layout=layout,
    )


# How other libraries name element types: torch.float32, bfloat16, uint8.
_SHORT = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}
_SPELLED_OUT = re.compile(rf"(?:torch\.)?({'|'.join(_SHORT)})(\d\w*)")


def _element_type(name: str) -> DType:
    try:
        return DType(name)
    except ValueError:
        found = _SPELLED_OUT.fullmatch(str(name))
        short = _SHORT[found[1]] + found[2].replace("_", "") if found else ""
        meant = f"; did you mean {short!r}?" if short in list(DType) else ""
        names = ", ".join(dtype.value for dtype in DType)
        raise ValueError(
            f"{str(name)!r} is not an element type{meant} (they are {names})"
        ) from None


def _check_tuple(what: str, value: object) -> None:
    if not isinstance(value, tuple):
        raise TypeError(f"the {what} of a tensor is a tuple such as (8,), not {value!r}")


def pool_bytes(pool: PoolType) -> TensorType:
    """Return the type of a pool as a tensor of bytes."""
    return TensorType(
        dtype=DType.U8,
        size=(pool.size,),
        stride=(1,),
        device=pool.device,
        space=pool.space,
        pinned=pool.pinned,
        alignment=pool.alignment,
    )


def is_dense(type: TensorType) -> bool:
    """Say whether a type's elements certainly fill its storage, each byte once."""
    if len(type.size) != len(type.stride):
        return False  # the verifier reports it
    dims = [pair for pair in zip(type.size, type.stride, strict=True) if pair[0] != 1]
    if all(isinstance(stride, int) for _, stride in dims):
        dims.sort(key=lambda pair: pair[1] if isinstance(pair[1], int) else 0, reverse=True)
    size = tuple(extent for extent, _ in dims)
    return type.offset == 0 and contiguous_stride(size) == tuple(s for _, s in dims)


def storage_extent(type: TensorType) -> Expr:
    """Return the elements of storage the type spans, counted from its offset.

    It is ``1 + Σ (size − 1) · stride`` where every size is at least one, and 0 where a
    static size is 0.
    """
    extent: Expr = 1
    for size, stride in zip(type.size, type.stride, strict=True):
        if isinstance(size, int) and size == 0:
            return 0
        step = mul(size - 1, stride)
        extent = extent + step
    return extent
