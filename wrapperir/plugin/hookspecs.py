"""The hooks a plugin implements.

See ``docs/guides/emitter-plugin.md`` and ``docs/guides/write-a-pass.md``.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pluggy

from wrapperir.emit.contract import Emitter

if TYPE_CHECKING:
    from wrapperir.lowering.renderer import Renderer
    from wrapperir.passes import PassFunction

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


@hookspec
def wrapperir_passes() -> "Mapping[str, PassFunction | str]":
    """Return passes by name: functions, and texts of pipelines."""
    return {}
