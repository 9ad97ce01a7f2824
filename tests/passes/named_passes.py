"""Programs without the names of passes in their lines."""

from typing import Any

from attrs import evolve

from wrapperir.ir import Block, BodyLine, Program
from wrapperir.ir.blocks import rewrite_blocks


def without_passes(program: Program) -> Program:
    """Return a program where no line names a pass."""

    def stripped(line: Any) -> Any:
        provenance = line.provenance
        if provenance is None:
            return line
        kept = evolve(provenance, passes=())
        return evolve(line, provenance=kept if kept.origins else None)

    def body(lines: tuple[BodyLine, ...]) -> tuple[BodyLine, ...]:
        def block(inner: Block) -> Block:
            return evolve(inner, lines=body(inner.lines))

        return tuple(rewrite_blocks(stripped(line), block) for line in lines)

    return evolve(
        program,
        definitions=tuple(map(stripped, program.definitions)),
        symbols=tuple(map(stripped, program.symbols)),
        lines=body(program.lines),
    )
