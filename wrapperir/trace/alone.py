"""Lines of one run that write what the other run does not."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from wrapperir import ir as wir
from wrapperir.diagnostics import LinePath
from wrapperir.ir.blocks import parts_on
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
    of ``other``.  A line has a partner among these if it is the same line, or wrote the
    same bits under another name, as after a pass.
    """
    lines = dict.fromkeys(mark.point.path for mark in others_alone)
    texts = Counter(line_text(other, path) for path in lines if path[0] == "lines")
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
        if texts[text]:
            texts[text] -= 1
        elif is_new:
            kept.append(path)
    return tuple(kept)


def line_text(program: wir.Program, path: LinePath) -> str:
    """Return the text of the line at a path, without its blocks and provenance."""
    *_, line = parts_on(program, path)
    return line_head(cast(wir.AnyLine, line))


def marks_until(marks: Sequence[Mark], end: Mark) -> Iterator[Mark]:
    """Yield the marks of a run before ``end``."""
    return itertools.takewhile(lambda mark: mark.place != end.place, marks)
