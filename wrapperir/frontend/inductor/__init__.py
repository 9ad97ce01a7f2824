"""The Inductor adapter: the one package that imports ``torch._inductor``."""

from wrapperir.frontend.inductor.capture import capture, compile_graph

__all__ = ["capture", "compile_graph"]
