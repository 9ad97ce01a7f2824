"""The search for the first line whose values differ between two runs."""

from collections.abc import Mapping, Sequence, Set
from typing import TypeAlias

import torch
from attrs import define, evolve, field

from wrapperir.diagnostics import DiagnosticError, LinePath, first_line
from wrapperir.emit import Value
from wrapperir.trace.alone import line_text, lines_alone, marks_until
from wrapperir.trace.comparison import Comparison, compare
from wrapperir.trace.differences import Agreement, Difference, DifferenceKind, RunSide
from wrapperir.trace.overwritten import find_overwriting
from wrapperir.trace.pairs import Mark, Pair, Pairs, batches, match_marks
from wrapperir.trace.points import Point, PointRole
from wrapperir.trace.runs import Observed, TracedProgram
from wrapperir.trace.summary import digest_of, summarize
from wrapperir.trace.written import WrittenElements, output_mask

BUDGET = 1 << 30
"""Bytes of values of each run that are kept at once to be compared."""

_Kept: TypeAlias = dict[tuple[Point, int], Observed]


def diff_runs(
    first: RunSide,
    second: RunSide,
    inputs: Sequence[Value],
    constants: Mapping[str, torch.Tensor],
    *,
    tolerance: float | None = None,
    seed: int = 0,
    budget: int = BUDGET,
    check_memory: bool = False,
) -> Difference | Agreement:
    """Run both sides on copies of the inputs; return the first difference of the second.

    The programs have the same inputs and outputs: one may be what passes made of the other.
    Values of one program are matched by line, those of two by name.  They are compared as
    :func:`compare` does, without the elements that nothing wrote.  No more than ``budget``
    bytes of each run are kept at once, or one value; where that is not enough, both sides
    run again.  With ``check_memory`` the code of the second side also checks its memory.
    This executes the kernels of both.
    """
    search = _DifferenceSearch(
        first,
        second,
        TracedProgram.of(first.program, first.emitter, constants, seed),
        TracedProgram.of(second.program, second.emitter, constants, seed),
        inputs,
        tolerance,
        budget,
    )
    return search.run(check_memory=check_memory)


@define(eq=False)
class _MarkedRun:
    """A run: what it wrote, and how it ended."""

    marks: list[Mark]
    outputs: tuple[Value, ...] = ()
    inputs: tuple[Value, ...] = ()
    failure: Exception | None = None


@define(eq=False)
class _DifferenceSearch:
    first: RunSide
    second: RunSide
    traced_first: TracedProgram
    traced_second: TracedProgram
    inputs: Sequence[Value]
    tolerance: float | None
    budget: int
    same: bool = field(init=False)
    written: WrittenElements = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.same = self.traced_first.program == self.traced_second.program
        interprets = None in (self.first.emitter, self.second.emitter)
        self.written = WrittenElements(None if interprets else self._masks)

    def run(self, *, check_memory: bool) -> Difference | Agreement:
        known = _marked(self.traced_first, self.inputs)
        found = _marked(self.traced_second, self.inputs)
        pairs = match_marks(known.marks, found.marks, same_program=self.same)
        # What a program that refuses its inputs writes before it does means nothing.
        both_fail = known.failure is not None and found.failure is not None
        return (
            (self._failure(known, found, pairs) if both_fail else None)
            or self._value_difference(pairs, known, found)
            or self._failure(known, found, pairs)
            or (self._flow(pairs) if self.same else None)
            or self._difference_without_observations(check_memory, pairs, known, found)
            or Agreement(
                compared=len(pairs.both),
                not_compared=len(pairs.only_first) + len(pairs.only_second),
            )
        )

    # What lines write

    def _value_difference(
        self, pairs: Pairs, known: _MarkedRun, found: _MarkedRun
    ) -> Difference | None:
        if self.same:
            difference, pair = self._first_different(pairs.both)
        else:
            # A pass may make a view earlier or later, when its memory holds something else.
            views = [p for p in pairs.both if p.second.point.role is PointRole.VIEW]
            others = [p for p in pairs.both if p.second.point.role is not PointRole.VIEW]
            difference, pair = self._first_different(others)
            if pair is not None:
                before = {mark.place for mark in marks_until(found.marks, pair.second)}
                earlier = [view for view in views if view.second.place in before]
                difference, pair = self._first_different([*earlier, pair])
        if difference is None or pair is None:
            return None
        return self._narrowed(difference, pair, pairs, known, found)

    def _first_different(
        self, pairs: Sequence[Pair]
    ) -> tuple[Difference | None, Pair | None]:
        for batch in batches(pairs, self.budget):
            kept = _kept(self.traced_first, self.inputs, {p.first.place for p in batch})
            got = _kept(self.traced_second, self.inputs, {p.second.place for p in batch})
            for pair in batch:
                both = kept.get(pair.first.place), got.get(pair.second.place)
                if both[0] is None or both[1] is None:  # an earlier failure
                    continue
                difference = self._compared(pair, both[0], both[1])
                if difference is not None:
                    return difference, pair
        return None, None

    def _compared(self, pair: Pair, wanted: Observed, found: Observed) -> Difference | None:
        if not self.same and _facts(wanted.value) != _facts(found.value):
            return None  # a pass gave the name to another value
        comparison = compare(wanted.value, found.value, self.tolerance)
        if comparison is None or not self.written.are_known(found):
            return None
        mask = self.written.mask(wanted, found)
        if mask is not None:
            comparison = compare(wanted.value, found.value, self.tolerance, mask)
            if comparison is None:
                return None
        point, times = pair.second.point, pair.second.occurrence
        mark = "" if point.role is PointRole.SYMBOL else "%"
        again = f" the {times + 1}th time" if times else ""
        return Difference(
            kind=DifferenceKind.VALUE,
            program=self.traced_second.program,
            path=point.path,
            message=f"{mark}{point.name} differs{again} in {self.second.title} from"
            f" {self.first.title}: {comparison}",
            subject=f"{mark}{point.name}",
            wanted=summarize(wanted.value, mask),
            found=summarize(found.value, mask),
        )

    def _narrowed(
        self,
        difference: Difference,
        pair: Pair,
        pairs: Pairs,
        known: _MarkedRun,
        found: _MarkedRun,
    ) -> Difference:
        """Return the difference, or the earlier overwriting of what its line reads."""
        if self.second.emitter is not None:
            overwriting = find_overwriting(self.traced_second, self.inputs, pair.second)
            if overwriting is not None:
                return evolve(overwriting, wanted=None, found=None)
        before = (
            [*marks_until(known.marks, pair.first)],
            [*marks_until(found.marks, pair.second)],
        )
        return self._with_lines_alone(difference, pairs, *before)

    def _with_lines_alone(
        self,
        difference: Difference,
        pairs: Pairs,
        first: Sequence[Mark],
        second: Sequence[Mark],
    ) -> Difference:
        """Return the difference with the lines of these marks that only one run has."""
        if self.same:
            return difference
        one = self.traced_first.program, pairs.only_first
        other = self.traced_second.program, pairs.only_second
        absent = lines_alone(first, *one, *other)
        return evolve(
            difference,
            unmatched=lines_alone(second, *other, *one),
            absent=tuple(line_text(self.traced_first.program, path) for path in absent),
        )

    def _masks(self) -> "dict[tuple[Point, int], torch.Tensor] | None":
        """Return masks of what the second program writes only a part of."""
        masks: dict[tuple[Point, int], torch.Tensor] = {}

        def keep(seen: Observed) -> None:
            if seen.written is not None:
                masks[seen.point, seen.occurrence] = seen.written.clone()

        traced = evolve(self.traced_second, emitter=None)
        try:
            traced.run(self.inputs, keep)
        except Exception:  # it runs programs of the CPU only
            return None
        return masks

    # How runs end

    def _failure(
        self, known: _MarkedRun, found: _MarkedRun, pairs: Pairs
    ) -> Difference | None:
        """Return the failure of a run; that of the first if both fail."""
        if known.failure is None and found.failure is None:
            return None
        side, run = (self.second, found) if known.failure is None else (self.first, known)
        traced = self.traced_first if run is known else self.traced_second
        missing = pairs.only_second if run is known else pairs.only_first
        failure = run.failure
        assert failure is not None
        path = _path_of(failure, observed=side.emitter is not None)
        where = ""
        if path is None and self.same and missing:
            path = missing[0].point.path
            where = ", at or before this line"
        both_fail = known.failure is not None and found.failure is not None
        who = "both runs fail" if both_fail else f"{side.title} fails"
        return Difference(
            kind=DifferenceKind.BOTH_FAIL if both_fail else DifferenceKind.FAILURE,
            program=traced.program,
            path=path,
            message=f"{who}{where}: {_said(failure)}",
            subject=_subject_of(failure),
        )

    def _flow(self, pairs: Pairs) -> Difference | None:
        for marks, title, other in (
            (pairs.only_first, self.first.title, self.second.title),
            (pairs.only_second, self.second.title, self.first.title),
        ):
            if marks:
                return Difference(
                    kind=DifferenceKind.FLOW,
                    program=self.traced_second.program,
                    path=marks[0].point.path,
                    message=f"this line runs in {title}, and not in {other}",
                )
        return None

    def _difference_without_observations(
        self, check_memory: bool, pairs: Pairs, known: _MarkedRun, found: _MarkedRun
    ) -> Difference | None:
        difference = self._different_results(check_memory)
        if difference is None or difference.kind is not DifferenceKind.RESULT:
            return difference
        return self._with_lines_alone(difference, pairs, known.marks, found.marks)

    def _different_results(self, check_memory: bool) -> Difference | None:
        """Compare runs of which nothing is observed: outputs, inputs and failures."""
        known = _marked(self.traced_first, self.inputs, ())
        traced = self.traced_second
        if check_memory and traced.emitter is not None:
            traced = evolve(traced, emitter=traced.emitter.checking_memory())
        found = _marked(traced, self.inputs, ())
        nothing = Pairs((), (), ())
        if failed := self._failure(known, found, nothing):
            path = _path_of(found.failure, observed=False)
            return failed if path is None else evolve(failed, path=path)
        program = self.traced_second.program
        named = [*((f"output {i}", ("outputs", i)) for i, _ in enumerate(known.outputs))]
        values = [*zip(known.outputs, found.outputs, strict=False)]
        if len(known.outputs) != len(found.outputs):
            message = f"{len(found.outputs)} outputs for {len(known.outputs)}"
            return Difference(
                kind=DifferenceKind.RESULT, program=program, path=None, message=message
            )
        for index, item in enumerate(program.inputs):
            if not item.donated:
                named.append((f"input %{item.name} afterwards", ("inputs", index)))
                values.append((known.inputs[index], found.inputs[index]))
        for (name, path), (wanted, got) in zip(named, values, strict=True):
            comparison = _compared_results(wanted, got, self.tolerance)
            if comparison is not None and path[0] == "outputs":
                sides = self.traced_first, self.traced_second
                mask = output_mask(*sides, self.inputs, int(path[1]))
                comparison = _compared_results(wanted, got, self.tolerance, mask)
            if comparison is not None:
                return Difference(
                    kind=DifferenceKind.RESULT,
                    program=program,
                    path=path,
                    message=f"{name} differs in {self.second.title} from"
                    f" {self.first.title}, and no line that was observed: {comparison}",
                    wanted=summarize(wanted),
                    found=summarize(got),
                )
        return None


def _compared_results(
    wanted: Value,
    found: Value,
    tolerance: float | None,
    written: torch.Tensor | None = None,
) -> Comparison | str | None:
    if wanted is None or found is None:
        return None if wanted is found else f"{found!r} for {wanted!r}"
    return compare(wanted, found, tolerance, written)


def _marked(
    traced: TracedProgram, inputs: Sequence[Value], points: Sequence[Point] | None = None
) -> _MarkedRun:
    run = _MarkedRun([])

    def note(seen: Observed) -> None:
        value, is_partial = seen.value, seen.written is not None
        digest, nbytes = repr(value), 8
        if isinstance(value, torch.Tensor):
            digest, nbytes = "" if is_partial else digest_of(value), value.nbytes
        run.marks.append(Mark(seen.point, seen.occurrence, digest, nbytes, is_partial))

    try:
        run.outputs, run.inputs = traced.run(inputs, note, points)
    except Exception as error:  # what emitted code raised among others
        run.failure = error
    return run


def _kept(
    traced: TracedProgram, inputs: Sequence[Value], places: Set[tuple[Point, int]]
) -> _Kept:
    """Run again and return copies of the values at these places."""
    kept: _Kept = {}

    def keep(seen: Observed) -> None:
        if (seen.point, seen.occurrence) in places:
            value = seen.value
            if isinstance(value, torch.Tensor):
                value = value.detach().cpu().clone()
            mask = None if seen.written is None else seen.written.clone()
            kept[seen.point, seen.occurrence] = evolve(seen, value=value, written=mask)

    try:
        traced.run(inputs, keep)
    except Exception:
        return kept
    return kept


def _facts(value: object) -> object:
    return (value.dtype, value.shape) if isinstance(value, torch.Tensor) else None


def _path_of(error: Exception | None, *, observed: bool) -> LinePath | None:
    """Return the line of an error; places of a program with observations are others."""
    if observed or not isinstance(error, DiagnosticError):
        return None
    return error.diagnostics[0].path


def _subject_of(error: Exception) -> str | None:
    return error.diagnostics[0].subject if isinstance(error, DiagnosticError) else None


def _said(error: Exception) -> str:
    if isinstance(error, DiagnosticError):
        found = error.diagnostics[0]
        return f"{found.code.value}: {found.message}"
    return f"{type(error).__name__}: {first_line(error)}"
