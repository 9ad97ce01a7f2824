"""Recovery of workspaces: memory that is zeroed directly after its allocation."""

from typing import Any, cast

from attrs import evolve

from wrapperir.diagnostics import Code, LinePath
from wrapperir.ir import (
    AllocateLine,
    Block,
    BodyLine,
    BufferRef,
    DefinitionLine,
    ExternKernelLine,
    KernelCallLine,
    KernelChoice,
    MultiKernelLine,
    PlaceLine,
    Program,
    ZeroMode,
)
from wrapperir.ir.blocks import rewrite_blocks
from wrapperir.verify import verify


def recover_workspaces(program: Program) -> Program:
    """Return a program in which memory that is zeroed after its allocation is a workspace.

    Nodes do not tell which other memory is a workspace, such as a tensor that the module
    keeps.  Choices that are given such memory no longer ask for a workspace.
    """
    found = evolve(program, lines=_zeroed(program.lines))
    if not any(isinstance(x, MultiKernelLine) for x in found.definitions):
        return found
    unmet = {
        _line_at(found, diagnostic.path or ()).kernel
        for diagnostic in verify(found)
        if diagnostic.code is Code.WORKSPACE_ARGUMENT
    }
    definitions = tuple(
        _without_needs(line) if line.name in unmet else line for line in found.definitions
    )
    return evolve(found, definitions=definitions)


def _zeroed(lines: tuple[BodyLine, ...]) -> tuple[BodyLine, ...]:
    result: list[BodyLine] = []
    for line in lines:
        last = result[-1] if result else None
        if isinstance(last, AllocateLine | PlaceLine) and _zeroes(line, last):
            result[-1] = evolve(last, workspace=ZeroMode.ZERO_ON_CALL)
        else:
            result.append(rewrite_blocks(line, _block))
    return tuple(result)


def _block(block: Block) -> Block:
    return evolve(block, lines=_zeroed(block.lines))


def _zeroes(line: BodyLine, made: AllocateLine | PlaceLine) -> bool:
    return (
        isinstance(line, ExternKernelLine)
        and line.operator == "aten.zero_.default"
        and line.arguments == (BufferRef(made.result),)
        and line.result is None
        and line.stream == 0
        and made.workspace in (None, ZeroMode.UNINITIALIZED)
    )


def _without_needs(line: DefinitionLine) -> DefinitionLine:
    assert isinstance(line, MultiKernelLine)
    choices: list[KernelChoice] = [evolve(each, workspaces=()) for each in line.choices]
    return evolve(line, choices=tuple(choices))


def _line_at(program: Program, path: LinePath) -> KernelCallLine:
    found: Any = program
    for part in path:
        found = getattr(found, part) if isinstance(part, str) else found[part]
    return cast(KernelCallLine, found)
