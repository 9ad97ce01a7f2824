"""The rules of all operators."""

from wrapperir.frontend.lowering import (
    arithmetic,
    creation,
    gather,
    joining,
    masked_updates,
    pointwise,
    pooling,
    reductions,
    scans,
    scatter,
    variance,
    view_scatter,
    views,
)
from wrapperir.frontend.lowering.rules import RULES

__all__ = [
    "RULES",
    "arithmetic",
    "creation",
    "gather",
    "joining",
    "masked_updates",
    "pointwise",
    "pooling",
    "reductions",
    "scans",
    "scatter",
    "variance",
    "view_scatter",
    "views",
]
