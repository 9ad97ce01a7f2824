"""Emitted functions of a bounded length: compilers take far longer over one large one."""

from collections.abc import Callable, Iterator, Sequence

from wrapperir.emit import Fragment, NameTable, SourceWriter
from wrapperir.ir import BodyLine
from wrapperir.ir.blocks import blocks_of
from wrapperir_cpp.module_text import source_writer

LENGTH = 25
"""Lines of a program in one function; those of nested blocks count."""


class Chunks:
    """Cuts lists of lines, each into functions that are called one after the other.

    A function takes the call, in which all values are, so any two lines can be parted.
    """

    def __init__(self, names: NameTable) -> None:
        """Start with no functions."""
        self.functions = source_writer()
        self._names = names
        self._count = 0

    def emit(
        self,
        writer: SourceWriter,
        lines: Sequence[BodyLine],
        emit_part: Callable[[SourceWriter, range], None],
    ) -> None:
        """Append lines, or calls of functions with them; ``emit_part`` appends a few."""
        parts = list(_parts(lines))
        if len(parts) <= 1:
            emit_part(writer, range(len(lines)))
            return
        for part in parts:
            name = self._names.claim(f"chunk_{self._count}")
            self._count += 1
            body = source_writer()
            with body.indented():
                emit_part(body, part)
            self._add(name, body)
            writer.emit_line("{}(c);", name)

    def _add(self, name: Fragment, body: SourceWriter) -> None:
        self.functions.emit_line("[[gnu::noinline]] void {}(Call& c) {{", name)
        self.functions.emit_writer(body)
        self.functions.emit_line("}}")
        self.functions.emit_blank()


def _parts(lines: Sequence[BodyLine]) -> Iterator[range]:
    """Yield ranges of lines of about the same length, in functions of their own or not."""
    begin = length = 0
    for index, line in enumerate(lines):
        own = min(_length(line), LENGTH)
        if length and length + own > LENGTH:
            yield range(begin, index)
            begin, length = index, 0
        length += own
    yield range(begin, len(lines))


def _length(line: BodyLine) -> int:
    return 1 + sum(min(sum(map(_length, block.lines)), LENGTH) for block in blocks_of(line))
