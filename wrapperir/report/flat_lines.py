"""The lines of a program and its nested blocks, one after the other."""

from collections.abc import Mapping

from attrs import evolve, field, frozen

from wrapperir.analysis import BlockMemory, ProgramMemory
from wrapperir.diagnostics import LinePath, Position
from wrapperir.ir import BodyLine, Provenance
from wrapperir.ir.blocks import nested_blocks
from wrapperir.report.timeline import TimelineLine
from wrapperir.text import format_line


@frozen
class FlatLines:
    """Lines in the order of the text, and the indices of each block's lines.

    ``starts`` has an index for each line of a block, and one more for where it ends.
    """

    lines: tuple[TimelineLine, ...]
    bodies: tuple[BodyLine, ...]
    starts: Mapping[LinePath, list[int]] = field(factory=dict[LinePath, list[int]])


def flatten(memory: ProgramMemory, positions: Mapping[LinePath, Position]) -> FlatLines:
    """Return the lines with their numbers in the text that ``positions`` are of."""
    lines: list[TimelineLine] = []
    bodies: list[BodyLine] = []
    starts: dict[LinePath, list[int]] = {}

    def visit(block: BlockMemory, depth: int) -> None:
        own = starts[block.path] = list[int]()
        for index, line in enumerate(block.lines):
            own.append(len(lines))
            path = (*block.path, "lines", index)
            number = positions[path].line
            lines.append(TimelineLine(number=number, text=_head(line), depth=depth))
            bodies.append(line)
            for name, _ in nested_blocks(line):
                visit(memory.blocks[*path, name], depth + 1)
        own.append(len(lines))

    visit(memory.top, 0)
    return FlatLines(tuple(lines), tuple(bodies), starts)


def _head(line: BodyLine) -> str:
    text = format_line(evolve(line, provenance=None))
    return text.partition("\n")[0].strip().removesuffix(" {")


def format_provenance(provenance: Provenance | None) -> str:
    """Return where a line came from: ``model.py:7, aten.mm.default, mm_1 and 3 more``."""
    if provenance is None:
        return ""
    parts = list[str]()
    if (location := provenance.location) is not None:
        parts.append(f"{location.file}:{location.line}")
    if provenance.operator is not None:
        parts.append(provenance.operator)
    if provenance.nodes:
        more = len(provenance.nodes) - 1
        parts.append(provenance.nodes[0] + (f" and {more} more" if more else ""))
    return ", ".join(parts)
