"""The lines that an emitter lacks something for, and what each of them lacks."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from attrs import define, evolve, field

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.emit.contract import Emitter
from wrapperir.emit.partition.part_builder import ProgramPart
from wrapperir.emit.partition.values import Described, is_floating
from wrapperir.emit.support import lacking_places
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.effects import Origin
from wrapperir.ir.line_effects import LineEffects

_ALLOCATED = (Origin.ALLOCATED, Origin.PROGRAM)

REFUSALS = frozenset(
    {
        Code.UNSUPPORTED_LINE,
        Code.UNSUPPORTED_LANGUAGE,
        Code.UNSUPPORTED_DEVICE,
        Code.UNSUPPORTED_FEATURE,
    }
)
"""Codes by which an emitter says that it lacks something."""


def is_refusal(error: DiagnosticError) -> bool:
    """Say whether an emitter lacks all that an error names."""
    return all(found.code in REFUSALS for found in error.diagnostics)


def shared_write(values: Described, part: ProgramPart) -> Diagnostic | None:
    """Return what is wrong if a part writes memory that it is given under two names.

    An emitter that copies its inputs to a device of its own would write one copy.
    """
    given = [each.name for each in part.program.inputs if each.name in values.bases]
    groups = Counter(values.group(name) for name in given)
    effects = LineEffects.of_program(part.program)
    for index, line in enumerate(part.program.lines):
        for access in effects.visit(line).accesses:
            if access.writes and groups[values.group(access.name)] > 1:
                return Diagnostic(
                    Code.UNSUPPORTED_FEATURE,
                    f"%{access.name} is written, and may share memory with another value",
                    path=("lines", index),
                    subject=access.name,
                )
    return None


@define
class Obstacles:
    """What keeps lines of a program from one emitter.

    Attributes:
        lines: The first cause for each line that it cannot run.
        apart: Allocations that it cannot make.
    """

    values: Described
    lines: dict[int, Diagnostic] = field(factory=dict[int, Diagnostic])
    apart: set[int] = field(factory=set[int])
    _users: dict[str, list[int]] = field(init=False)
    """The lines that use each name, and each storage by its first name."""
    _callers: dict[str, list[int]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Find the users of values and the callers of kernels."""
        values = self.values
        self._users, self._callers = defaultdict(list), defaultdict(list)
        for index, line in enumerate(values.program.lines):
            if is_floating(values.effects[index]):
                continue
            made = [made.name for made in values.effects[index].definitions]
            names = (*values.uses[index], *made)
            bases = [values.bases[name] for name in names]
            for name in dict.fromkeys((*names, *bases)):
                self._users[name].append(index)
            for inner in walk_lines([line]):
                if isinstance(inner, wir.KernelCallLine):
                    self._callers[inner.kernel].append(index)

    def add_declared(self, emitter: Emitter) -> None:
        """Add what ``support`` of an emitter lacks."""
        values, lines = self.values, emitter.support.lines
        for found in lacking_places(values.program, emitter.name, emitter.support):
            match found.code, found.path:
                case Code.UNSUPPORTED_LINE, ("lines", int() as index):
                    if not self._is_made_anew(index):
                        self._add(found, [index])
                case _:
                    self._add(found, self._blamed(values.program, found))
        if emitter.support.hosted:
            self._add_aliases()
        if wir.FreeLine not in lines:
            self._add_kind(emitter, wir.FreeLine, range(len(values.effects)))
        elif wir.ReinterpretLine not in lines:
            views = [
                index
                for index, uses in enumerate(values.uses)
                if any(values.bases[name] != name for name in uses)
            ]
            self._add_kind(emitter, wir.ReinterpretLine, views)

    def _add_aliases(self) -> None:
        """Add operators whose results may be memory of arguments.

        After copies from a device to the host they are not, and a later write is not seen.
        """
        for index, line in enumerate(self.values.program.lines):
            for inner in walk_lines([line]):
                if isinstance(inner, wir.ExternKernelLine) and inner.aliases:
                    found = Diagnostic(
                        Code.UNSUPPORTED_FEATURE,
                        f"the result of {inner.operator} may share memory with"
                        f" %{inner.aliases[0]}, and copies of them do not",
                        path=("lines", index),
                        subject=inner.operator,
                    )
                    self._add(found, [index])

    def _is_made_anew(self, index: int) -> bool:
        """Say whether parts have other lines in place of a line: views, frees, remarks."""
        effects = self.values.effects[index]
        return is_floating(effects) and not any(
            made.origin in _ALLOCATED for made in effects.definitions
        )

    def _add_kind(
        self, emitter: Emitter, kind: type[wir.Line], lines: Iterable[int]
    ) -> None:
        name = wir.keyword(kind)
        for index in lines:
            found = Diagnostic(
                Code.UNSUPPORTED_LINE,
                f"the {emitter.name} emitter has no support for {name} lines",
                path=("lines", index),
                subject=name,
            )
            if not is_floating(self.values.effects[index]):
                self._add(found, [index])

    def add_refused(self, part: ProgramPart, error: DiagnosticError) -> None:
        """Add what an emitter refused in a part; all of the part if that is nothing new."""
        before = len(self.lines), len(self.apart)
        for found in error.diagnostics:
            self._add(found, self._blamed_in(part, found))
        if (len(self.lines), len(self.apart)) == before:
            self.add_part(part, error)

    def add_part(self, part: ProgramPart, error: DiagnosticError) -> None:
        """Add all lines of a part, because of an error that names none of them."""
        lines = [index for index in part.origins if index is not None]
        self._add(error.diagnostics[0], lines)

    def _add(self, found: Diagnostic, lines: Iterable[int]) -> None:
        for index in lines:
            effects = self.values.effects[index]
            if not is_floating(effects) or index in self.apart:
                placed = evolve(found, path=("lines", index))
                self.lines.setdefault(index, placed)
                continue
            for made in effects.definitions:
                if made.origin in _ALLOCATED:
                    self.apart.add(index)
                    self.lines[index] = evolve(found, path=("lines", index))
                elif made.source is not None:
                    self._add(found, self._users[made.name])

    def _blamed_in(self, part: ProgramPart, found: Diagnostic) -> list[int]:
        """Return the lines of the whole program that a refusal in a part is about."""
        match found.path:
            case ("lines", int() as index, *_) if index < len(part.origins):
                origin = part.origins[index]
                return [] if origin is None else [origin]
            case _:
                own = {index for index in part.origins if index is not None}
                return [x for x in self._blamed(part.program, found) if x in own]

    def _blamed(self, program: wir.Program, found: Diagnostic) -> list[int]:
        """Return the lines that a diagnostic of ``program`` is about."""
        match found.path:
            case ("lines", int() as index, *_):
                return [index]
            case ("definitions", int() as index, *_):
                return list(self._calling(program.definitions[index].name))
            case ("inputs", int() as index, *_):
                return self._users[program.inputs[index].name]
            case ("constants", int() as index, *_):
                return self._users[program.constants[index].name]
            case ("symbols", int() as index, *_):
                symbol = program.symbols[index].symbol
                every = enumerate(self.values.symbols)
                return [index for index, symbols in every if symbol in symbols]
            case ("outputs", int() as index, *_):
                output = program.outputs[index]
                if not isinstance(output, wir.BufferRef):
                    return []
                return self._users[output.name]
            case _:
                return []

    def _calling(self, kernel: str) -> Iterator[int]:
        """Yield the lines that call a kernel, or a multi-kernel that it is a choice of."""
        yield from self._callers[kernel]
        for line in self.values.program.definitions:
            if isinstance(line, wir.MultiKernelLine) and any(
                choice.kernel == kernel for choice in line.choices
            ):
                yield from self._callers[line.name]
