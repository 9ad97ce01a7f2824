"""Programs as text, cut by a given set of lines, and parts run by the interpreter."""

from collections.abc import Collection, Mapping
from typing import Any

import torch
from attrs import frozen

from wrapperir.emit import Loaded, Value
from wrapperir.emit.partition.cut import Cut, cut_lines
from wrapperir.emit.partition.dependencies import order_lines
from wrapperir.emit.partition.driver import PartitionedProgram
from wrapperir.emit.partition.part_builder import Parts, ProgramPart, build_parts
from wrapperir.emit.partition.values import describe
from wrapperir.interp import interpret
from wrapperir.ir import Program
from wrapperir.passes import open_pools
from wrapperir.text import format_line, format_program, parse_program
from wrapperir.verify import verify


@frozen
class CutProgram:
    """A program, its cut, and the parts of that."""

    program: Program
    cut: Cut
    parts: Parts

    @property
    def every(self) -> tuple[ProgramPart, ...]:
        """The entry, if there is one, and the parts."""
        first = () if self.parts.entry is None else (self.parts.entry,)
        return (*first, *self.parts.parts)

    def lines(self) -> list[list[str]]:
        """Return the lines of each part as text."""
        return [[format_line(x) for x in part.program.lines] for part in self.parts.parts]

    def run(
        self, inputs: list[Value], constants: Mapping[str, torch.Tensor]
    ) -> tuple[Any, ...]:
        """Interpret the parts, one after the other."""

        def loaded(part: ProgramPart) -> Loaded:
            keys = [constant.key for constant in part.program.constants]
            held = {key: constants[key] for key in keys}
            return lambda given: interpret(part.program, given, held)

        kept = self.parts.plan.constants.items()
        return PartitionedProgram(
            self.parts.plan,
            [loaded(part) for part in self.every],
            {key: constants[name] for key, name in kept},
        )(inputs)


def cut(
    program: Program, lacking: Collection[int], *, checks_inputs: bool = False
) -> CutProgram:
    """Return a program that is cut so that the ``lacking`` lines are the fallback's."""
    opened = open_pools(program)
    values = describe(opened)
    order = order_lines(values, frozenset())
    found = cut_lines(values, order, frozenset(lacking) & frozenset(order.placed))
    parts = build_parts(values, found, checks_inputs=checks_inputs)
    made = CutProgram(opened, found, parts)
    for part in made.every:
        problems = verify(part.program)
        assert problems == (), f"{problems}\n{format_program(part.program)}"
    return made


def read(lines: str, signature: str = "%x: f32[8]", before: str = "") -> Program:
    """Return the verified program of some lines."""
    text = f"wrapperir 1\n{before}\nprogram @main({signature}) {{\n{lines}\n}}\n"
    program = parse_program(text)
    assert verify(program) == ()
    return program


def calls_of(program: Program, name: str) -> set[int]:
    """Return the lines whose text has a name."""
    return {index for index, line in enumerate(program.lines) if name in format_line(line)}
