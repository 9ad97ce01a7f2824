"""Facts of memory that nodes do not state: access modes and zeroed workspaces."""

from collections.abc import Set
from typing import Any

from attrs import define, evolve, field

from wrapperir.diagnostics import Code
from wrapperir.ir import (
    Access,
    AllocateLine,
    Block,
    BodyLine,
    BufferRef,
    DefinitionLine,
    ExternKernelLine,
    KernelCallLine,
    KernelDefinitionLine,
    MultiKernelLine,
    Parameter,
    PlaceLine,
    Program,
    TensorParameter,
    ZeroMode,
    runtime_parameters,
)
from wrapperir.ir.blocks import rewrite_blocks
from wrapperir.ir.effects import LineEffects, Origin
from wrapperir.verify import verify


def settle_accesses(program: Program, inferred: Set[str]) -> Program:
    """Return the program with the access modes of the kernels ``inferred`` settled.

    A kernel may write only a part of its argument.  So a written argument is read_write
    where its memory has contents, and write where it has none.  Calls that differ in this
    call two definitions.
    """
    settled = _Settled(inferred, {line.name: line for line in program.definitions})
    settled.keep_choices()
    lines = settled.lines(program.lines)
    return evolve(program, definitions=tuple(settled.definitions.values()), lines=lines)


@define(eq=False)
class _Settled:
    inferred: Set[str]
    given: dict[str, DefinitionLine]
    definitions: dict[str, DefinitionLine] = field(factory=dict[str, DefinitionLine])
    effects: LineEffects = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.effects = LineEffects(self.given.values())

    def keep_choices(self) -> None:
        """Keep the kernels that multi-kernels choose from, whose accesses are known."""
        for line in self.given.values():
            if isinstance(line, MultiKernelLine):
                for choice in line.choices:
                    self.definitions[choice.kernel] = self.given[choice.kernel]

    def lines(self, lines: tuple[BodyLine, ...]) -> tuple[BodyLine, ...]:
        """Return the lines of one block, with calls of settled definitions."""
        owner: dict[str, str] = {}
        empty: set[str] = set()
        result: list[BodyLine] = []
        for line in lines:
            if isinstance(line, KernelCallLine):
                result.append(self._call(line, owner, empty))
                continue
            effects = self.effects.visit(line)
            for made in effects.definitions:
                if made.origin is Origin.ALLOCATED:
                    empty.add(made.name)
                elif made.origin is Origin.VIEW and made.source is not None:
                    owner[made.name] = owner.get(made.source, made.source)
            written = [access.name for access in effects.accesses if access.writes]
            empty.difference_update(owner.get(name, name) for name in written)
            result.append(rewrite_blocks(line, self._block))
        return tuple(result)

    def _block(self, block: Block) -> Block:
        return evolve(block, lines=self.lines(block.lines))

    def _call(
        self, line: KernelCallLine, owner: dict[str, str], empty: set[str]
    ) -> KernelCallLine:
        definition = self.given[line.kernel]
        modes: dict[str, Access] = {}
        written: set[str] = set()
        parameters = runtime_parameters(definition.parameters)
        for parameter, argument in zip(parameters, line.arguments, strict=True):
            if not isinstance(parameter, TensorParameter) or not parameter.access.writes:
                continue
            assert isinstance(argument, BufferRef)
            storage = owner.get(argument.name, argument.name)
            written.add(storage)
            fresh = storage in empty
            modes[parameter.name] = Access.WRITE if fresh else Access.READ_WRITE
        empty -= written
        if line.kernel not in self.inferred or not isinstance(
            definition, KernelDefinitionLine
        ):
            self.definitions[line.kernel] = definition
            return line
        return evolve(line, kernel=self._settled(definition, modes))

    def _settled(self, definition: KernelDefinitionLine, modes: dict[str, Access]) -> str:
        parameters = tuple(_with_mode(p, modes) for p in definition.parameters)
        line = evolve(definition, parameters=parameters)
        number = 0
        while (known := self.definitions.get(line.name)) is not None and known != line:
            number += 1
            line = evolve(line, name=f"{definition.name}_{number}")
        self.definitions[line.name] = line
        return line.name


def _with_mode(parameter: Parameter, modes: dict[str, Access]) -> Parameter:
    if isinstance(parameter, TensorParameter) and parameter.name in modes:
        return evolve(parameter, access=modes[parameter.name])
    return parameter


def recover_workspaces(program: Program) -> Program:
    """Return a program in which memory that is zeroed after its allocation is a workspace.

    Nodes do not tell which other memory is a workspace, such as a tensor that the module
    keeps.  Choices that are given such memory no longer ask for a workspace.
    """
    found = evolve(program, lines=_zeroed(program.lines))
    if not any(isinstance(x, MultiKernelLine) for x in found.definitions):
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
        if isinstance(line, MultiKernelLine) and line.name in unmet
        else line
        for line in found.definitions
    )
    return evolve(found, definitions=definitions)


def _zeroed(lines: tuple[BodyLine, ...]) -> tuple[BodyLine, ...]:
    result: list[BodyLine] = []
    for line in lines:
        last = result[-1] if result else None
        if isinstance(last, AllocateLine | PlaceLine) and _zeroes(line, last):
            result[-1] = evolve(last, workspace=ZeroMode.ZERO_ON_CALL)
        else:
            result.append(rewrite_blocks(line, _zero_block))
    return tuple(result)


def _zero_block(block: Block) -> Block:
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
