"""Make buffers in pools buffers of their own."""

from collections.abc import Sequence
from typing import Any

from attrs import evolve

from wrapperir import ir as wir
from wrapperir.ir.blocks import nested_blocks, walk_lines
from wrapperir.ir.line_effects import program_effects, value_types

_OPERANDS = ("operands", "carried", "invariant")


def open_pools(program: wir.Program) -> wir.Program:
    """Return the program with an ``allocate`` for each buffer that is placed in a pool.

    Before::

        program @main(%x: f32[8]) {
          %pool = allocate_pool pool[64]
          %buf0 = place f32[8] in %pool at 32
          extern_kernel aten.relu.out(%x, out = %buf0) writes(%buf0)
          free %pool
          return %buf0
        }

    After::

        program @main(%x: f32[8]) {
          %buf0 = allocate f32[8]
          extern_kernel aten.relu.out(%x, out = %buf0) writes(%buf0)
          return %buf0
        }

    Blocks are no longer lent pools.  The partition of a program runs this pass, because a
    pool cannot be passed from one part to another.  Linear in the program.
    """
    if not any(
        isinstance(line, wir.AllocatePoolLine) for line in walk_lines(program.lines)
    ):
        return program
    types = value_types(program, program_effects(program))
    pools = {name for name, type in types.items() if isinstance(type, wir.PoolType)}
    return evolve(program, lines=_opened(program.lines, pools))


def _opened(lines: Sequence[wir.BodyLine], pools: set[str]) -> tuple[wir.BodyLine, ...]:
    made: list[wir.BodyLine] = []
    for line in lines:
        if isinstance(line, wir.PlaceLine):
            if isinstance(line.type, wir.TensorType):
                made.append(
                    wir.AllocateLine(
                        result=line.result,
                        type=line.type,
                        workspace=line.workspace,
                        provenance=line.provenance,
                    )
                )
        elif isinstance(line, wir.FreeLine):
            if line.buffer not in pools:
                made.append(line)
        elif not isinstance(line, wir.AllocatePoolLine):
            made.append(_without_operands(line, pools))
    return tuple(made)


def _without_operands(line: wir.BodyLine, pools: set[str]) -> wir.BodyLine:
    """Return a line whose blocks take no pools."""
    blocks = nested_blocks(line)
    if not blocks:
        return line
    changes: dict[str, Any] = {}
    for name in _OPERANDS:
        operands: tuple[wir.KernelArgument, ...] = getattr(line, name, ())
        kept = tuple(x for x in operands if not _is_pool(x, pools))
        if kept != operands:
            changes[name] = kept
    for name, block in blocks:
        parameters = tuple(p for p in block.parameters if p.name not in pools)
        opened = _opened(block.lines, pools)
        changes[name] = evolve(block, parameters=parameters, lines=opened)
    return evolve(line, **changes)


def _is_pool(argument: wir.KernelArgument, pools: set[str]) -> bool:
    return isinstance(argument, wir.BufferRef) and argument.name in pools
