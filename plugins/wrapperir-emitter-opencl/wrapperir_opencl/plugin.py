"""Registers the emitter and the renderer."""

from collections.abc import Sequence

from wrapperir.emit import Emitter
from wrapperir.lowering.renderer import Renderer
from wrapperir.plugin import hookimpl
from wrapperir_opencl.emitter import OpenclEmitter
from wrapperir_opencl.renderer import OpenclRenderer


@hookimpl
def wrapperir_emitters() -> Sequence[Emitter]:
    """Return the emitter of this plugin."""
    return (OpenclEmitter(),)


@hookimpl
def wrapperir_renderers() -> Sequence[Renderer]:
    """Return the renderer of this plugin."""
    return (OpenclRenderer(),)
