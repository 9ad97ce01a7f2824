"""Lowering of FX graphs: the FX emitter's, Inductor's, and any of ATen operators."""

from wrapperir.frontend.fx.lower import lower_graph_module
from wrapperir.frontend.lowered import Lowered

__all__ = ["Lowered", "lower_graph_module"]
