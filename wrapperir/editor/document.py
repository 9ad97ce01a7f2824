"""A text that is edited: its diagnostics, and what is known of its names."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from attrs import frozen

from wrapperir.diagnostics import (
    Diagnostic,
    DiagnosticError,
    DiagnosticPlaces,
    LinePath,
    Position,
    Severity,
)
from wrapperir.editor.names import NameKind, NameToken, find_names
from wrapperir.ir import KernelCallLine, Program, ValueType
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.line_effects import value_types
from wrapperir.report import build_timeline, choose_values, model_parameters
from wrapperir.report.text import format_bytes, lifetime
from wrapperir.report.timeline import ProgramTimeline, TimelineBuffer
from wrapperir.text import ParsedText, format_type, parse_with_positions
from wrapperir.text.literals import format_string
from wrapperir.verify import verify


@frozen
class PlacedDiagnostic:
    """A diagnostic, and the place in the text that it is about."""

    diagnostic: Diagnostic
    place: Position


class EditedText:
    """A text, and what its program says; each is computed when it is first asked for."""

    def __init__(self, text: str) -> None:
        """Keep a text."""
        self.text = text

    @cached_property
    def names(self) -> Sequence[NameToken]:
        """The names in it."""
        return find_names(self.text)

    @cached_property
    def _parsed(self) -> ParsedText | DiagnosticError:
        try:
            return parse_with_positions(self.text)
        except DiagnosticError as error:
            return error

    @property
    def program(self) -> Program | None:
        """The program, unless the text is malformed."""
        return None if isinstance(self._parsed, DiagnosticError) else self._parsed.program

    @property
    def positions(self) -> Mapping[LinePath, Position]:
        """The positions of the program's parts."""
        return {} if isinstance(self._parsed, DiagnosticError) else self._parsed.positions

    @cached_property
    def _findings(self) -> Sequence[Diagnostic]:
        if isinstance(self._parsed, DiagnosticError):
            return self._parsed.diagnostics
        return verify(self._parsed.program)

    @cached_property
    def diagnostics(self) -> Sequence[PlacedDiagnostic]:
        """The diagnostics of the reader, or else of the verifier."""
        places = DiagnosticPlaces(self.text, self.positions, "")
        first = Position(1, 1)
        return [
            PlacedDiagnostic(
                found, places.position(found.path, found.position, found.subject) or first
            )
            for found in self._findings
        ]

    @cached_property
    def _types(self) -> Mapping[str, ValueType]:
        return {} if self.program is None else value_types(self.program)

    @cached_property
    def _timeline(self) -> ProgramTimeline | None:
        """The live ranges of a program without errors."""
        has_errors = any(found.severity is Severity.ERROR for found in self._findings)
        if self.program is None or has_errors:
            return None
        values = {each.name: each.value for each in choose_values(self.program, {})}
        return build_timeline(self.program, self.positions, values, "")

    def describe(self, name: NameToken) -> str | None:
        """Return what is known of a name, in Markdown."""
        match name.kind:
            case NameKind.VALUE:
                rows = list(self._value_rows(name.name))
            case NameKind.KERNEL:
                rows = list(self._kernel_rows(name.name))
            case NameKind.SYMBOL:
                rows = list(self._definition_rows(name))
        return "\n\n".join(rows) if rows else None

    def _value_rows(self, name: str) -> Iterator[str]:
        type_ = self._types.get(name)
        if type_ is None:
            return
        held = () if self.program is None else model_parameters(self.program)
        paths = [f" from {format_string(x.path)}" for x in held if x.name == name]
        yield _code(f"%{name}: {format_type(type_)}{''.join(paths)}")
        timeline = self._timeline
        for memory in () if timeline is None else timeline.memories:
            for buffer in memory.buffers:
                if timeline is not None and name in (buffer.name, *buffer.aliases):
                    yield from _buffer_rows(buffer, timeline)

    def _kernel_rows(self, name: str) -> Iterator[str]:
        program = self.program
        definitions = () if program is None else program.definitions
        for index, line in enumerate(definitions):
            if line.name == name and program is not None:
                at = self.positions[("definitions", index)]
                yield _code(self.text.split("\n")[at.line - 1].strip().removesuffix(" {"))
                calls = sum(
                    isinstance(each, KernelCallLine) and each.kernel == name
                    for each in walk_lines(program.lines)
                )
                yield f"called by {calls} line{'' if calls == 1 else 's'}"

    def _definition_rows(self, name: NameToken) -> Iterator[str]:
        for each in self.names:
            if each.defines and (each.kind, each.name) == (name.kind, name.name):
                yield _code(self.text.split("\n")[each.line].strip())


def _buffer_rows(buffer: TimelineBuffer, timeline: ProgramTimeline) -> Iterator[str]:
    alive = lifetime(timeline, buffer)
    yield f"{buffer.kind.value}, {format_bytes(buffer.size)}, alive at {alive}"
    if buffer.aliases:
        names = ", ".join(f"`%{each}`" for each in (buffer.name, *buffer.aliases))
        yield f"one storage: {names}"
    if buffer.provenance:
        yield f"from `{buffer.provenance}`"


def _code(text: str) -> str:
    return f"```wir\n{text}\n```"
