"""Registers the emitter and the renderer."""

from collections.abc import Sequence

from wrapperir.emit import Emitter
from wrapperir.lowering.renderer import Renderer
from wrapperir.plugin import hookimpl


@hookimpl
def wrapperir_emitters() -> Sequence[Emitter]:
    """Return the emitter of this plugin."""
    from wrapperir_sim.emitter import SimEmitter

    return (SimEmitter(),)


@hookimpl
def wrapperir_renderers() -> Sequence[Renderer]:
    """Return the renderer of this plugin."""
    from wrapperir_sim.emitter import SimRenderer

    return (SimRenderer(),)
