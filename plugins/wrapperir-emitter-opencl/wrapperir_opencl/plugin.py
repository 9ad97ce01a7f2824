"""Registers the emitter and the renderer."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wrapperir.emit import Emitter
from wrapperir.plugin import hookimpl
from wrapperir_opencl.emitter import OpenclEmitter

if TYPE_CHECKING:
    from wrapperir.lowering.renderer import Renderer


@hookimpl
def wrapperir_emitters() -> Sequence[Emitter]:
    """Return the emitter of this plugin."""
    return (OpenclEmitter(),)


@hookimpl
def wrapperir_renderers() -> "Sequence[Renderer]":
    """Return the renderer of this plugin; an emitter alone needs no lowering."""
    from wrapperir_opencl.renderer import OpenclRenderer

    return (OpenclRenderer(),)
