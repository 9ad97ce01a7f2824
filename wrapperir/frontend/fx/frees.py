"""Free nodes of a graph, which have no effect there, as valid ``free`` lines."""

from collections.abc import Iterable, Sequence

from attrs import evolve

from wrapperir.ir import Argument, Block, BodyLine, FreeLine, Program
from wrapperir.ir.blocks import rewrite_blocks
from wrapperir.ir.effects import definitions, uses
from wrapperir.ir.mentions import buffers_in


def keep_last_frees(program: Program) -> Program:
    """Return the program without the frees that are not the last use of an owned name.

    A graph may use a value after its free, where something changed it, and may have two
    nodes of one name.  What is left without a free is for ``insert_frees``.
    """
    inputs = {input.name for input in program.inputs}
    return evolve(program, lines=_kept(program.lines, program.outputs, inputs))


def _kept(
    lines: Sequence[BodyLine], results: Iterable[Argument], inputs: set[str]
) -> tuple[BodyLine, ...]:
    owned = inputs.union(name for line in lines for name, _ in definitions(line))
    used = {name for result in results for name in buffers_in(result)}
    backward: list[BodyLine] = []
    for line in reversed(lines):
        if isinstance(line, FreeLine) and (line.buffer in used or line.buffer not in owned):
            continue
        used.update(uses(line))
        backward.append(rewrite_blocks(line, _block))
    return tuple(reversed(backward))


def _block(block: Block) -> Block:
    return evolve(block, lines=_kept(block.lines, block.results, set()))
