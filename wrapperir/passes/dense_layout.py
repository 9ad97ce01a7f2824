"""Whether a tensor's elements lie next to each other, in some order."""

from wrapperir.ir.expr import Expr, mul
from wrapperir.ir.types import TensorType


def is_dense(type: TensorType) -> bool:
    """Say whether elements are certain to fill their memory, each byte once.

    Dimensions of size 1 may have any stride.  A tensor without elements is not dense.
    """
    if 0 in type.size:
        return False
    pairs = zip(type.size, type.stride, strict=True)
    left = [(size, stride) for size, stride in pairs if size != 1]
    step: Expr = 1
    while left:
        found = next((pair for pair in left if pair[1] == step), None)
        if found is None:
            return False
        left.remove(found)
        step = mul(found[0], step)
    return True
