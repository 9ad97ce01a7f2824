"""What a place, module, node, kernel or buffer became in a program, or came from."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set

from attrs import evolve, frozen

from wrapperir.analysis.line_traffic import KernelTraffic, LineTraffic, line_traffic
from wrapperir.diagnostics import Code, LinePath, Position, did_you_mean
from wrapperir.ir import (
    BodyLine,
    EvaluationError,
    ExternKernelLine,
    GraphRegionLine,
    KernelCallLine,
    NodeOrigin,
    OriginTable,
    Program,
)
from wrapperir.ir.blocks import walk_places
from wrapperir.ir.effects import Effects, Origin
from wrapperir.ir.line_effects import value_types
from wrapperir.report.copies import CopyReason, copy_reasons
from wrapperir.report.equal_lines import equal_lines, line_modules
from wrapperir.report.explained_parts import (
    ExplainedLine,
    ExplainedNode,
    Explanation,
    ReadCopy,
    SubjectKind,
)
from wrapperir.report.line_flow import line_flow
from wrapperir.report.memory_changes import is_frontend_reuse
from wrapperir.report.model_parameters import model_parameters
from wrapperir.report.spans import line_head
from wrapperir.report.traced_kernels import ProfiledNames, with_multi_kernels

_PLACE = re.compile(r"(.+):([0-9]+)", re.DOTALL)


def explain(
    program: Program, positions: Mapping[LinePath, Position], subject: str | None
) -> Explanation:
    """Return what a subject of a program became, or came from.

    The subject is a place, ``model.py:12`` or ``model.py``; a module, ``layers.0.mlp``;
    a node of the graph; a kernel, ``@name`` or its name in a profile of PyTorch's; a
    buffer, ``%name``, or the path of one that is a parameter, ``layers.0.mlp.weight``; or
    without one, every kernel and call.

    Raises:
        DiagnosticError: WIR915, nothing in the program has that name.
    """
    search = _SubjectSearch(program, positions)
    if subject is None:
        return search.of_lines(SubjectKind.PROGRAM, program.name, _computes)
    if subject.startswith("@"):
        return search.kernel(subject)
    if subject.startswith("%"):
        return search.buffer(subject)
    return search.parameter(subject) or search.nodes(subject)


def explain_kernels(
    program: Program,
    positions: Mapping[LinePath, Position],
    kernels: Iterable[tuple[str, ...]],
) -> tuple[Explanation, ...]:
    """Return what kernels came from, for each tuple of names."""
    search = _SubjectSearch(program, positions)
    return tuple(search.kernels(names) for names in kernels)


@frozen
class _LineFacts:
    """A line with its index, place and effects."""

    index: int
    line: BodyLine
    path: LinePath
    effects: Effects

    @property
    def origins(self) -> tuple[str, ...]:
        return () if self.line.provenance is None else self.line.provenance.origins


def _computes(found: _LineFacts) -> bool:
    return isinstance(found.line, KernelCallLine | ExternKernelLine)


class _SubjectSearch:
    """Finds subjects among the lines and origins of a program."""

    def __init__(self, program: Program, positions: Mapping[LinePath, Position]) -> None:
        """Find the effects of each line, and what is equal."""
        self.program = program
        self.positions = positions
        self.table = OriginTable(program)
        self.parameters = model_parameters(program)
        flow = self.flow = line_flow(program)
        self.found = [
            _LineFacts(index, line, path, effects)
            for index, ((line, path), effects) in enumerate(
                zip(walk_places(program.lines), flow.effects, strict=True)
            )
        ]
        self.types = value_types(program, flow.effects)
        self.kernels_touch = KernelTraffic(program)
        self.equal = equal_lines(flow.lines, self.table)
        self.copies = copy_reasons(program, flow)
        self.copies_read: dict[int, list[tuple[int, CopyReason]]] = {}
        for made, reasons in self.copies.items():
            for reason in reasons:
                for reader in reason.readers if reason.whole else ():
                    self.copies_read.setdefault(reader, []).append((made, reason))

    def kernel(self, subject: str) -> Explanation:
        names = [line.name for line in self.program.definitions]
        if subject[1:] not in names:
            raise _unknown(subject, [f"@{name}" for name in names])
        return self.kernels((subject[1:],))

    def kernels(self, names: tuple[str, ...]) -> Explanation:
        """Return the calls of kernels, and of multi-kernels that may choose them."""
        called = with_multi_kernels(self.program, names)
        return self.of_lines(
            SubjectKind.KERNEL,
            ", ".join(f"@{name}" for name in names),
            lambda each: getattr(each.line, "kernel", None) in called,
        )

    def buffer(self, subject: str) -> Explanation:
        name = subject[1:]
        names = [each.name for each in self.program.inputs]
        names += [each.name for each in self.program.constants]
        values = self.flow.origins_of_values()
        names += values
        if name not in names:
            raise _unknown(subject, [f"%{each}" for each in names])
        lines: list[ExplainedLine] = []
        views: set[str] = set()
        for each in self.found:
            does = _does(each.effects, name) or _does_to_views(each.effects, views)
            views.update(_views_of(each.effects, {name, *views}))
            if does:
                writes = [x for x in self.flow.writes[each.index] if x.name == name]
                own = writes[0].origins if writes else each.origins
                lines.append(evolve(self._line(each, own), does=does))
        made = values.get(name, ())
        found = self._explanation(SubjectKind.BUFFER, subject, made, lines)
        itself = [each for each in self.parameters if each.name == name]
        return evolve(found, parameters=tuple(itself))

    def parameter(self, path: str) -> Explanation | None:
        """Return the explanation of the parameter with a path, if one has it."""
        names = [each.name for each in self.parameters if path in each.paths]
        return self.buffer(f"%{names[0]}") if names else None

    def nodes(self, subject: str) -> Explanation:
        kind, chosen = self._chosen(subject)
        if kind is SubjectKind.KERNEL:
            return self.kernels(ProfiledNames(self.program).of(subject))
        lines = [
            self._line(each, chosen) for each in self.found if chosen & {*each.origins}
        ]
        names = [x.name for x in self.program.origins if x.name in chosen]
        found = self._explanation(kind, subject, names, lines)
        if kind is not SubjectKind.MODULE:
            return found
        held = [each for each in self.parameters if each.is_within(subject)]
        return evolve(found, parameters=tuple(held))

    def of_lines(
        self, kind: SubjectKind, subject: str, is_asked: Callable[[_LineFacts], bool]
    ) -> Explanation:
        asked = [each for each in self.found if is_asked(each)]
        names = dict.fromkeys(name for each in asked for name in each.origins)
        lines = [
            evolve(self._line(each, each.origins), traffic=self._traffic(each))
            for each in asked
        ]
        return self._explanation(kind, subject, names, lines)

    def _chosen(self, subject: str) -> tuple[SubjectKind, set[str]]:
        """Return what the subject is, and the names of the origins that it has."""
        place = _PLACE.fullmatch(subject)
        file, line = (subject, None) if place is None else (place[1], int(place[2]))
        origins = self.program.origins
        tried: list[tuple[SubjectKind, Callable[[NodeOrigin], bool]]] = [
            (SubjectKind.NODE, lambda each: each.name == subject),
            (SubjectKind.MODULE, lambda each: _is_within(each.module, subject)),
            (
                SubjectKind.PLACE,
                lambda each: any(
                    _is_file(place.file, file) and line in (None, place.line)
                    for place in self.table.stack(each)
                ),
            ),
        ]
        for kind, has in tried:
            chosen = {each.name for each in origins if has(each)}
            if chosen:
                return kind, chosen
        if any(each.is_within(subject) for each in self.parameters):
            return SubjectKind.MODULE, set()
        if ProfiledNames(self.program).of(subject):
            return SubjectKind.KERNEL, set()
        places = self.program.places
        if line is not None and any(_is_file(each.file, file) for each in places):
            raise self._without_operators(subject, file, line)
        known = [f"{each.file.rpartition('/')[2]}:{each.line}" for each in places]
        known += [each.module for each in origins if each.module is not None]
        known += [path for each in self.parameters for path in each.paths]
        raise _unknown(subject, [*known, *(each.name for each in origins)])

    def _without_operators(self, subject: str, file: str, line: int) -> Exception:
        """Return the error for a line of a known file that no operator came from."""
        places = {x.line for x in self.program.places if _is_file(x.file, file)}
        before = max((each for each in places if each < line), default=None)
        after = min((each for each in places if each > line), default=None)
        near = [
            f"{each} {word}"
            for each, word in ((before, "before"), (after, "after"))
            if each
        ]
        return Code.NOTHING_TO_EXPLAIN.error(
            f"no operator of the program came from {subject[:80]!r}",
            hint="the line calls no operator that is left in the program, or is none of the"
            f" file; the nearest lines with operators are {' and '.join(near)}",
        )

    def _line(self, found: _LineFacts, chosen: Iterable[str]) -> ExplainedLine:
        asked = set(chosen)
        line = found.line
        others = [name for name in found.origins if name not in asked]
        if isinstance(line, GraphRegionLine):
            others = []  # of other lines in the region
        return ExplainedLine(
            number=self._number(found.index),
            text=line_head(line),
            nodes=tuple(name for name in found.origins if name in asked),
            others=tuple(others),
            passes=() if line.provenance is None else line.provenance.passes,
            kernel=line.kernel if isinstance(line, KernelCallLine) else None,
            values=tuple(
                dict.fromkeys(
                    (
                        *(made.name for made in found.effects.definitions),
                        *(each.name for each in found.effects.accesses if each.writes),
                    )
                )
            ),
            modules=line_modules(line, self.table),
            equal_to=self._number(self.equal[found.index]),
            copies=tuple(self._copies(found.index)),
            read_copies=tuple(self._read_copies(found.index)),
            by_frontend=is_frontend_reuse(line),
        )

    def _traffic(self, found: _LineFacts) -> LineTraffic | None:
        try:
            touched = self.kernels_touch.of(found.line, self.types, {})
            return touched or line_traffic(found.effects, self.types, {})
        except EvaluationError:
            return None

    def _copies(self, line: int) -> Iterator[CopyReason]:
        """Yield the copies of a line, whose readers are numbers of lines.

        Values are named if the line writes others too, or it is known what is copied.
        """
        for reason in self.copies.get(line, ()):
            others = len(self.flow.writes[line]) > len(reason.values)
            numbers = map(self._number, reason.readers)
            yield evolve(
                reason,
                values=reason.values if others or reason.sources else (),
                readers=tuple(x for x in numbers if x is not None),
            )

    def _read_copies(self, reader: int) -> Iterator[ReadCopy]:
        for line, reason in self.copies_read.get(reader, ()):
            number = self._number(line)
            if number is not None:
                yield ReadCopy(number, reason.values, reason.sources)

    def _number(self, index: int) -> int | None:
        position = self.positions.get(self.found[index].path)
        return None if position is None else position.line

    def _explanation(
        self,
        kind: SubjectKind,
        subject: str,
        names: Iterable[str],
        lines: Iterable[ExplainedLine],
    ) -> Explanation:
        by_name = self.table.by_name
        unlisted = (by_name.get(name) or NodeOrigin(name=name) for name in names)
        return Explanation(
            program=self.program.name,
            kind=kind,
            subject=subject,
            nodes=tuple(ExplainedNode(x, self.table.stack(x)) for x in unlisted),
            lines=tuple(lines),
        )


def _does(effects: Effects, name: str) -> tuple[str, ...]:
    """Return what a line does with a value, as verbs."""
    accesses = [each for each in effects.accesses if each.name == name]
    verbs = {
        "makes": any(made.name == name for made in effects.definitions),
        "reads": any(each.reads for each in accesses),
        "writes": any(each.writes for each in accesses),
        "views": any(made.source == name for made in effects.definitions),
        "drops": effects.drops == name,
    }
    does = tuple(verb for verb, is_done in verbs.items() if is_done)
    return does or (("uses",) if name in effects.uses else ())


def _does_to_views(effects: Effects, views: Set[str]) -> tuple[str, ...]:
    """Return how a line accesses the memory of a value by its views, as verbs."""
    accesses = [each for each in effects.accesses if each.name in views]
    verbs = {
        "reads a view": any(each.reads for each in accesses),
        "writes a view": any(each.writes for each in accesses),
    }
    return tuple(verb for verb, is_done in verbs.items() if is_done)


def _views_of(effects: Effects, names: Set[str]) -> list[str]:
    return [
        made.name
        for made in effects.definitions
        if made.origin is Origin.VIEW and made.source in names
    ]


def _is_within(module: str | None, path: str) -> bool:
    return module is not None and (module == path or module.startswith(f"{path}."))


def _is_file(file: str, named: str) -> bool:
    return file == named or file.endswith(f"/{named}")


def _unknown(subject: str, known: Iterable[str]) -> Exception:
    return Code.NOTHING_TO_EXPLAIN.error(
        f"the program has nothing from or named {subject[:80]!r}",
        hint=did_you_mean(subject, dict.fromkeys(known))
        or "give a place such as model.py:12, a module such as layers.0.mlp, a parameter"
        " such as layers.0.mlp.weight, a node of the graph, @kernel or %buffer",
    )
