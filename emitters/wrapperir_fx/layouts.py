"""Extents of tensors, flat layouts, and runs of elements of another size."""

from attrs import evolve, frozen

from wrapperir.ir import (
    Expr,
    TensorType,
    add,
    contiguous_stride,
    maximum,
    mul,
    product,
    quotient,
    storage_extent,
)


def extent_of(type: TensorType) -> Expr:
    """Return the elements of a tensor's storage, also where symbols make a size zero."""
    extent = storage_extent(type)
    if not isinstance(extent, int) and type.stride != (1,):
        extent = maximum(extent, 0)
    return add(type.offset, extent)


def flat(type: TensorType, count: Expr) -> TensorType:
    """Return the type of ``count`` elements of ``type`` in a list without gaps."""
    return evolve(type, size=(count,), stride=(1,), offset=0)


@frozen
class Run:
    """Consecutive elements of a root that contain a tensor of another element type."""

    begin: Expr
    count: Expr
    skipped: int = 0
    """Elements of the tensor's type before its first one."""
    spare: bool = False
    """Whether the run has bytes that are not the tensor's."""


def run_of(type: TensorType, begin: Expr, itemsize: int) -> Run | None:
    """Return the elements of ``itemsize`` bytes that hold a row-major tensor, if any do.

    ``begin`` is its first byte in memory that has whole elements of so many bytes.
    """
    if type.stride != contiguous_stride(type.size):
        return None
    own = mul(product(type.size), type.dtype.itemsize)
    first, count = quotient(begin, itemsize), quotient(own, itemsize)
    if first is not None and count is not None:
        return Run(first, count)
    if not isinstance(own, int):
        return None
    if first is not None:
        return Run(first, -(-own // itemsize), 0, spare=True)
    if not isinstance(begin, int):
        return None
    first, before = divmod(begin, itemsize)
    skipped, rest = divmod(before, type.dtype.itemsize)
    count = -(-(before + own) // itemsize)
    return None if rest else Run(first, count, skipped, spare=True)
