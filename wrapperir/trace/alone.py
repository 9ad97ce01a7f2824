"""Lines of one run that write what the other run does not."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from wrapperir import ir as wir
from wrapperir.diagnostics import LinePath
from wrapperir.ir.blocks import parts_on, walk_places
from wrapperir.report import line_head
from wrapperir.trace.pairs import Mark


def lines_alone(
    marks: Iterable[Mark],
    program: wir.Program,
    alone: Sequence[Mark],
    other: wir.Program,
    others_alone: Sequence[Mark],
) -> tuple[LinePath, ...]:
    """Return the lines of ``marks``, of a run of ``program``, that ``other`` has not.

    ``alone`` are the marks of the run without a partner, ``others_alone`` those of the run
    of ``other``.  Left out are lines that ``other`` has as often, and those that wrote the
    same bits there under another name, as after a pass.
    """
    texts = _texts(program) - _texts(other)
    digests = {mark.digest for mark in others_alone if mark.digest}
    places = {mark.place for mark in alone}
    found: dict[LinePath, bool] = {}
    for mark in marks:
        if mark.place in places and mark.point.path[0] == "lines":
            is_new = not mark.digest or mark.digest not in digests
            found[mark.point.path] = found.get(mark.point.path, False) or is_new
    kept: list[LinePath] = []
    for path, is_new in found.items():
        text = line_text(program, path)
        if is_new and texts[text] > 0:
            texts[text] -= 1
            kept.append(path)
    return tuple(kept)


def _texts(program: wir.Program) -> Counter[str]:
    return Counter(line_head(line) for line, _ in walk_places(program.lines))


def line_text(program: wir.Program, path: LinePath) -> str:
    """Return the text of the line at a path, without its blocks and provenance."""
    *_, line = parts_on(program, path)
    return line_head(cast(wir.AnyLine, line))


def marks_until(marks: Sequence[Mark], end: Mark) -> Iterator[Mark]:
    """Yield the marks of a run before ``end``."""
    return itertools.takewhile(lambda mark: mark.place != end.place, marks)
