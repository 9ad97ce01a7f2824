"""The Inductor adapter: the one package that imports ``torch._inductor``."""

# First, since the others do not import with every release.
import wrapperir.frontend.inductor.release  # pyright: ignore[reportUnusedImport]

# isort: split
# Then what runs in the background while the others are imported.
import wrapperir.frontend.inductor.key_digests  # noqa: F401 # pyright: ignore[reportUnusedImport]

# isort: split
from typing import TYPE_CHECKING

from wrapperir.frontend.inductor.compile import compile_graph

if TYPE_CHECKING:
    from wrapperir.frontend.inductor.compilation import capture

__all__ = ["capture", "compile_graph"]


def __getattr__(name: str) -> object:
    if name == "capture":  # it imports all of Inductor, which kept graphs do not need
        from wrapperir.frontend.inductor import compilation

        return compilation.capture
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
