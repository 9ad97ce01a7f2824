"""Facts of memory that nodes do not state: access modes and zeroed workspaces."""

from collections.abc import Sequence, Set
from functools import partial
from typing import Any

from attrs import define, evolve, field

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.ir.blocks import rewrite_blocks
from wrapperir.ir.effects import Origin
from wrapperir.ir.line_effects import LineEffects
from wrapperir.verify import verify


def settle_accesses(program: wir.Program, inferred: Set[str]) -> wir.Program:
    """Return the program with the access modes of the kernels ``inferred`` settled.

    A kernel may write only a part of its argument.  So a written argument is read_write
    where its memory has contents, and write where it has none.  Calls that differ in this
    have different definitions.
    """
    settled = _Settled(inferred, {line.name: line for line in program.definitions})
    for line in program.definitions:
        if isinstance(line, wir.MultiKernelLine):  # the accesses of choices are known
            for choice in line.choices:
                settled.definitions[choice.kernel] = settled.given[choice.kernel]
    lines, _ = settled.lines(program.lines)
    return evolve(program, definitions=tuple(settled.definitions.values()), lines=lines)


@define(eq=False)
class _Settled:
    inferred: Set[str]
    given: dict[str, wir.DefinitionLine]
    definitions: dict[str, wir.DefinitionLine] = field(
        factory=dict[str, wir.DefinitionLine]
    )
    effects: LineEffects = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.effects = LineEffects(self.given.values())

    def lines(
        self, lines: tuple[wir.BodyLine, ...]
    ) -> tuple[tuple[wir.BodyLine, ...], frozenset[str]]:
        """Return the lines of one block, with settled calls, and the storages it writes."""
        owner: dict[str, str] = {}
        empty: set[str] = set()
        written: set[str] = set()
        result: list[wir.BodyLine] = []
        for line in lines:
            effects = self.effects.visit(line)
            for made in effects.definitions:
                if made.origin is Origin.ALLOCATED:
                    empty.add(made.name)
                elif made.origin is Origin.VIEW and made.source is not None:
                    owner[made.name] = owner.get(made.source, made.source)
            names = {access.name for access in effects.accesses if access.writes}
            if effects.blocks:
                names.clear()
                # All blocks of a line have the same operands.
                operands = effects.blocks[0].operands
                line = rewrite_blocks(line, partial(self._block, operands, names))
            if isinstance(line, wir.KernelCallLine):
                line = self._call(line, {n for n in names if owner.get(n, n) in empty})
            storages = {owner.get(name, name) for name in names}
            empty -= storages
            written |= storages
            result.append(line)
        return tuple(result), frozenset(written)

    def _block(
        self, operands: Sequence[wir.KernelArgument], names: set[str], block: wir.Block
    ) -> wir.Block:
        """Return a block with settled calls; add the operands that it writes."""
        lines, written = self.lines(block.lines)
        for parameter, operand in zip(block.parameters, operands, strict=True):
            if parameter.name in written and isinstance(operand, wir.BufferRef):
                names.add(operand.name)
        return evolve(block, lines=lines)

    def _call(self, line: wir.KernelCallLine, fresh: set[str]) -> wir.KernelCallLine:
        """Return a call of a settled kernel; ``fresh`` names memory without contents."""
        definition = self.given[line.kernel]
        if line.kernel not in self.inferred or not isinstance(
            definition, wir.KernelDefinitionLine
        ):
            self.definitions[line.kernel] = definition
            return line
        parameters = wir.runtime_parameters(definition.parameters)
        modes = {
            parameter.name: wir.Access.WRITE
            if argument.name in fresh
            else wir.Access.READ_WRITE
            for parameter, argument in zip(parameters, line.arguments, strict=True)
            if isinstance(parameter, wir.TensorParameter) and parameter.access.writes
            if isinstance(argument, wir.BufferRef)
        }
        settled = evolve(
            definition,
            parameters=tuple(
                evolve(p, access=modes[p.name])
                if isinstance(p, wir.TensorParameter) and p.name in modes
                else p
                for p in definition.parameters
            ),
        )
        number = 0
        while self.definitions.get(settled.name, settled) != settled:
            number += 1
            settled = evolve(settled, name=f"{definition.name}_{number}")
        self.definitions[settled.name] = settled
        return evolve(line, kernel=settled.name)


def recover_workspaces(program: wir.Program) -> wir.Program:
    """Return the program with memory that is zeroed after its allocation as workspaces.

    Nodes do not tell that other memory is a workspace, such as a tensor that the module
    keeps.  Choices that are given such memory no longer ask for a workspace.
    """
    found = evolve(program, lines=_zeroed(program.lines))
    if not any(isinstance(x, wir.MultiKernelLine) for x in found.definitions):
        return found
    unmet: set[str] = set()
    for diagnostic in verify(found):
        if diagnostic.code is Code.WORKSPACE_ARGUMENT:
            line: Any = found
            for part in diagnostic.path or ():
                line = getattr(line, part) if isinstance(part, str) else line[part]
            unmet.add(line.kernel)
    definitions = tuple(
        evolve(line, choices=tuple(evolve(each, workspaces=()) for each in line.choices))
        if isinstance(line, wir.MultiKernelLine) and line.name in unmet
        else line
        for line in found.definitions
    )
    return evolve(found, definitions=definitions)


def _zeroed(lines: tuple[wir.BodyLine, ...]) -> tuple[wir.BodyLine, ...]:
    result: list[wir.BodyLine] = []
    at, made = 0, None  # the last memory made, which only frees follow
    for line in lines:
        if made is not None and _zeroes(line, made):
            result[at] = made = evolve(made, workspace=wir.ZeroMode.ZERO_ON_CALL)
            continue
        if isinstance(line, wir.AllocateLine | wir.PlaceLine):
            at, made = len(result), line
        elif not isinstance(line, wir.FreeLine):
            made = None
        result.append(rewrite_blocks(line, _zero_block))
    return tuple(result)


def _zero_block(block: wir.Block) -> wir.Block:
    return evolve(block, lines=_zeroed(block.lines))


def _zeroes(line: wir.BodyLine, made: wir.AllocateLine | wir.PlaceLine) -> bool:
    return (
        isinstance(line, wir.ExternKernelLine)
        and line.operator == "aten.zero_.default"
        and line.arguments == (wir.BufferRef(made.result),)
        and line.result is None
        and line.stream == 0
        and made.workspace in (None, wir.ZeroMode.UNINITIALIZED)
    )
