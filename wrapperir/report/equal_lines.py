"""Lines that do the same for equal layers of a model, and the paths of such layers."""

import math
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
    paths of modules only.  Lines of the same nodes, such as two buffers of one kernel, are
    not equal to each other, but to those of other layers in their order.
    """
    first: dict[Hashable, int] = {}
    times: dict[Hashable, int] = {}
    found: list[int] = []
    for index, line in enumerate(lines):
        likeness = _likeness(line, table)
        own = likeness, () if line.provenance is None else line.provenance.origins
        times[own] = times.get(own, 0) + 1
        key = index if likeness is None else (likeness, times[own])
        found.append(first.setdefault(key, index))
    return tuple(found)


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


def line_modules(line: BodyLine, table: OriginTable) -> tuple[str, ...]:
    """Return the paths of the modules of the nodes of a line, each once."""
    nodes = table.of(line.provenance)
    return tuple(dict.fromkeys(x.module for x in nodes if x.module is not None))


def join_modules(paths: Iterable[str]) -> str:
    """Return the paths of equal layers as one each: ``layers.0-11.mlp, head``.

    Paths that are some, but not all, of those with several numbers are listed.
    """
    equal: dict[str, dict[str, None]] = {}
    for path in paths:
        equal.setdefault(layer_pattern(path), {})[path] = None
    return ", ".join(_join_layers(list(found)) for found in equal.values())


def _join_layers(paths: Sequence[str]) -> str:
    parts = [path.split(".") for path in paths]
    columns = [list(dict.fromkeys(column)) for column in zip(*parts, strict=True)]
    if math.prod(map(len, columns)) == len(paths):
        return ".".join(map(_join_numbers, columns))
    return ", ".join(paths)


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
