"""The rules of all operators."""

from wrapperir.frontend.lowering import (
    arithmetic,
    batch_norm,
    creation,
    gather,
    joining,
    losses,
    masked_updates,
    norms,
    pointwise,
    pooling,
    reductions,
    scans,
    scatter,
    softmax,
    variance,
    view_scatter,
    views,
)
from wrapperir.frontend.lowering.rules import RULES

__all__ = [
    "RULES",
    "arithmetic",
    "batch_norm",
    "creation",
    "gather",
    "joining",
    "losses",
    "masked_updates",
    "norms",
    "pointwise",
    "pooling",
    "reductions",
    "scans",
    "scatter",
    "softmax",
    "variance",
    "view_scatter",
    "views",
]
