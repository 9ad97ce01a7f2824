"""Rewriting the blocks that a line owns."""

from collections.abc import Callable

from attrs import evolve

from wrapperir.ir.line import (
    Block,
    BodyLine,
    ConditionalLine,
    SubgraphCallLine,
    WhileLoopLine,
)


def rewrite_blocks(line: BodyLine, rewrite: Callable[[Block], Block]) -> BodyLine:
    """Return ``line`` with ``rewrite`` applied to each block it owns, if it owns any."""
    match line:
        case ConditionalLine():
            return evolve(
                line, on_true=rewrite(line.on_true), on_false=rewrite(line.on_false)
            )
        case WhileLoopLine():
            return evolve(line, condition=rewrite(line.condition), body=rewrite(line.body))
        case SubgraphCallLine():
            return evolve(line, body=rewrite(line.body))
        case _:
            return line
