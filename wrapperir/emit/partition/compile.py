"""From a program to emitted parts: cut, build, emit, and cut again where one is refused."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from attrs import define, evolve, field, frozen

from wrapperir import ir as wir
from wrapperir.diagnostics import DiagnosticError, Note
from wrapperir.emit.contract import Artifact, Emitter
from wrapperir.emit.partition.cut import Side, cut_lines
from wrapperir.emit.partition.dependencies import LineOrder, order_lines
from wrapperir.emit.partition.obstacles import (
    Obstacles,
    is_refusal,
    shared_write,
)
from wrapperir.emit.partition.part_builder import Parts, ProgramPart, build_parts
from wrapperir.emit.partition.plan import PartPlan
from wrapperir.emit.partition.report import PartitionReport, PartSummary, count_calls
from wrapperir.emit.partition.values import describe
from wrapperir.emit.pipeline import emit_program, prepare_program
from wrapperir.emit.support import fit_program, lacking_places, on_host

if TYPE_CHECKING:
    from wrapperir.pipelines import PassLike

PartPasses: TypeAlias = "Callable[[Emitter], Sequence[PassLike]]"
"""The passes to run on each part that an emitter is given."""

_ROUNDS = 8
"""Cuts until a part that is refused falls back as a whole."""


@frozen
class EmittedPart:
    """A part with its program after the passes, and its artifact."""

    emitter: Emitter
    program: wir.Program
    artifact: Artifact


@frozen
class Partition:
    """The emitted parts of a program, the plan that runs them, and the report.

    ``plan`` is ``None`` where the chosen emitter takes the program as a whole.
    """

    parts: tuple[EmittedPart, ...]
    plan: PartPlan | None
    report: PartitionReport


def lacks_something(program: wir.Program, emitter: Emitter) -> bool:
    """Say whether the support that an emitter declares lacks something of a program."""
    fitted = fit_program(program, emitter.support)
    return next(lacking_places(fitted, emitter.name, emitter.support), None) is not None


def partition_program(
    program: wir.Program,
    chosen: Emitter,
    fallback: Emitter,
    passes: PartPasses = lambda emitter: (),
    *,
    checks_inputs: bool = True,
) -> Partition:
    """Emit a verified program by ``chosen``, and by ``fallback`` what that one lacks.

    A line falls back if the support that ``chosen`` declares lacks something for it, or if
    ``chosen`` refuses it when it emits the line's part; the program is then cut anew.
    ``passes`` run on each part.  A pass that brings in what ``chosen`` lacks is undone with
    the others of its part.

    Raises:
        DiagnosticError: WIR702 to WIR705, both emitters lack something for a line; or an
            emitter fails.
    """
    tried = _Attempts(chosen, passes(chosen))
    if not lacks_something(program, chosen):
        try:
            whole = tried.emit(program)
            return Partition((whole,), None, _whole_report(program, chosen, fallback))
        except DiagnosticError as error:
            if not is_refusal(error):
                raise
    partitioner = _Partitioner(program, tried, _Attempts(fallback, passes(fallback)))
    return partitioner.run(checks_inputs=checks_inputs)


def _whole_report(
    program: wir.Program, chosen: Emitter, fallback: Emitter
) -> PartitionReport:
    summary = PartSummary(
        emitter=chosen.name,
        side=Side.CHOSEN,
        calls=count_calls(program),
        inputs=len(program.inputs),
        outputs=len(program.outputs),
    )
    return PartitionReport(
        program=program, chosen=chosen.name, fallback=fallback.name, parts=(summary,)
    )


_Made: TypeAlias = EmittedPart | DiagnosticError
"""An emitted program, or why it is refused."""


@define
class _Attempts:
    """What one emitter made of programs; each is emitted once, refused ones too."""

    emitter: Emitter
    passes: "Sequence[PassLike]"
    _made: dict[wir.Program, _Made] = field(factory=dict[wir.Program, _Made], init=False)
    """By the programs before the passes."""
    _emitted: dict[wir.Program, _Made] = field(factory=dict[wir.Program, _Made], init=False)
    """By the programs after the passes."""

    def emit(self, program: wir.Program) -> EmittedPart:
        """Emit a program after passes, or without them if these make it refused.

        Raises:
            DiagnosticError: the emitter refuses it without passes too, or fails.
        """
        if program not in self._made:
            made: _Made | None = None
            if self.passes:
                made = self._emit(prepare_program(program, self.passes))
            if not isinstance(made, EmittedPart):
                made = self._emit(prepare_program(program, ()))
            self._made[program] = made
        made = self._made[program]
        if isinstance(made, DiagnosticError):
            raise made
        return made

    def _emit(self, prepared: wir.Program) -> _Made:
        """Return the part, or why it is refused."""
        if prepared not in self._emitted:
            try:
                artifact = emit_program(prepared, self.emitter)
                self._emitted[prepared] = EmittedPart(self.emitter, prepared, artifact)
            except DiagnosticError as error:
                if not is_refusal(error):
                    raise
                self._emitted[prepared] = error
        return self._emitted[prepared]


class _Partitioner:
    def __init__(
        self, program: wir.Program, by_chosen: _Attempts, by_fallback: _Attempts
    ) -> None:
        # Loaded late: all passes.
        from wrapperir.passes import call_collectives, open_pools

        self.by_chosen, self.by_fallback = by_chosen, by_fallback
        self.chosen, self.fallback = by_chosen.emitter, by_fallback.emitter
        fitted = call_collectives(fit_program(program, self.chosen.support))
        self.program = open_pools(fitted)
        self.values = describe(self.program)

    def run(self, *, checks_inputs: bool) -> Partition:
        """Cut until the chosen emitter takes its parts; then emit those of the fallback."""
        obstacles = Obstacles(self.values)
        obstacles.add_declared(self.chosen)
        rounds, alone = 0, Side.CHOSEN
        while True:
            order = order_lines(self.values, frozenset(obstacles.apart))
            cut = cut_lines(self.values, order, obstacles.lines.keys(), alone)
            parts = build_parts(self.values, cut, checks_inputs=checks_inputs)
            refused = [
                (part, error)
                for side, part in zip(cut.sides, parts.parts, strict=True)
                if side is Side.CHOSEN and (error := self._refusal(part)) is not None
            ]
            if not refused:
                return self._finish(cut.sides, parts, obstacles, order)
            rounds += 1
            known = len(obstacles.lines), len(obstacles.apart)
            for part, error in refused:
                if rounds < _ROUNDS:
                    obstacles.add_refused(part, error)
                else:
                    obstacles.add_part(part, error)
            if known == (len(obstacles.lines), len(obstacles.apart)):
                if alone is Side.FALLBACK:
                    raise refused[0][1]
                alone = Side.FALLBACK  # a part that launches nothing has no line to blame

    def _refusal(self, part: ProgramPart) -> DiagnosticError | None:
        """Emit a part by the chosen emitter; return why it refuses it."""
        if self.chosen.support.hosted:
            shared = shared_write(self.values, part)
            if shared is not None:
                return DiagnosticError(shared)
        try:
            self.by_chosen.emit(part.program)
        except DiagnosticError as error:
            if not is_refusal(error):
                raise
            return error
        return None

    def _finish(
        self, sides: Sequence[Side], parts: Parts, obstacles: Obstacles, order: LineOrder
    ) -> Partition:
        made: list[EmittedPart] = []
        if parts.entry is not None:
            made.append(self._fall_back(parts.entry, obstacles))
        summaries: list[PartSummary] = []
        for side, part in zip(sides, parts.parts, strict=True):
            if side is Side.CHOSEN:
                emitted = self.by_chosen.emit(part.program)
            else:
                emitted = self._fall_back(part, obstacles)
            made.append(emitted)
            summaries.append(
                PartSummary(
                    emitter=emitted.emitter.name,
                    side=side,
                    calls=count_calls(part.program),
                    inputs=len(part.arguments),
                    outputs=len(part.results),
                )
            )
        report = PartitionReport(
            program=self.program,
            chosen=self.chosen.name,
            fallback=self.fallback.name,
            parts=tuple(summaries),
            fell_back={
                index: why
                for index, why in obstacles.lines.items()
                if order.anchors.get(index, index) == index
                or order.anchors[index] not in obstacles.lines
            },
        )
        return Partition(tuple(made), parts.plan, report)

    def _fall_back(self, part: ProgramPart, obstacles: Obstacles) -> EmittedPart:
        """Emit a part by the fallback, with memory of hosted devices on the host.

        Raises:
            DiagnosticError: it lacks something too.
        """
        hosted = self.chosen.support.hosted - self.fallback.support.hosted
        program = on_host(part.program, hosted)
        try:
            return self.by_fallback.emit(program)
        except DiagnosticError as error:
            found = [
                evolve(each, notes=(*each.notes, *self._notes(part, each.path, obstacles)))
                for each in error.diagnostics
            ]
            raise DiagnosticError(*found) from error.__cause__

    def _notes(
        self, part: ProgramPart, path: Sequence[object] | None, obstacles: Obstacles
    ) -> Sequence[Note]:
        """Say why the chosen emitter does not run the line either."""
        match path:
            case ("lines", int() as index, *_) if index < len(part.origins):
                why = obstacles.lines.get(part.origins[index] or 0)
            case _:
                why = next(iter(obstacles.lines.values()), None)
        if why is None:
            return ()
        return (Note(message=f"it fell back, as {why.message}"),)
