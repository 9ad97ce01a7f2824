"""Records the line of a program that each line of emitted text is for.

Emission says which line is being emitted, and source writers keep it with each of their
lines while :func:`recording_lines` is active.  So an emitter that walks lines by
:class:`~wrapperir.emit.context.Emission` and writes files by
:class:`~wrapperir.emit.SourceWriter` is recorded without code of its own.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from attrs import define, field

from wrapperir.diagnostics import LinePath


@define
class LineRecord:
    """The path of the line that is being emitted, and the paths of each text so far.

    ``path`` is empty outside lines.  That of a kernel is ``("definitions", NAME)``: an
    emitter may be given other definitions than the program's, in another order.
    """

    path: LinePath = ()
    _texts: dict[str, tuple[LinePath, ...]] = field(
        factory=dict[str, tuple[LinePath, ...]], init=False
    )

    def keep(self, text: str, paths: Sequence[LinePath]) -> None:
        """Keep the path of each line of a text; an empty one is for no line."""
        self._texts[text] = tuple(paths)

    def paths(self, text: str) -> tuple[LinePath, ...]:
        """Return the path of each line of a text; nothing for one that was not kept."""
        return self._texts.get(text, ())


_active: ContextVar[LineRecord | None] = ContextVar("wrapperir_lines", default=None)


def active_record() -> LineRecord | None:
    """Return the record that emission adds to, if there is one."""
    return _active.get()


@contextmanager
def recording_lines() -> Generator[LineRecord]:
    """Record what is emitted until the end of the block."""
    record = LineRecord()
    token = _active.set(record)
    try:
        yield record
    finally:
        _active.reset(token)
