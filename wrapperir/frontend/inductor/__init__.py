"""The Inductor adapter: the one package that imports ``torch._inductor``."""

# First, since the others do not import with every release.
import wrapperir.frontend.inductor.release  # noqa: F401 # pyright: ignore[reportUnusedImport]
from wrapperir.frontend.inductor.capture import capture, compile_graph

__all__ = ["capture", "compile_graph"]
