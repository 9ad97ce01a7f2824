"""Programs under the names of the user's functions, modules and arguments."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from attrs import evolve, frozen

from wrapperir.ir import Program, SymbolDefinitionLine
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.line_effects import value_names
from wrapperir.ir.renaming import rename_program

_LONGEST = 200
"""Characters that are kept of a name."""


@frozen
class ProgramNames:
    """A name for a program, and names for some of its values by those that they have.

    ``paths`` are those of inputs in the user's model, by the same names, and ``tied`` other
    paths of these.
    """

    program: str | None = None
    values: Mapping[str, str] = MappingProxyType({})
    paths: Mapping[str, str] = MappingProxyType({})
    tied: Mapping[str, tuple[str, ...]] = MappingProxyType({})


def identifier_of(text: str) -> str | None:
    """Return a text as an identifier: ``fc_weight`` for ``fc.weight``.

    ``None``: it has neither letters nor digits.
    """
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")[:_LONGEST]
    return f"_{name}" if name[:1].isdigit() else name or None


def name_program(program: Program, names: ProgramNames) -> Program:
    """Return the same program under other names.

    A name that is not an identifier is made one, and two equal ones differ by a number.
    Values that have no new name keep theirs.
    """
    wanted = {
        old: name
        for old in dict.fromkeys(value_names(program))
        if (name := identifier_of(names.values.get(old, ""))) is not None
    }
    taken = {name for name in value_names(program) if name not in wanted}
    for line in (*program.symbols, *walk_lines(program.lines)):
        if isinstance(line, SymbolDefinitionLine):
            taken.add(line.symbol)
    given: dict[str, str] = {}
    for old, name in wanted.items():
        unique, number = name, 1
        while unique in taken:
            unique, number = f"{name}_{number}", number + 1
        taken.add(unique)
        given[old] = unique
    named = evolve(
        program,
        name=identifier_of(names.program or "") or program.name,
        inputs=tuple(
            [
                evolve(
                    x,
                    path=names.paths.get(x.name, x.path),
                    tied=names.tied.get(x.name, x.tied),
                )
                for x in program.inputs
            ]
        ),
    )
    return rename_program(named, lambda name: given.get(name, name)) if given else named
