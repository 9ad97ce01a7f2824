"""Lowering of ``torch.export`` programs: one line for each ATen operator."""

from wrapperir.frontend.export.signature import lower_exported
from wrapperir.frontend.lowered import Lowered

__all__ = ["Lowered", "lower_exported"]
