"""The lines of a program in order."""

from collections.abc import Iterator

from wrapperir.emit.support import nested_blocks
from wrapperir.ir.line import (
    BodyLine,
    ConditionalLine,
    SubgraphCallLine,
    WhileLoopLine,
)

_NESTING = (ConditionalLine, WhileLoopLine, SubgraphCallLine)


def walk_lines(lines: tuple[BodyLine, ...]) -> Iterator[BodyLine]:
    """Yield each line, then those of its nested blocks, then the next line."""
    stack = [iter(lines)]
    while stack:
        for line in stack[-1]:
            yield line
            if isinstance(line, _NESTING):
                blocks = (block for _, block in nested_blocks(line))
                stack.extend(reversed([iter(block.lines) for block in blocks]))
                break
        else:
            stack.pop()
