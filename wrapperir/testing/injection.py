"""Faulty programs, and functions that pick and change lines to make them."""

import random
from collections.abc import Iterator
from typing import TypeVar

from attrs import evolve, frozen

from wrapperir.diagnostics import Code, LinePath
from wrapperir.ir import BodyLine, Program
from wrapperir.ir.effects import definitions

L = TypeVar("L")


@frozen
class Faulty:
    """A program with one fault: the code it must be found by, on the line at ``path``."""

    program: Program
    code: Code
    path: LinePath


def places_of(program: Program, kind: type[L]) -> Iterator[tuple[int, L]]:
    """Yield the lines of a kind with their indices."""
    for index, line in enumerate(program.lines):
        if isinstance(line, kind):
            yield index, line


def choose(places: Iterator[L], rng: random.Random) -> L | None:
    """Pick one, or return ``None`` where there is none."""
    options = list(places)
    return rng.choice(options) if options else None


def with_lines(
    program: Program, index: int, *lines: BodyLine, replacing: int = 1
) -> Program:
    """Return the program with lines in place of some of its own."""
    before, after = program.lines[:index], program.lines[index + replacing :]
    return evolve(program, lines=(*before, *lines, *after))


def at_line(program: Program, code: Code, index: int) -> Faulty:
    """Return the fault of a line of the program's own."""
    return Faulty(program, code, ("lines", index))


def definition_places(program: Program) -> dict[str, int]:
    """Return the index of the line that defines each name."""
    return {
        name: index
        for index, line in enumerate(program.lines)
        for name, _ in definitions(line)
    }
