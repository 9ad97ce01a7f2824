"""Registers the built-in renderers of loop nests, through the hook that any plugin uses."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wrapperir.plugin.hookspecs import hookimpl

if TYPE_CHECKING:
    from wrapperir.lowering.renderer import Renderer


@hookimpl
def wrapperir_renderers() -> "Sequence[Renderer]":
    """Return the renderers of C++ and of Triton kernels."""
    from wrapperir.lowering.cpp import CppRenderer
    from wrapperir.lowering.triton import TritonRenderer

    return CppRenderer(), TritonRenderer()
