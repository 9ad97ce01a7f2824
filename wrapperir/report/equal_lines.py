"""Lines that do the same for equal layers of a model, and the paths of such layers."""

import re
from collections.abc import Hashable, Iterable, Sequence

from wrapperir.ir import BodyLine, NodeOrigin, OriginTable
from wrapperir.report.spans import line_head

_NAME = re.compile(r"%\w+")
_OFFSET = re.compile(r" at \d+$")
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


def equal_lines(lines: Sequence[BodyLine], table: OriginTable) -> tuple[int, ...]:
    """Return the index of the first equal line for each line.

    Equal lines come from the same operators at the same places in the source.  They differ
    in the names of values, in the places of buffers in pools, and in the numbers in the
    paths of modules only.
    """
    first: dict[Hashable, int] = {}
    return tuple(
        first.setdefault(_likeness(line, table) or index, index)
        for index, line in enumerate(lines)
    )


def _likeness(line: BodyLine, table: OriginTable) -> Hashable:
    """Return what equal lines have in common; ``None`` for a line without nodes."""
    text = _OFFSET.sub("", _NAME.sub("%", line_head(line)))
    nodes = table.of(line.provenance)
    made = frozenset(
        (each.operator, layer_pattern(each.module or ""), _place(each, table))
        for each in nodes
    )
    if not made:
        return None
    passes = () if line.provenance is None else line.provenance.passes
    return text, made, passes


def _place(node: NodeOrigin, table: OriginTable) -> tuple[str, int] | None:
    place = table.place(node)
    return None if place is None else (place.file, place.line)


def layer_pattern(module: str) -> str:
    """Return the path of a module with stars for numbers: that of all equal layers."""
    return _NUMBER.sub("*", module)


def line_module(line: BodyLine, table: OriginTable) -> str | None:
    """Return the path of the module of the first node of a line that has one."""
    nodes = table.of(line.provenance)
    return next((each.module for each in nodes if each.module is not None), None)


def join_modules(paths: Iterable[str]) -> str:
    """Return the paths of equal layers as one: ``layers.0-11.mlp``.

    Paths that differ in more than one number are listed.
    """
    found = list(dict.fromkeys(paths))
    parts = [path.split(".") for path in found]
    if len({layer_pattern(path) for path in found}) == 1:
        columns = [list(dict.fromkeys(column)) for column in zip(*parts, strict=True)]
        if sum(len(column) > 1 for column in columns) <= 1:
            return ".".join(map(_join_numbers, columns))
    return ", ".join(found)


def _join_numbers(column: Sequence[str]) -> str:
    if len(column) == 1:
        return column[0]
    numbers = sorted(map(int, column))
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in spans)
