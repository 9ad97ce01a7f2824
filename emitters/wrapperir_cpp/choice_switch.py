"""A ``switch`` over the launches of a multi-kernel's choices."""

from collections.abc import Mapping

from wrapperir.emit.fragment import Fragment
from wrapperir.emit.source_writer import SourceWriter
from wrapperir_cpp.literals import format_int


def emit_switch(
    writer: SourceWriter, choice: Fragment, launches: Mapping[int, Fragment]
) -> None:
    """Append a ``switch`` that runs the launch of a choice; the last is the default."""
    *others, (number, last) = launches.items()
    writer.emit_line("switch ({}) {{", choice)
    with writer.indented():
        for each, launch in others:
            writer.emit_line("case {}: {}; break;", format_int(each), launch)
        writer.emit_line("default: {};  // {}", last, format_int(number))
    writer.emit_line("}}")
