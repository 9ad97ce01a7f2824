"""Runs of a program, by the interpreter or emitted code, whose values are observed."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import torch
from attrs import define, field, frozen

from wrapperir import ir as wir
from wrapperir.diagnostics import LinePath
from wrapperir.emit import Emitter, Loaded, Value
from wrapperir.emit.pipeline import load_artifact
from wrapperir.interp import Interpreter, LineNames
from wrapperir.passes import open_graph_regions
from wrapperir.trace.inserted_lines import emit_with_operators
from wrapperir.trace.observation import observing, with_observations
from wrapperir.trace.points import Point, PointRole, points_of
from wrapperir.trace.summary import ValueSummary, summarize

if TYPE_CHECKING:
    from wrapperir.interp import AfterLine


@frozen(eq=False)
class Observed:
    """A value at a point, as it is then: a later line may change it.

    ``occurrence`` counts from 0 how often the point was reached.  ``written`` is a mask of
    the elements that the program wrote, ``None`` for all or where that is not known.
    """

    point: Point
    occurrence: int
    value: torch.Tensor | wir.Number
    written: torch.Tensor | None = None


Observer: TypeAlias = Callable[[Observed], None]
"""Is given each value that is observed, in the order of the run."""


@frozen
class RecordedValue:
    """The summary of an observed value."""

    point: Point
    occurrence: int
    summary: ValueSummary


@frozen(eq=False)
class ValueTrace:
    """What a run of ``program`` wrote, in order, and its outputs.

    ``program`` has no graph regions.  A run with a ``failure`` ended after the last event.
    """

    program: wir.Program
    events: tuple[RecordedValue, ...]
    outputs: tuple[Value, ...] = ()
    failure: Exception | None = None


@define(eq=False)
class TracedProgram:
    """A program that runs any number of times while its values are observed.

    Without an emitter the interpreter runs it.  Each run is on copies of the inputs and
    constants, and of the same random numbers.
    """

    program: wir.Program
    """The program that runs: it has no graph regions."""
    emitter: Emitter | None
    constants: Mapping[str, torch.Tensor]
    seed: int
    _loaded: "tuple[tuple[Point, ...], Loaded] | None" = field(default=None, init=False)

    @classmethod
    def of(
        cls,
        program: wir.Program,
        emitter: Emitter | None,
        constants: Mapping[str, torch.Tensor],
        seed: int = 0,
    ) -> "TracedProgram":
        """Return a verified program, to be traced."""
        return cls(open_graph_regions(program), emitter, constants, seed)

    def run(
        self,
        inputs: Sequence[Value],
        observer: Observer,
        points: Sequence[Point] | None = None,
    ) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
        """Run on copies of ``inputs``; return the outputs, and the copies as they are then.

        ``points`` are by default those of :func:`points_of`.

        Raises:
            DiagnosticError: the program faults; or the emitter lacks something, operators
                of others among it; or what is emitted does not load.
            Exception: emitted code raises it.
        """
        chosen = points_of(self.program) if points is None else tuple(points)
        given = [copy_value(value) for value in inputs]
        kept = tuple(given)
        torch.manual_seed(self.seed)  # pyright: ignore[reportUnknownMemberType]
        if self.emitter is None:
            constants = {key: value.clone() for key, value in self.constants.items()}
            interpreter = Interpreter(self.program, constants)
            return interpreter.run(given, _after_lines(chosen, observer)), kept
        return self._run_emitted(self.emitter, chosen, given, observer), kept

    def _run_emitted(
        self,
        emitter: Emitter,
        points: tuple[Point, ...],
        inputs: list[Value],
        observer: Observer,
    ) -> tuple[Value, ...]:
        counts = [0] * len(points)

        def sink(number: int, value: torch.Tensor | wir.Number) -> None:
            point, occurrence = points[number], counts[number]
            counts[number] += 1
            observer(Observed(point, occurrence, value))

        call = self._load(emitter, points)
        with observing(sink):
            return call(inputs)

    def _load(self, emitter: Emitter, points: tuple[Point, ...]) -> Loaded:
        if self._loaded is not None and self._loaded[0] == points:
            return self._loaded[1]
        observed = with_observations(self.program, points)
        artifact = emit_with_operators(observed, emitter)
        constants = {key: value.clone() for key, value in self.constants.items()}
        call = load_artifact(observed, artifact, emitter, constants)
        # A program that writes its constants or keeps memory must begin anew.
        is_repeatable = not any(item.mutated for item in self.program.constants)
        self._loaded = (points, call) if is_repeatable else None
        return call


def trace_program(
    program: wir.Program,
    inputs: Sequence[Value],
    constants: Mapping[str, torch.Tensor],
    *,
    emitter: Emitter | None = None,
    seed: int = 0,
    show: Callable[[RecordedValue], None] | None = None,
) -> ValueTrace:
    """Run a verified program once and return what each line wrote.

    Without an ``emitter`` the interpreter runs it; with one, the emitted code, with added
    lines that call an operator of ours.  Graph regions are opened.  The inputs and
    constants are copied.  ``show`` is given each event at once.  This executes the
    program's kernels.

    A run that fails has a ``failure``, and the events until then.
    """
    events: list[RecordedValue] = []
    traced = TracedProgram.of(program, emitter, constants, seed)

    def note(seen: Observed) -> None:
        summary = summarize(seen.value, seen.written)
        events.append(RecordedValue(seen.point, seen.occurrence, summary))
        if show is not None:
            show(events[-1])

    try:
        outputs, _ = traced.run(inputs, note)
    except Exception as error:  # what emitted code raised among others
        return ValueTrace(traced.program, tuple(events), failure=error)
    return ValueTrace(traced.program, tuple(events), outputs)


def copy_value(value: Value) -> Value:
    """Return a tensor in a copy of its whole storage, and another value as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    storage = value.detach().untyped_storage().clone()  # type: ignore[no-untyped-call]
    copy = torch.empty(0, dtype=value.dtype, device=value.device)
    return copy.set_(storage, value.storage_offset(), value.size(), value.stride())


def _after_lines(points: Sequence[Point], observer: Observer) -> "AfterLine":
    by_path: dict[LinePath, list[Point]] = {}
    for point in points:
        path = () if point.path[0] == "symbols" else point.path
        by_path.setdefault(path, []).append(point)
    counts: dict[Point, int] = {}

    def observe(point: Point, names: LineNames) -> None:
        occurrence = counts.get(point, 0)
        counts[point] = occurrence + 1
        if point.role is PointRole.SYMBOL:
            observer(Observed(point, occurrence, names.symbol(point.name)))
        elif (found := names.value(point.name)) is not None:
            observer(Observed(point, occurrence, found.value, found.written))

    def after_line(path: LinePath, names: LineNames) -> None:
        for point in by_path.get(path, ()):
            observe(point, names)

    return after_line
