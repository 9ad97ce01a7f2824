"""Registers the built-in renderers of loop nests, through the hook that any plugin uses."""

from collections.abc import Sequence

from wrapperir.lowering.cpp import CppRenderer
from wrapperir.lowering.renderer import Renderer
from wrapperir.lowering.triton import TritonRenderer
from wrapperir.plugin.hookspecs import hookimpl


@hookimpl
def wrapperir_renderers() -> Sequence[Renderer]:
    """Return the renderers of C++ and of Triton kernels."""
    return CppRenderer(), TritonRenderer()
