"""Matrix products of half types on GPUs, as lines of a program say them."""

from collections.abc import Mapping

from attrs import frozen

from wrapperir import ir as wir

ALIGNED = 8
"""Elements of 16 bits that a load takes at once."""


@frozen
class HalfProduct:
    """``out = x @ w`` of plain CUDA tensors of one dtype, f16 or bf16."""

    line: wir.ExternKernelLine
    refs: tuple[wir.BufferRef, wir.BufferRef, wir.BufferRef]
    x: wir.TensorType
    w: wir.TensorType
    out: wir.TensorType


def find_product(
    line: wir.BodyLine, types: Mapping[str, wir.ValueType]
) -> HalfProduct | None:
    """Return the product that a line computes into memory that it is given, if any."""
    if not isinstance(line, wir.ExternKernelLine) or line.operator != "aten.mm.out":
        return None
    given = (*line.arguments, *(value for _, value in line.keywords))
    refs = [value for value in given if isinstance(value, wir.BufferRef)]
    found = [type for ref in refs if isinstance(type := types[ref.name], wir.TensorType)]
    keywords = [name for name, _ in line.keywords]
    if line.result is not None or keywords != ["out"] or len(given) != 3 or len(found) != 3:
        return None
    if not all(map(_is_plain, found)):
        return None
    x, w, out = found
    suits = (
        w.size[0] == x.size[1]
        and out.size == (x.size[0], w.size[1])
        and x.device == w.device == out.device == line.device
        and x.dtype == w.dtype == out.dtype
        and x.dtype in (wir.DType.F16, wir.DType.BF16)
    )
    return HalfProduct(line, (refs[0], refs[1], refs[2]), x, w, out) if suits else None


def _is_plain(type: wir.TensorType) -> bool:
    """Say whether a tensor is a matrix in the usual memory of a CUDA device."""
    usual = type.space == wir.DEFAULT_SPACE and type.layout is None
    return type.device.kind == "cuda" and usual and len(type.size) == 2


def has_aligned_rows(stride: tuple[wir.Expr, ...], offset: wir.Expr) -> bool:
    """Say whether rows are dense and begin at multiples of :data:`ALIGNED` elements."""
    step, element = stride
    begins = all(isinstance(at, int) and at % ALIGNED == 0 for at in (step, offset))
    return element == 1 and begins
