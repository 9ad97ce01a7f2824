"""Runs the checks of an emitter, on each kind of device that it declares."""

from collections.abc import Callable, Iterator, Sequence

from attrs import evolve

from wrapperir.emit import Emitter
from wrapperir.ir import Language, Program
from wrapperir.testing.conformance_case import Case
from wrapperir.testing.suite.checker import DRAWN_CASE, SHARED, THREADS, TWINS, Checker
from wrapperir.testing.suite.devices import Placing, counting_by_nvml, placings
from wrapperir.testing.suite.features import DRAWN, FEATURES, LEAKS, PROBES, suite_cases
from wrapperir.testing.suite.peak_programs import PEAKS
from wrapperir.testing.suite.placed_program import placed_program
from wrapperir.testing.suite.results import CheckReport, CheckResult, Status
from wrapperir.testing.suite.selection import CheckSelection
from wrapperir.text import format_program


def check_emitter(
    emitter: Emitter,
    selection: CheckSelection | None = None,
    show: Callable[[CheckResult], object] | None = None,
) -> CheckReport:
    """Return the results of all checks; ``show`` is given each as soon as it is known.

    This executes the code that the emitter makes, in processes of their own.
    """
    selection = selection or CheckSelection()
    results: list[CheckResult] = []
    with counting_by_nvml():
        for result in _results(emitter, selection):
            results.append(result)
            if show is not None:
                show(result)
    return CheckReport(results)


@counting_by_nvml()
def check_program(
    emitter: Emitter,
    program: Program,
    seed: int,
    device: str | None = None,
    seconds: float = 120,
) -> CheckReport:
    """Return the result of one program, such as a counterexample.

    A program of the CPU is moved to a ``device`` that the emitter declares, as cases are.
    A program of another device runs there, and is compared with that of the CPU.
    """
    found = placed_program(emitter, program, device)
    if isinstance(found, str):
        return CheckReport([CheckResult(DRAWN, "program", Status.SKIPPED, found)])
    reference, placing = found
    label = "" if placing.device == "cpu" else f" on {placing.device}"
    checker = Checker(emitter, placing, CheckSelection(seconds=seconds))
    results = checker.case(f"{DRAWN}{label}", Case("program", reference, seeds=(seed,)))
    text = format_program(program)
    return CheckReport(
        [
            evolve(result, program=text) if result.feature != LEAKS else result
            for result in results
        ]
    )


@counting_by_nvml()
def suite_names(emitter: Emitter) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
    """Return the names of features, cases and devices to check of an emitter."""
    ways = placings(emitter)
    has_own = any(isinstance(way, Placing) and way.is_own for way in ways.values())
    every = [case.name for language in TWINS for case in suite_cases(language)]
    if has_own:
        every += [case.name for case in suite_cases(Language.CPP, is_own=True)]
    names = dict.fromkeys([*every, SHARED, *PEAKS, THREADS, DRAWN_CASE])
    return (*FEATURES, *PROBES), [*names], [*ways]


def _results(emitter: Emitter, selection: CheckSelection) -> Iterator[CheckResult]:
    for kind, placing in placings(emitter).items():
        if selection.devices is not None and kind not in selection.devices:
            continue
        label = "" if kind == "cpu" else f" on {kind}"
        if isinstance(placing, str):
            yield CheckResult(f"device {kind}", "all", Status.SKIPPED, placing)
            continue
        checker = Checker(emitter, placing, selection)
        for result in checker.all():
            yield evolve(result, feature=f"{result.feature}{label}")
