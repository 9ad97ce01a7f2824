"""Registers the FX emitter, through the hook that any plugin uses."""

from collections.abc import Sequence

from wrapperir.emit import Emitter
from wrapperir.plugin import hookimpl
from wrapperir_fx.emitter import FxEmitter


@hookimpl
def wrapperir_emitters() -> Sequence[Emitter]:
    """Return the FX emitter."""
    return (FxEmitter(),)
