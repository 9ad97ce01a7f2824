"""Faulty programs, and the common forms of injectors, which put a fault into a program."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import TypeVar

from attrs import evolve, frozen

from wrapperir.diagnostics import Code, LinePath
from wrapperir.ir import (
    AllocateLine,
    BodyLine,
    DefinitionLine,
    EventType,
    FreeLine,
    Program,
    ZeroMode,
)
from wrapperir.ir.line_effects import definitions, drops

T = TypeVar("T")
D = TypeVar("D", bound=DefinitionLine)


@frozen
class Faulty:
    """A program with one fault: the code it must be found by, on the line at ``path``."""

    program: Program
    code: Code
    path: LinePath


@frozen
class Injector:
    """A kind of fault.

    ``inject`` puts it in a place that is drawn, or raises a :class:`NoPlaceError`.
    """

    inject: Callable[[Program, Random], Faulty]


class NoPlaceError(Exception):
    """The program has no place for a fault of this kind."""


def places_of(program: Program, kind: type[T]) -> Iterator[tuple[int, T]]:
    """Yield the lines of a kind with their indices."""
    for index, line in enumerate(program.lines):
        if isinstance(line, kind):
            yield index, line


def definitions_of(program: Program, kind: type[T]) -> Iterator[tuple[int, T]]:
    """Yield the definitions of a kind with their indices."""
    for index, line in enumerate(program.definitions):
        if isinstance(line, kind):
            yield index, line


def choose(options: Iterable[T], rng: Random) -> T:
    """Return one of the options.

    Raises:
        NoPlaceError: there are none.
    """
    listed = list(options)
    if not listed:
        raise NoPlaceError
    return rng.choice(listed)


def with_lines(
    program: Program, index: int, *lines: BodyLine, replacing: int = 1
) -> Program:
    """Return the program with lines in place of some of its own."""
    before, after = program.lines[:index], program.lines[index + replacing :]
    return evolve(program, lines=(*before, *lines, *after))


def with_definition(program: Program, index: int, line: DefinitionLine) -> Program:
    """Return the program with another definition at an index, or one more at the end."""
    before, after = program.definitions[:index], program.definitions[index + 1 :]
    return evolve(program, definitions=(*before, line, *after))


def at_line(program: Program, code: Code, index: int) -> Faulty:
    """Return the fault of a line of the program's own block."""
    return Faulty(program, code, ("lines", index))


def at_start(program: Program, code: Code, *lines: BodyLine) -> Faulty:
    """Put lines, the last of them at fault, before a program; free what they define."""
    changed = with_lines(program, 0, *lines, *frees_of(lines), replacing=0)
    return at_line(changed, code, len(lines) - 1)


def frees_of(lines: Sequence[BodyLine]) -> tuple[FreeLine, ...]:
    """Return lines that free what ``lines`` define and do not drop."""
    owned = {
        name: None
        for line in lines
        for name, type in definitions(line)
        if not isinstance(type, EventType) and not _is_kept(line)
    }
    for line in lines:
        owned.pop(drops(line) or "", None)
    return tuple(FreeLine(buffer=name) for name in owned)


def _is_kept(line: BodyLine) -> bool:
    if not isinstance(line, AllocateLine):
        return False
    return line.workspace is ZeroMode.ZERO_PER_PROGRAM


def line_fault(
    kind: type[T],
    code: Code,
    change: Callable[[T, Random], Sequence[BodyLine]],
    *,
    at: int = 0,
    where: Callable[[T], bool] = lambda _: True,
) -> Injector:
    """Return an injector that changes a line of a kind.

    ``change`` returns the lines in its place; the one at index ``at`` has the fault.
    """

    def inject(program: Program, rng: Random) -> Faulty:
        places = ((i, line) for i, line in places_of(program, kind) if where(line))
        index, line = choose(places, rng)
        changed = with_lines(program, index, *change(line, rng))
        return at_line(changed, code, index + at)

    return Injector(inject)


def definition_fault(
    kind: type[D],
    code: Code,
    change: Callable[[D], D],
    *part: str | int,
    where: Callable[[D], bool] = lambda _: True,
) -> Injector:
    """Return an injector that changes a definition; the fault is in a part of it."""

    def inject(program: Program, rng: Random) -> Faulty:
        places = ((i, line) for i, line in definitions_of(program, kind) if where(line))
        index, line = choose(places, rng)
        changed = with_definition(program, index, change(line))
        return Faulty(changed, code, ("definitions", index, *part))

    return Injector(inject)


def added_definition(program: Program, code: Code, line: DefinitionLine) -> Faulty:
    """Return the fault of one definition more."""
    count = len(program.definitions)
    return Faulty(with_definition(program, count, line), code, ("definitions", count))
