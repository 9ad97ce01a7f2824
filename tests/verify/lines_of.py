"""The lines of a program, definitions and nested blocks included."""

from collections.abc import Iterator

from wrapperir.ir import AnyLine, BodyLine, Program
from wrapperir.ir.blocks import blocks_of


def all_lines(program: Program) -> Iterator[AnyLine]:
    yield from program.definitions
    yield from _nested(program.lines)


def _nested(lines: tuple[BodyLine, ...]) -> Iterator[BodyLine]:
    for line in lines:
        yield line
        for block in blocks_of(line):
            yield from _nested(block.lines)
