"""The lines of a program in order."""

from collections.abc import Iterator

from wrapperir.ir.line import (
    BodyLine,
    ConditionalLine,
    SubgraphCallLine,
    WhileLoopLine,
)
from wrapperir.ir.uses import blocks_of

_NESTING = (ConditionalLine, WhileLoopLine, SubgraphCallLine)


def walk_lines(lines: tuple[BodyLine, ...]) -> Iterator[BodyLine]:
    """Yield each line, then those of its nested blocks, then the next line."""
    stack = [iter(lines)]
    while stack:
        for line in stack[-1]:
            yield line
            if isinstance(line, _NESTING):
                stack.extend(reversed([iter(block.lines) for block in blocks_of(line)]))
                break
        else:
            stack.pop()
