"""The Inductor adapter: the one package that imports ``torch._inductor``."""

# First, since the others do not import with every release.
import wrapperir.frontend.inductor.release  # pyright: ignore[reportUnusedImport]

# isort: split
# Then what runs in the background while the others are imported.
import wrapperir.frontend.inductor.key_digests  # noqa: F401 # pyright: ignore[reportUnusedImport]

# isort: split
from wrapperir.frontend.inductor.capture import capture, compile_graph

__all__ = ["capture", "compile_graph"]
