"""Programs with lines of ours between their own lines, and their code."""

from collections.abc import Generator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any, TypeVar

from attrs import evolve

from wrapperir import ir as wir
from wrapperir.diagnostics import Diagnostic, DiagnosticError, LinePath
from wrapperir.emit import Artifact, Emitter, emit_program
from wrapperir.ir.blocks import BLOCK_FIELDS, nested_blocks
from wrapperir.ir.line_effects import definitions
from wrapperir.ir.mentions import type_symbols

T = TypeVar("T")


@contextmanager
def receiving(sinks: list[T], sink: T) -> Generator[None]:
    """Have ``sink`` among those that inserted lines give to, in all threads."""
    sinks.append(sink)
    try:
        yield
    finally:
        sinks.remove(sink)


def insert_lines(
    program: wir.Program,
    after: Mapping[LinePath, Sequence[wir.BodyLine]],
    at_start: Mapping[LinePath, Sequence[wir.BodyLine]],
) -> wir.Program:
    """Return the program with more lines after its own, and at the start of its blocks.

    ``after`` has the path of a line, ``at_start`` that of a block such as
    ``("lines", 3, "body")``, and ``()`` for the program.  A line that comes after one whose
    type mentions symbols follows the lines that define them, and one that comes after an
    operator follows the lines that take apart its tuple.  Linear in the program.
    """
    known = frozenset(line.symbol for line in program.symbols)
    return evolve(program, lines=_inserted(program.lines, (), known, after, at_start))


def _inserted(
    lines: Sequence[wir.BodyLine],
    block: LinePath,
    outer: Set[str],
    after: Mapping[LinePath, Sequence[wir.BodyLine]],
    at_start: Mapping[LinePath, Sequence[wir.BodyLine]],
) -> tuple[wir.BodyLine, ...]:
    made = [*at_start.get(block, ())]
    held: list[wir.BodyLine] = []
    known, awaited = {*outer}, set[str]()
    for index, line in enumerate(lines):
        path = (*block, "lines", index)
        if not awaited and not isinstance(line, wir.MultiOutputLine):
            made += held
            held.clear()
        inner: dict[str, Any] = {
            name: evolve(
                nested, lines=_inserted(nested.lines, (*path, name), known, after, at_start)
            )
            for name, nested in nested_blocks(line)
        }
        made.append(evolve(line, **inner) if type(line) in BLOCK_FIELDS else line)
        if isinstance(line, wir.SymbolDefinitionLine):
            known.add(line.symbol)
        for _, type_ in definitions(line):
            awaited.update(type_symbols(type_))
        awaited -= known
        held += after.get(path, ())
    return (*made, *held)


def emit_with_operators(program: wir.Program, emitter: Emitter) -> Artifact:
    """Return the artifact of a program whose added lines call operators of ours.

    Raises:
        DiagnosticError: as :func:`wrapperir.emit.emit_program`, with what to do about an
            emitter that calls no such operators.
    """
    try:
        return emit_program(program, emitter)
    except DiagnosticError as error:
        advised = [_advised(found) for found in error.diagnostics]
        raise DiagnosticError(*advised) from error.__cause__


def _advised(found: Diagnostic) -> Diagnostic:
    if found.subject is None or not found.subject.startswith("wrapperir_"):
        return found
    hint = "give a second emitter for lines that call our operators, such as acme+python"
    return evolve(found, path=None, hint=hint)
