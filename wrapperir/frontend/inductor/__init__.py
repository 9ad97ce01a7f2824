"""The Inductor adapter: the one package that imports ``torch._inductor``."""

from wrapperir.frontend.inductor.capture import capture, compile_graph
from wrapperir.frontend.inductor.exported import lower_exported

__all__ = ["capture", "compile_graph", "lower_exported"]
