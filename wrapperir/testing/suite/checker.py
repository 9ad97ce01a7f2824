"""The checks of an emitter on one kind of device, each in a process of its own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from wrapperir.diagnostics import (
    Code,
    Diagnostic,
    DiagnosticError,
    describe_failure,
    format_cause,
)
from wrapperir.emit import Emitter, Loaded, Support, check_support
from wrapperir.emit.support import fit_program, on_host
from wrapperir.ir import Language, Program, TensorType
from wrapperir.testing.conformance import Outcome, check_case
from wrapperir.testing.conformance_case import Case
from wrapperir.testing.inputs import example_constants
from wrapperir.testing.process_groups import has_groups, make_groups
from wrapperir.testing.suite.calls_at_once import thread_fault, threads_program
from wrapperir.testing.suite.devices import Placing
from wrapperir.testing.suite.drawn import check_drawn
from wrapperir.testing.suite.features import (
    CALLS_AT_ONCE,
    DRAWN,
    INPUTS,
    LEAKS,
    PEAK,
    WRONG_INPUTS,
    feature_of,
    stem,
    suite_cases,
)
from wrapperir.testing.suite.leaks import leaked_bytes, memory_meter
from wrapperir.testing.suite.peak_programs import LARGE, PEAKS, SMALL, peak_programs
from wrapperir.testing.suite.peaks import peak_fault, peak_meter
from wrapperir.testing.suite.processes import CheckEndedError, in_own_process
from wrapperir.testing.suite.results import CheckResult, Status
from wrapperir.testing.suite.selection import CheckSelection
from wrapperir.testing.suite.shared_inputs import shared_program, sharing_fault
from wrapperir.testing.suite.wrong_inputs import refusal_fault, wrong_inputs
from wrapperir.text import format_program
from wrapperir.verify import verify

if TYPE_CHECKING:
    import torch

_REFUSALS = frozenset(
    {
        *(Code.UNSUPPORTED_LINE, Code.UNSUPPORTED_LANGUAGE),
        *(Code.UNSUPPORTED_DEVICE, Code.UNSUPPORTED_FEATURE),
    }
)
TWINS = (Language.CPP, Language.TRITON)
"""The languages that cases with kernels only are in."""
THREADS, DRAWN_CASE, SHARED = "threads", "drawn", "shared_inputs"
"""The names of cases that are not conformance programs."""
_PROBED = ("mutation", "symbols", "donated", "conditional_on_condition", "outputs")
"""The cases that are given wrong inputs, and their twins with kernels only."""


@frozen(eq=False)
class _Given:
    """A loaded program, and the constants that it was given."""

    loaded: Loaded
    constants: "Mapping[str, torch.Tensor]"


@frozen
class Checker:
    """The checks of an emitter on one kind of device."""

    emitter: Emitter
    placing: Placing
    selection: CheckSelection

    def all(self) -> Iterator[CheckResult]:
        """Run all checks, and yield their results."""
        for case in suite_cases(self._twins(), is_own=self.placing.is_own):
            feature = feature_of(case)
            if self.selection.has(feature, case.name):
                yield from self.case(feature, case)
            elif self.selection.has(LEAKS, case.name) and self.selection.features:
                found = self.case(feature, case)
                yield from (result for result in found if result.feature == LEAKS)
            is_probed = stem(case).removeprefix("kernel_") in _PROBED
            if is_probed and self.selection.has(WRONG_INPUTS, case.name):
                yield from self._probe(WRONG_INPUTS, case, self._wrong_inputs)
        if self.selection.has(INPUTS, SHARED):
            case = Case(SHARED, shared_program(self._twins() or Language.CPP))
            yield from self._probe(INPUTS, case, self._shared_inputs)
        yield from self._peaks()
        if self.selection.has(CALLS_AT_ONCE, THREADS):
            case = Case(THREADS, threads_program(self._thread_language()))
            yield from self._probe(CALLS_AT_ONCE, case, self._calls_at_once)
        if self.selection.has(DRAWN, DRAWN_CASE) and self.selection.examples:
            yield from check_drawn(
                self._drawn_support(),
                lambda case: self.case(DRAWN, case, is_drawn=True),
                self.selection.examples,
                self.selection.seed,
                self.selection.shrinking,
            )

    def case(
        self, feature: str, case: Case, *, is_drawn: bool = False
    ) -> Sequence[CheckResult]:
        """Return the result of a case, and of its leak probe if it passes."""
        reason = self._lacks(case.program)
        if reason is not None:
            return [CheckResult(feature, case.name, Status.SKIPPED, reason)]
        check = partial(self._check, feature, case, is_drawn)
        text, seed = format_program(case.program), case.seeds[0]
        return [
            evolve(result, program=text, seed=seed)
            if result.status is Status.FAILED
            else result
            for result in self._isolated(feature, case, check)
        ]

    def _probe(
        self,
        feature: str,
        case: Case,
        probe: Callable[[Case, Program], Sequence[CheckResult]],
    ) -> Sequence[CheckResult]:
        reason = self._lacks(case.program)
        if reason is not None:
            return [CheckResult(feature, case.name, Status.SKIPPED, reason)]

        def check() -> Sequence[CheckResult]:
            try:
                return probe(case, self._fitted(case.program))
            except DiagnosticError as error:
                return [self._refused(feature, case, error)]

        return self._isolated(feature, case, check)

    def _isolated(
        self, feature: str, case: Case, check: Callable[[], Sequence[CheckResult]]
    ) -> Sequence[CheckResult]:
        try:
            return in_own_process(check, self.selection.seconds)
        except CheckEndedError as error:
            return [CheckResult(feature, case.name, Status.FAILED, str(error))]

    def _check(self, feature: str, case: Case, is_drawn: bool) -> Sequence[CheckResult]:
        try:
            outcome = check_case(self.emitter, case, self.placing.place)
        except DiagnosticError as error:
            return [self._refused(feature, case, error)]
        except AssertionError as error:
            return [CheckResult(feature, case.name, Status.FAILED, str(error))]
        except Exception as error:  # the emitter's code, or the emitter
            return [_raised(feature, case, f"{type(error).__name__}: {error}", error)]
        if outcome is Outcome.UNSUPPORTED:
            reason = "what faults is replaced for an emitter that does not choose kernels"
            return [CheckResult(feature, case.name, Status.SKIPPED, reason)]
        passed = CheckResult(feature, case.name, Status.PASSED)
        if is_drawn or not self.selection.has(LEAKS, case.name):
            return [passed]
        return [passed, self._leaks(case)]

    def _refused(self, feature: str, case: Case, error: DiagnosticError) -> CheckResult:
        """Return the result of a case that the emitter refuses: its limits must say why."""
        limits = self.emitter.support.limits
        first = error.diagnostics[0]
        if all(
            found.code in _REFUSALS and any(limit in found.message for limit in limits)
            for found in error.diagnostics
        ):
            reason = f"refused with {first.code.value}: {first.message}"
            return CheckResult(feature, case.name, Status.SKIPPED, reason)
        if error.__cause__ is not None:
            return _raised(feature, case, str(error), error.__cause__)
        return CheckResult(feature, case.name, Status.FAILED, str(error))

    def _leaks(self, case: Case) -> CheckResult:
        meter = memory_meter(self.emitter, self.placing.device)
        if meter is None:
            reason = f"Emitter.live_bytes does not count memory on {self.placing.device}"
            return CheckResult(LEAKS, case.name, Status.SKIPPED, reason)
        program = self._fitted(case.program)
        loaded = self._load(program, case.seeds[0]).loaded
        leaked = leaked_bytes(loaded, self._given(program), meter)
        if leaked:
            reason = f"each call keeps {leaked} bytes"
            return CheckResult(LEAKS, case.name, Status.FAILED, reason)
        return CheckResult(LEAKS, case.name, Status.PASSED)

    def _wrong_inputs(self, case: Case, program: Program) -> Sequence[CheckResult]:
        results: list[CheckResult] = []
        given = self._load(program, case.seeds[0])
        for what, inputs in wrong_inputs(self._given(program), case.seeds[0]):
            print(f"given {what}")  # a crash shows the last one
            fault = refusal_fault(given.loaded, inputs, [*given.constants.values()])
            status = Status.PASSED if fault is None else Status.FAILED
            reason = "" if fault is None else f"given {what}, {fault}"
            results.append(CheckResult(WRONG_INPUTS, case.name, status, reason))
        return results

    def _calls_at_once(self, case: Case, program: Program) -> Sequence[CheckResult]:
        loaded = self._load(program, case.seeds[0]).loaded
        fault = thread_fault(loaded, case.program, self._given(program))
        status = Status.PASSED if fault is None else Status.FAILED
        return [CheckResult(CALLS_AT_ONCE, case.name, status, fault or "")]

    def _shared_inputs(self, case: Case, program: Program) -> Sequence[CheckResult]:
        given, type = self._given(program), program.inputs[0].type
        if isinstance(type, TensorType) and type.device.kind != self.placing.device:
            reason = "the program itself copies its inputs"
            return [CheckResult(INPUTS, case.name, Status.SKIPPED, reason)]
        is_copied = given.inputs != program.inputs
        loaded = self._load(program, case.seeds[0]).loaded
        fault = sharing_fault(loaded, case.program, given, is_copied=is_copied)
        status = Status.PASSED if fault is None else Status.FAILED
        return [CheckResult(INPUTS, case.name, status, fault or "")]

    def _peaks(self) -> Iterator[CheckResult]:
        """Yield whether calls hold no more memory at once than frees allow."""
        counting = self.placing.device == "cpu"
        language = None if counting else self._twins()
        first, second = (
            peak_programs(language or Language.CPP, rows, counting=counting)
            for rows in (SMALL, LARGE)
        )
        for name in PEAKS:
            if self.selection.has(PEAK, name):
                probe = partial(self._peak, first[name])
                yield from self._probe(PEAK, Case(name, second[name]), probe)

    def _peak(self, first: Program, case: Case, program: Program) -> Sequence[CheckResult]:
        device = self.placing.device
        meter = peak_meter(self.emitter, device)
        if meter is None:
            reason = f"Emitter.peak_bytes does not count memory on {device}"
            return [CheckResult(PEAK, case.name, Status.SKIPPED, reason)]

        def load(program: Program) -> Loaded:
            return self._load(program, case.seeds[0]).loaded

        fault = peak_fault((self._fitted(first), program), self._given, load, meter)
        status = Status.PASSED if fault is None else Status.FAILED
        return [CheckResult(PEAK, case.name, status, fault or "")]

    def _load(self, program: Program, seed: int) -> "_Given":
        make_groups(program)
        constants = example_constants(self._given(program), seed)
        loaded = self.emitter.load(self.emitter.emit(program), constants)
        return _Given(loaded, constants)

    def _fitted(self, program: Program) -> Program:
        place = self.placing.place
        placed = program if place is None else place(program)
        return fit_program(placed, self.emitter.support)

    def _given(self, program: Program) -> Program:
        """Return a program with the inputs and constants that callers have."""
        return on_host(program, self.emitter.support.hosted)

    def _lacks(self, program: Program) -> str | None:
        """Return why the emitter does not declare a program, ``None`` if it does."""
        program = self._fitted(program)
        if not has_groups(program):
            return "PyTorch has no process groups of gloo"
        faults = verify(program) if self.placing.place is not None else ()
        if faults:
            return f"it has no form on {self.placing.device}: {faults[0].message}"
        return lacking(check_support(program, self.emitter.name, self.emitter.support))

    def _twins(self) -> Language | None:
        """Return the language of the cases with kernels only, as they are for the CPU."""
        if self.placing.is_own:
            return Language.CPP
        for language in TWINS:
            is_there = language is not Language.CPP or self.placing.device != "cuda"
            if is_there and language in self.emitter.support.languages:
                return language
        return None

    def _drawn_support(self) -> Support:
        """Return the support for CPU programs that are drawn and then placed.

        A language whose kernels the emitter refuses on the device is left out.  Kernels of
        an emitter's own are drawn in C++.
        """
        support = self.emitter.support
        streams = frozenset({"cpu"} if self.placing.device in support.streams else ())
        languages = frozenset(x for x in TWINS if x in support.languages and self._emits(x))
        if self.placing.is_own:
            languages = frozenset({Language.CPP})
        return evolve(support, devices=None, streams=streams, languages=languages)

    def _emits(self, language: Language) -> bool:
        """Return whether the emitter does not refuse kernels in a language."""
        try:
            self.emitter.emit(self._fitted(threads_program(language)))
        except DiagnosticError as error:
            return not {d.code for d in error.diagnostics} <= _REFUSALS
        except Exception:  # a check of a drawn program shows it
            return True
        return True

    def _thread_language(self) -> Language | None:
        # The interpreter of Triton on the CPU runs one kernel at a time.
        twins = self._twins()
        is_slow = twins is Language.TRITON and self.placing.device == "cpu"
        return None if is_slow else twins


def lacking(found: Sequence[Diagnostic]) -> str | None:
    """Return what a support lacks for a program with these diagnostics, if anything."""
    lines = sorted(str(d.subject) for d in found if d.code is Code.UNSUPPORTED_LINE)
    reasons = [f"{', '.join(lines)} lines"] if lines else []
    for diagnostic in found:
        if diagnostic.code is not Code.UNSUPPORTED_LINE:
            _, _, what = diagnostic.message.partition(" emitter has no support for ")
            reasons.append(what or diagnostic.message)
    return f"not declared: {'; '.join(dict.fromkeys(reasons))}" if reasons else None


def _raised(feature: str, case: Case, message: str, error: BaseException) -> CheckResult:
    """Return the result of a case in which the emitter or its code raised an error."""
    _, note = describe_failure(error)
    reason = f"{message}\n{note.message}"
    shown = format_cause(error)
    return CheckResult(feature, case.name, Status.FAILED, reason, traceback=shown)
