"""The rules of all operators."""

from wrapperir.frontend.lowering import (
    arithmetic,
    creation,
    gather,
    joining,
    masked_updates,
    pointwise,
    pooling,
    products,
    reductions,
    scatter,
    special,
    view_scatter,
    views,
)
from wrapperir.frontend.lowering.rules import LATE_RULES, RULES

MODULES = (
    *(arithmetic, creation, gather, joining, masked_updates, pointwise),
    *(pooling, products, reductions, scatter, special, view_scatter, views),
)
"""The modules that add their rules to ``RULES``."""

__all__ = ["LATE_RULES", "MODULES", "RULES"]
