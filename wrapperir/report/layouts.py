"""Layouts of tensors in memory: their names, and that of what is copied through views."""

from collections.abc import Iterable, Sequence

from attrs import evolve, frozen

from wrapperir.ir import CopyAxis, Expr, TensorType, contiguous_stride
from wrapperir.text import format_expr

_CHANNELS_LAST = {4: "channels last", 5: "channels last 3d"}


def layout_name(type: TensorType) -> str:
    """Return ``contiguous``, ``channels last``, or the strides: ``stride 1, 8``."""
    size, stride = type.size, type.stride
    if _is_same(size, stride, contiguous_stride(size)):
        return "contiguous"
    if len(size) in _CHANNELS_LAST:
        batch, *places, channels = contiguous_stride((size[0], *size[2:], size[1]))
        if _is_same(size, stride, (batch, channels, *places)):
            return _CHANNELS_LAST[len(size)]
    return f"stride {', '.join(map(format_expr, stride))}"


def copied_layout(target: TensorType, axes: Iterable[CopyAxis]) -> TensorType | None:
    """Return what is copied to a tensor, as a tensor of that shape with strides of its own.

    ``axes`` are the loops of the copy.  ``None``: there are no such strides, as loops
    through a dimension may step unevenly, or sizes are not known.
    """
    known = [axis for axis in axes if axis.extent > 1]
    if any(axis.target == 0 for axis in known):
        return None
    dims: list[_CopiedDimension] = []
    for size, step in zip(target.size, target.stride, strict=True):
        if not (isinstance(size, int) and isinstance(step, int)):
            return None
        inner = [x for x in known if step % x.target == 0 and step // x.target < x.extent]
        if size == 1:
            dims.append(_CopiedDimension(size, step, step))
        elif inner:
            axis = max(inner, key=lambda x: x.target)
            dims.append(_CopiedDimension(size, step, axis.source * (step // axis.target)))
        else:
            return None
    for axis in known:
        for count in (1, axis.extent - 1):
            if _source_step(axis.target * count, dims) != axis.source * count:
                return None
    if any(each.source < 0 for each in dims):
        return None
    return evolve(target, stride=tuple(x.source for x in dims))


@frozen
class _CopiedDimension:
    """A dimension of a copy: its size, and the strides of the copy and of its source."""

    size: int
    target: int
    source: int


def _source_step(offset: int, dims: Iterable[_CopiedDimension]) -> int | None:
    """Return how far apart in a source elements are whose copies are ``offset`` apart."""
    found = 0
    for each in sorted(dims, key=lambda x: -x.target):
        if each.size == 1 or not each.target:
            continue
        count, offset = divmod(offset, each.target)
        if count >= each.size:
            return None
        found += count * each.source
    return None if offset else found


def _is_same(size: Sequence[Expr], stride: Sequence[Expr], wanted: Sequence[Expr]) -> bool:
    """Say whether strides are the same, but for dimensions of one element."""
    triples = zip(size, stride, wanted, strict=True)
    return all(own == other for extent, own, other in triples if extent != 1)
