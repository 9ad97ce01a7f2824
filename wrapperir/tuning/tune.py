"""Times the choices of a program's multi-kernels, and records the best of each."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from attrs import define, evolve, frozen

from wrapperir.caching import digest_of
from wrapperir.diagnostics import Severity
from wrapperir.emit import Emitter
from wrapperir.emit.pipeline import find_emitter
from wrapperir.emit.torch_dtypes import torch_device
from wrapperir.ir import Device, MultiKernelLine, Program
from wrapperir.passes import split_configs_but
from wrapperir.tuning import LARGEST_BYTES, SAMPLES, SECONDS
from wrapperir.tuning.calls import symbol_lines, values_at, with_used_sizes
from wrapperir.tuning.choice_cache import (
    CaseStore,
    ChoiceCache,
    case_facts,
    kernel_facts,
)
from wrapperir.tuning.choice_facts import machine_facts
from wrapperir.tuning.decision import decide, selection_of
from wrapperir.tuning.measure import CallTimer, Timer
from wrapperir.tuning.planning import PlannedKernel, Rules, TuningPlan, kept_whole
from wrapperir.tuning.report import (
    CaseReport,
    FailureReport,
    KernelReport,
    TuningReport,
)
from wrapperir.tuning.shapes import Sampling, check_given
from wrapperir.verify import verify

_HOPELESS = 2
"""A call is given up after this many samples at which all choices failed."""


@frozen
class Progress:
    """The progress of tuning: ``done`` of ``total`` cases, and the current kernel.

    ``choice`` is the kernel of a choice that is about to run for the first time in a case.
    ``kept`` is the number of finished cases that are in the cache.
    """

    kernel: str
    done: int
    total: int
    choice: str = ""
    kept: int = 0


@frozen
class Tuned:
    """A program with the decisions in its multi-kernels, and the report."""

    program: Program
    report: TuningReport


def tune_program(
    program: Program,
    *,
    emitter: str | Emitter = "python",
    cache: ChoiceCache | None = None,
    kernels: Collection[str] | None = None,
    symbols: Mapping[str, Sequence[int]] | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
    seconds: float = SECONDS,
    interpreted: bool = False,
    progress: Callable[[Progress], None] | None = None,
    timer: Timer | None = None,
) -> Tuned:
    """Return a verified program with the best choice of each multi-kernel recorded.

    A multi-kernel is tuned unless its policy is ``first`` or ``forced``, and a kernel
    with several configs becomes a multi-kernel of its configs first.  Each different call
    is timed on its own, compiled with ``emitter``, at up to ``samples`` values of
    its symbols (:func:`~wrapperir.tuning.shapes.samples_of`) or those that ``symbols``
    gives by name.  Where one choice is best the policy is ``recorded``, otherwise
    ``computed``.  Kernels that cannot be timed stay unchanged, and the report says why.

    Cases in ``cache`` are not timed again, and new times are stored there at once;
    :func:`~wrapperir.tuning.choice_cache.default_cache` is the user's.  With ``kernels``
    only the kernels of these names are tuned.  ``seconds`` is the time a case may take
    (:class:`~wrapperir.tuning.measure.CallTimer`).  Triton kernels on the CPU run in an
    interpreter, and are timed only if ``interpreted``.  ``progress`` is called before each
    case, before each choice's first run of it, and at the end; ``timer`` replaces the
    timer.

    This executes the kernels of the program.

    Raises:
        DiagnosticError: there is no such emitter.
        RuntimeError: the program is not valid.
        SymbolValueError: values are given for a name that is not a symbol read by the
            program, or are out of its range.
    """
    chosen = find_emitter(emitter) if isinstance(emitter, str) else emitter
    given = dict(symbols or {})
    check_given(symbol_lines(program), given)
    begin = time.perf_counter()
    rules = Rules(chosen, Sampling(given, samples, seed, LARGEST_BYTES), interpreted)
    plan = TuningPlan.of(program, rules, kernels)
    store = CaseStore(cache)
    total = sum(len(call.samples) for kernel in plan.kernels for call in kernel.calls)
    run = _Run(store, chosen.name, progress, total)
    if timer is None:
        timer = CallTimer(chosen, seconds, run.begin, _untimed(plan, store, chosen.name))
    tuned = {kernel.line.name: run.tune(kernel, timer) for kernel in plan.kernels}
    run.kernel = ""
    run.begin("")
    report = TuningReport(
        program=program.name,
        emitter=chosen.name,
        kernels=tuple(found for _, found in tuned.values()),
        seconds=round(time.perf_counter() - begin, 3),
        cache_problem=store.problem,
    )
    return Tuned(_recorded(program, plan, tuned), report)


def _untimed(
    plan: TuningPlan, store: CaseStore, emitter: str
) -> Iterator[Sequence[Program]]:
    """Yield the programs of each case that is to be timed, once for equal cases."""
    seen: set[str] = set()
    for kernel in plan.kernels:
        timed = kernel_facts(kernel.line, kernel.kernels)
        for planned in kernel.calls:
            for values in planned.samples:
                facts = case_facts(timed, planned.call, values, emitter)
                is_known = store.knows(facts, len(kernel.line.choices))
                if not is_known and digest_of(facts) not in seen:
                    seen.add(digest_of(facts))
                    yield planned.programs
                    break


@define
class _Run:
    """Times the cases of one program's multi-kernels, and reports progress."""

    store: CaseStore
    emitter: str
    progress: Callable[[Progress], None] | None
    total: int
    done: int = 0
    kernel: str = ""

    def begin(self, choice: str) -> None:
        """Report that a choice runs next; an empty name is the beginning of a case."""
        if self.progress is not None:
            kept = self.store.kept
            self.progress(Progress(self.kernel, self.done, self.total, choice, kept))

    def tune(
        self, kernel: PlannedKernel, timer: Timer
    ) -> tuple[MultiKernelLine, KernelReport]:
        """Return a multi-kernel with its new policy, and its report."""
        begin = time.perf_counter()
        line = kernel.line
        cases: list[CaseReport] = []
        failures: dict[FailureReport, None] = {}
        device = ""
        timed = kernel_facts(line, kernel.kernels)
        for at, planned in enumerate(kernel.calls):
            device = device or _device_name(planned.call.device)
            for tried, values in enumerate(planned.samples):
                if tried >= _HOPELESS and all(c.best is None for c in cases[-tried:]):
                    break  # it would fail at every size
                facts = case_facts(timed, planned.call, values, self.emitter)
                self.kernel = line.name
                self.begin("")
                known = self.store.load(facts, len(line.choices))
                times = timer(planned.programs, values) if known is None else known
                if known is None:
                    self.store.store(facts, times)
                for choice, failure in zip(line.choices, times.failures, strict=True):
                    if failure is not None:
                        failures[FailureReport(choice=choice.kernel, reason=failure)] = None
                self.done += 1
                case = CaseReport(
                    call=at,
                    symbols=tuple(values.items()),
                    values=tuple(values_at(line, planned.call, values).items()),
                    microseconds=times.microseconds,
                    cached=known is not None,
                )
                cases.append(case)
        chosen = decide(cases)
        reason = kernel.reason
        if chosen is None and cases:
            reason = "; ".join(filter(None, (reason, "no choice could be timed")))
        report = KernelReport(
            kernel=line.name,
            choices=tuple(choice.kernel for choice in line.choices),
            chosen=chosen,
            device=device,
            reason=reason,
            cases=tuple(cases),
            failures=tuple(failures),
            seconds=round(time.perf_counter() - begin, 3),
        )
        if chosen is None:
            return line, report
        selection = selection_of(chosen, cases, device)
        return evolve(line, selection=selection), report


def _device_name(device: Device) -> str:
    """Return a description of the device that times were taken on.

    Raises:
        RuntimeError: PyTorch has no such device here.
    """
    facts = machine_facts(torch_device(device))
    name = facts["device"]
    if "threads" in facts:
        threads = facts["threads"]
        name += f", {threads} thread{'' if threads == '1' else 's'}"
    return f"{name}, torch {facts['torch']}"


def _recorded(
    program: Program,
    plan: TuningPlan,
    tuned: Mapping[str, tuple[MultiKernelLine, KernelReport]],
) -> Program:
    """Return the program with the decisions; kernels without one stay unchanged.

    Raises:
        RuntimeError: the result is not valid.
    """
    found = {
        name: line for name, (line, report) in tuned.items() if report.chosen is not None
    }
    after = split_configs_but(program, plan.whole)
    whole = plan.whole | kept_whole(program, after, found)
    if whole != plan.whole:
        after = split_configs_but(program, whole)
    definitions = tuple(
        with_used_sizes(line, found[line.name])
        if isinstance(line, MultiKernelLine) and line.name in found
        else line
        for line in after.definitions
    )
    made = evolve(after, definitions=definitions)
    faults = () if made == program else verify(made)
    for fault in faults:
        if fault.severity is Severity.ERROR:
            raise RuntimeError(f"tuning made an invalid program: {fault.message}")
    return made
