"""Counts the kernels and calls of dumped programs that name no origin in the source."""

from collections.abc import Iterable
from pathlib import Path

from attrs import frozen

from bench.results import Record
from wrapperir.ir import (
    ExternKernelLine,
    GraphRegionLine,
    KernelCallLine,
    OriginTable,
    Program,
)
from wrapperir.ir.blocks import walk_lines
from wrapperir.text import parse_program


@frozen
class OriginCount:
    """The launches of programs, and how many of them name no place.

    Launches are calls of kernels and operators, and graph regions.  ``unnamed`` are those
    without an origin that the program lists.  ``placeless`` are those that have origins,
    but no origin with a place.
    """

    calls: int = 0
    unnamed: int = 0
    placeless: int = 0

    def __add__(self, other: "OriginCount") -> "OriginCount":
        """Return the sum of two counts."""
        return OriginCount(
            self.calls + other.calls,
            self.unnamed + other.unnamed,
            self.placeless + other.placeless,
        )


def count_origins(program: Program) -> OriginCount:
    """Return the count of a program."""
    table, count = OriginTable(program), OriginCount()
    for line in walk_lines(program.lines):
        if isinstance(line, KernelCallLine | ExternKernelLine | GraphRegionLine):
            origins = table.of(line.provenance)
            has_place = any(table.place(origin) is not None for origin in origins)
            count += OriginCount(1, not origins, bool(origins) and not has_place)
    return count


def count_dumped(folder: Path) -> OriginCount:
    """Return the count of the programs that ``dump_dir`` has."""
    count = OriginCount()
    for path in sorted(folder.rglob("program.wir")):
        count += count_origins(parse_program(path.read_text()))
    return count


def describe_origins(records: Iterable[Record], calls: str) -> str:
    """Return how many calls name no origin; empty for records without counts.

    ``calls`` is the field of the records that has the number of all.
    """
    records = list(records)
    total, unnamed, placeless = (
        sum(int(record.get(field) or 0) for record in records)
        for field in (calls, "unnamed", "placeless")
    )
    if not total:
        return ""
    return (
        f" Of {total} launches and operator calls of their programs, {unnamed} name no node"
        f" of the graph, and {placeless} only nodes without a place in the source."
    )
