"""The rules of all operators."""

from wrapperir.frontend.lowering import (
    batch_norm,
    creation,
    losses,
    norms,
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
    "batch_norm",
    "creation",
    "losses",
    "norms",
    "pointwise",
    "reductions",
    "scans",
    "softmax",
    "variance",
    "views",
]
