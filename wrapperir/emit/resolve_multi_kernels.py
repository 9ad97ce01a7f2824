"""Programs without multi-kernels, for emitters that do not pick while a program runs."""

from collections.abc import Mapping

from attrs import evolve

from wrapperir.emit.runnable_kernels import runnable_kernels, value_types
from wrapperir.ir import (
    Block,
    BodyLine,
    DefinitionLine,
    KernelCallLine,
    KernelDefinitionLine,
    MultiKernelLine,
    Program,
    ValueType,
)
from wrapperir.ir.blocks import walk_lines


def resolve_multi_kernels(program: Program) -> Program:
    """Return a verified program whose calls name the kernels that they run.

    Where only the run knows the choice of a multi-kernel, that is the first of those that
    the call may run: all choices do the same.  Choices that no call runs are left out.
    """
    multi_kernels = [x for x in program.definitions if isinstance(x, MultiKernelLine)]
    if not multi_kernels:
        return program
    known = {line.name: line for line in program.definitions}
    lines = _settled(program.lines, known, value_types(program))
    called = {x.kernel for x in walk_lines(lines) if isinstance(x, KernelCallLine)}
    idle = {choice.kernel for x in multi_kernels for choice in x.choices} - called
    kernels = tuple(
        line
        for line in program.definitions
        if isinstance(line, KernelDefinitionLine) and line.name not in idle
    )
    return evolve(program, definitions=kernels, lines=lines)


def _settled(
    lines: tuple[BodyLine, ...],
    known: Mapping[str, DefinitionLine],
    types: Mapping[str, ValueType],
) -> tuple[BodyLine, ...]:
    from wrapperir.ir.blocks import rewrite_blocks  # loaded late: all passes

    def block(given: Block) -> Block:
        return evolve(given, lines=_settled(given.lines, known, types))

    return tuple(
        [
            _call(line, known, types)
            if isinstance(line, KernelCallLine)
            else rewrite_blocks(line, block)
            for line in lines
        ]
    )


def _call(
    line: KernelCallLine,
    known: Mapping[str, DefinitionLine],
    types: Mapping[str, ValueType],
) -> KernelCallLine:
    kernels = runnable_kernels(known, line, types).kernels
    chosen = kernels[min(kernels)]
    if chosen.kernel.name == line.kernel:
        return line
    arguments = line.arguments
    if chosen.positions is not None:
        arguments = tuple([arguments[position] for position in chosen.positions])
    return evolve(line, kernel=chosen.kernel.name, arguments=arguments)
