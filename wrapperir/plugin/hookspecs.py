"""The hooks a plugin implements; see ``docs/guides/emitter-plugin.md``."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pluggy

from wrapperir.emit.contract import Emitter

if TYPE_CHECKING:
    from wrapperir.lowering.renderer import Renderer

PROJECT = "wrapperir"
"""Name of the pluggy project and of the entry-point group."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def wrapperir_emitters() -> Sequence[Emitter]:
    """Return instances of the emitters that the plugin provides."""
    return ()


@hookspec
def wrapperir_renderers() -> "Sequence[Renderer]":
    """Return instances of the renderers of loop nests that the plugin provides."""
    return ()
