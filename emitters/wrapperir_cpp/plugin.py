"""Registers the C++ emitter, through the hook that any plugin uses."""

from collections.abc import Sequence

from wrapperir.emit import Emitter
from wrapperir.plugin import hookimpl
from wrapperir_cpp.emitter import CppEmitter


@hookimpl
def wrapperir_emitters() -> Sequence[Emitter]:
    """Return the C++ emitter."""
    return (CppEmitter(),)
