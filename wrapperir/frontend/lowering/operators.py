"""The rules of all operators."""

from wrapperir.frontend.lowering import creation, pointwise, views
from wrapperir.frontend.lowering.rules import RULES

__all__ = ["RULES", "creation", "pointwise", "views"]
