"""Registers the Python emitter, through the hook that any plugin uses."""

from collections.abc import Sequence

from wrapperir.emit import Emitter
from wrapperir.plugin import hookimpl
from wrapperir_python.emitter import PythonEmitter


@hookimpl
def wrapperir_emitters() -> Sequence[Emitter]:
    """Return the Python emitter."""
    return (PythonEmitter(),)
