"""Remove lines whose results nothing uses."""

from collections.abc import Iterable, Sequence

from attrs import evolve

from wrapperir.ir.blocks import rewrite_blocks
from wrapperir.ir.effects import uses
from wrapperir.ir.line import (
    AllocateLine,
    Argument,
    Block,
    BodyLine,
    ExternKernelLine,
    FreeLine,
    MultiOutputLine,
    ReinterpretLine,
    ReuseLine,
)
from wrapperir.ir.mentions import buffers_in
from wrapperir.ir.program import Program
from wrapperir.passes.operator_effects import may_leave_out


def remove_dead_lines(program: Program) -> Program:
    """Return the program without allocations, views and operator calls nobody uses.

    Before::

        program @main(%x: f32[8]) {
          %buf0 = allocate f32[8]
          %buf1 = extern_kernel aten.relu.default(%x) : f32[8]
          %view0 = reinterpret %buf1 as f32[4]
          free %buf0
          free %buf1
          free %view0
          comment "x goes back as it came"
          return %x
        }

    After::

        program @main(%x: f32[8]) {
          comment "x goes back as it came"
          return %x
        }

    Being freed is no use.  An operator call stays if it writes to an argument, advances
    a random generator, checks something, or is not one of PyTorch's own; so do kernel
    calls, symbol definitions, asserts, comments and lines with blocks.  A ``reuse``
    whose result is dead becomes a ``free`` of its source.
    """
    return evolve(program, lines=_without_dead(program.lines, program.outputs))


def _without_dead(
    lines: Sequence[BodyLine], results: Iterable[Argument]
) -> tuple[BodyLine, ...]:
    live = {name for result in results for name in buffers_in(result)}
    removed: set[str] = set()
    backward: list[BodyLine] = []
    for line in reversed(lines):
        if isinstance(line, FreeLine):
            backward.append(line)
            continue
        result = _removable_result(line)
        if result is not None and result not in live:
            removed.add(result)
            if isinstance(line, ReuseLine):
                backward.append(FreeLine(buffer=line.source, provenance=line.provenance))
            continue
        live.update(uses(line))
        backward.append(rewrite_blocks(line, _block))
    return tuple(
        line
        for line in reversed(backward)
        if not (isinstance(line, FreeLine) and line.buffer in removed)
    )


def _removable_result(line: BodyLine) -> str | None:
    """Return the one name that ``line`` is there for, if it is for nothing else."""
    match line:
        case AllocateLine() | ReinterpretLine() | ReuseLine() | MultiOutputLine():
            return line.result
        case ExternKernelLine(writes=()) if may_leave_out(line.operator):
            return line.result
        case _:
            return None


def _block(block: Block) -> Block:
    return evolve(block, lines=_without_dead(block.lines, block.results))
