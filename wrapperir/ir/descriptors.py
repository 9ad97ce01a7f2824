"""Requirements of Triton's tensor descriptors on their blocks and tensors.

A descriptor is how a kernel takes a tensor: base address, size and strides together, which
hardware with a tensor memory accelerator reads and writes blocks by.
"""

from collections.abc import Sequence
from math import prod

from wrapperir.ir.expr import Expr
from wrapperir.ir.kernel import DescriptorParameter
from wrapperir.ir.types import DType

DESCRIPTOR_ALIGNMENT = 16
"""Bytes that the address, and all strides but the last, are a multiple of."""

_MOST_DIMENSIONS = 5
_MOST_ELEMENTS = 1 << 20  # of a block
_LARGEST_SIZE = (1 << 31) - 1
_WITHOUT = frozenset(
    {DType.BOOL, DType.F8E8M0FNU, DType.F4E2M1FN_X2, DType.C32, DType.C64, DType.C128}
)


def block_fault(parameter: DescriptorParameter) -> str | None:
    """Return why a parameter's dtype or block is not possible, or ``None``."""
    dtype, block = parameter.dtype, parameter.block
    if dtype in _WITHOUT:
        return f"there are no descriptors of {dtype.value}"
    if not 1 <= len(block) <= _MOST_DIMENSIONS:
        return f"it has {len(block)} dimensions, not 1 to {_MOST_DIMENSIONS}"
    for length in block:
        if length < 1 or length & (length - 1):
            return f"{length} is not a power of two"
    if prod(block) > _MOST_ELEMENTS:
        return f"it has more than {_MOST_ELEMENTS} elements"
    bytes = block[-1] * dtype.itemsize
    if bytes < DESCRIPTOR_ALIGNMENT:
        return f"its last dimension has {bytes} bytes, fewer than {DESCRIPTOR_ALIGNMENT}"
    return None


def layout_fault(
    parameter: DescriptorParameter, size: Sequence[Expr], stride: Sequence[Expr]
) -> str | None:
    """Return why a tensor of this layout cannot be behind a descriptor, if that is so.

    Symbolic sizes and strides are not checked.
    """
    rank = len(parameter.block)
    if len(size) != rank:
        return f"has {len(size)} dimensions, and the block {rank}"
    for length in size:
        if isinstance(length, int) and not 1 <= length <= _LARGEST_SIZE:
            return f"has a size of {length}, not of 1 to {_LARGEST_SIZE}"
    for step in stride[:-1]:
        if isinstance(step, int) and step * parameter.dtype.itemsize % DESCRIPTOR_ALIGNMENT:
            return (
                f"has a stride of {step} elements, which is not a multiple of "
                f"{DESCRIPTOR_ALIGNMENT} bytes"
            )
    last = stride[-1]
    if isinstance(last, int) and last != 1:
        return f"has a last stride of {last}, not 1"
    return None
