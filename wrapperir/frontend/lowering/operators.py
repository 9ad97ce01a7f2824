"""The rules of all operators."""

from wrapperir.frontend.lowering import (
    creation,
    pointwise,
    reductions,
    scans,
    softmax,
    variance,
    views,
)
from wrapperir.frontend.lowering.rules import RULES

__all__ = [
    "RULES",
    "creation",
    "pointwise",
    "reductions",
    "scans",
    "softmax",
    "variance",
    "views",
]
