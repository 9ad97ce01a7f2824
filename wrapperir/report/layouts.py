"""Names of the layouts of tensors in memory."""

from collections.abc import Sequence

from wrapperir.ir import Expr, TensorType, contiguous_stride
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


def _is_same(size: Sequence[Expr], stride: Sequence[Expr], wanted: Sequence[Expr]) -> bool:
    """Say whether strides are the same, but for dimensions of one element."""
    triples = zip(size, stride, wanted, strict=True)
    return all(own == other for extent, own, other in triples if extent != 1)
