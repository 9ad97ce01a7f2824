"""The parts of ``plugins check``: features, processes, devices, drawn programs, reports."""

import ctypes
import os
from functools import partial

import pytest
import torch
from attrs import evolve
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.testing.wrong_emitters import WRONG, WrongLines, each_line, not_zeroed
from wrapperir import ir as wir
from wrapperir.cli.plugin_report import format_report
from wrapperir.emit import Artifact, Emitter, Support, check_support
from wrapperir.emit.support import fit_program
from wrapperir.ir.blocks import walk_lines
from wrapperir.testing import CASES, Case, Outcome, check_case, programs
from wrapperir.testing.conformance_kernels import kernel_cases
from wrapperir.testing.inputs import run_example
from wrapperir.testing.suite import (
    CheckReport,
    CheckResult,
    CheckSelection,
    Status,
    check_emitter,
    check_program,
    suite_names,
)
from wrapperir.testing.suite.devices import (
    Placing,
    absence_of,
    moved,
    moved_with_copies,
    placings,
)
from wrapperir.testing.suite.drawn import check_drawn
from wrapperir.testing.suite.features import FEATURES, feature_of, suite_cases
from wrapperir.testing.suite.leaks import memory_meter
from wrapperir.testing.suite.processes import CheckEndedError, in_own_process
from wrapperir.text import format_program, parse_program
from wrapperir.verify import verify
from wrapperir_python.emitter import PythonEmitter

KERNELS = {
    language: kernel_cases(language) for language in (wir.Language.CPP, wir.Language.TRITON)
}
NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"
EVERY = [*CASES, *KERNELS[wir.Language.CPP], *KERNELS[wir.Language.TRITON]]


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)
def test_every_case_has_a_feature_and_is_valid(case: Case) -> None:
    assert feature_of(case) in FEATURES
    assert verify(case.program) == ()


def test_every_name_of_a_feature_is_of_a_case() -> None:
    names = {case.name.removesuffix("_cpp").removesuffix("_triton") for case in EVERY}
    assert names == {name for cases in FEATURES.values() for name in cases}


@pytest.mark.parametrize("case", KERNELS[wir.Language.CPP], ids=lambda case: case.name)
def test_cases_with_kernels_only_call_no_operator(case: Case) -> None:
    kinds = {type(line) for line in walk_lines(case.program.lines)}
    assert wir.ExternKernelLine not in kinds


def test_memory_is_not_zero_in_the_process_of_a_check() -> None:
    def check() -> list[CheckResult]:
        library = ctypes.CDLL(None)
        library.malloc.restype = ctypes.c_void_p
        address = library.malloc(50_000)
        first = ctypes.string_at(address, 1)
        return [CheckResult("memory", first.hex(), Status.PASSED)]

    if not hasattr(ctypes.CDLL(None), "mallopt"):
        pytest.skip("the C library has no mallopt")
    (result,) = in_own_process(check, 10)
    assert result.case == "bf"


def test_a_process_that_raises_says_so() -> None:
    def check() -> list[CheckResult]:
        raise LookupError("nothing there")

    with pytest.raises(CheckEndedError, match=r"status 1 \(LookupError: nothing there\)"):
        in_own_process(check, 10)


class Counting(PythonEmitter):
    name = "counting"
    support = Support(devices=frozenset({"acme"}))
    bytes = 0

    def live_bytes(self, device: str) -> int | None:
        return self.bytes if device == "acme" else None


def test_an_emitter_counts_the_memory_of_its_device() -> None:
    assert memory_meter(PythonEmitter(), "acme") is None
    emitter = Counting()
    meter = memory_meter(emitter, "acme")
    assert meter is not None
    assert meter() == 0
    emitter.bytes = 7
    assert meter() == 7


def test_devices_are_counted_without_cuda_while_checks_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(NVML, raising=False)
    seen: list[str | None] = []
    selection = CheckSelection(features=frozenset({"comments"}), devices=frozenset({"cpu"}))
    report = check_emitter(
        PythonEmitter(), selection, lambda _: seen.append(os.environ.get(NVML))
    )
    assert seen == ["1"] * len(report.results)
    assert seen
    assert NVML not in os.environ


def test_a_process_whose_children_cannot_use_cuda_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, device: str) -> None:
        raise RuntimeError(f"Cannot re-initialize {device} in forked subprocess.")

    monkeypatch.setattr(torch, "empty", refuse)
    assert f"counted its devices without {NVML}=1" in str(absence_of("cuda"))


def test_a_device_that_pytorch_lacks_is_reached_by_copies() -> None:
    found = placings(OnAcme())
    assert list(found) == ["cpu", "acme"]
    assert all(isinstance(placing, Placing) for placing in found.values())
    lines = frozenset(wir.LINES) - {wir.ExternKernelLine}
    support = Support(lines=lines, devices=frozenset({"acme"}))
    lacking = placings(emitter_of(support))["acme"]
    assert lacking == (
        "PyTorch has no device acme for inputs, and without extern_kernel lines"
        " aten.copy_.default cannot copy them"
    )


def emitter_of(support: Support) -> Emitter:
    emitter = PythonEmitter()
    emitter.support = support
    return emitter


@pytest.mark.usefixtures("inductor_prepared")
def test_callers_hold_what_is_on_a_hosted_device() -> None:
    support = evolve(OnAcme.support, hosted=frozenset({"acme"}))
    emitter = OnAcme()
    emitter.support = support
    cases = frozenset({"kernel_mutation_cpp", "kernel_conditional_cpp", "threads"})
    selection = CheckSelection(cases=cases, devices=frozenset({"acme"}))
    report = check_emitter(emitter, selection)
    # Without copies at the borders, blocks may use constants of the program.
    assert {result.case for result in report.of(Status.PASSED)} == cases
    assert not report.of(Status.FAILED)
    assert {result.feature for result in report.of(Status.SKIPPED)} == {"leaks on acme"}


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)
def test_programs_are_moved_to_a_device(case: Case) -> None:
    acme = wir.Device("acme", 0)
    assert verify(moved(case.program, acme)) == ()
    assert "cpu" not in repr(moved(case.program, acme)).replace("cpu_", "")


@pytest.mark.parametrize("case", KERNELS[wir.Language.CPP], ids=lambda case: case.name)
def test_copies_at_the_borders_keep_meaning(case: Case) -> None:
    """On the CPU itself, which the interpreter and an emitter run on."""
    place = partial(moved_with_copies, device=wir.CPU)
    if verify(place(case.program)):  # constants of blocks, and what is around tensors
        assert "conditional" in case.name or "offsets" in case.name
        return
    if case.name not in ("kernel_mutation_cpp", "kernel_outputs_cpp", "kernel_streams_cpp"):
        return
    assert check_case(PythonEmitter(), case, place) is Outcome.PASSED


SMALL = Support(
    lines=frozenset(wir.LINES)
    - {wir.MultiOutputLine}
    - {wir.AllocatePoolLine}
    - {wir.MultiKernelLine}
    - {wir.SubgraphCallLine},
    languages=frozenset({wir.Language.CPP}),
    operators=frozenset({"aten.copy_.default"}),
    streams=frozenset(),
    zero_modes=frozenset({wir.ZeroMode.ZERO_ON_CALL}),
    greatest_alignment=64,
)


@settings(max_examples=draws(60, fuzz=400))
@given(programs(support=SMALL))
def test_programs_are_drawn_within_a_support(program: wir.Program) -> None:
    assert verify(program) == ()
    assert check_support(fit_program(program, SMALL), "some", SMALL) == ()


FEW_OPERATORS = evolve(
    SMALL, operators=frozenset({"aten.copy_.default", "aten.add.Tensor", "aten.max.dim"})
)


@settings(max_examples=draws(60, fuzz=400))
@given(programs(support=FEW_OPERATORS))
def test_programs_call_declared_operators_only(program: wir.Program) -> None:
    assert verify(program) == ()
    fitted = fit_program(program, FEW_OPERATORS)
    assert check_support(fitted, "some", FEW_OPERATORS) == ()


@pytest.mark.slow
@pytest.mark.parametrize("operator", ["aten.copy_.default", "aten.add.Tensor"])
def test_declared_operators_are_drawn(operator: str) -> None:
    def calls(program: wir.Program) -> bool:
        lines = walk_lines(program.lines)
        return operator in [
            x.operator for x in lines if isinstance(x, wir.ExternKernelLine)
        ]

    found = find(
        programs(support=FEW_OPERATORS), calls, settings=settings(derandomize=True)
    )
    assert len(found.lines) < 8


@pytest.mark.parametrize("most", [16, 128, 256])
def test_memory_is_aligned_to_what_a_support_says(most: int) -> None:
    support = Support(greatest_alignment=most)
    largest = 0

    @settings(max_examples=60, phases=(Phase.generate,), database=None)
    @given(programs(support=support))
    def draw(program: wir.Program) -> None:
        nonlocal largest
        assert verify(program) == ()
        assert check_support(fit_program(program, support), "some", support) == ()
        for line in walk_lines(program.lines):
            if isinstance(line, wir.AllocateLine | wir.AllocatePoolLine):
                largest = max(largest, line.type.alignment or 1)

    draw()
    assert largest == most


KERNELS_ONLY = Support(
    lines=frozenset(wir.LINES) - {wir.ExternKernelLine},
    languages=frozenset({wir.Language.CPP}),
)


@settings(max_examples=draws(150, fuzz=1000))
@given(programs(support=KERNELS_ONLY), st.integers(0, 9))
def test_programs_without_operators_are_valid_and_run(
    program: wir.Program, seed: int
) -> None:
    assert verify(program) == ()
    run_example(program, seed)


class NotZeroed(WrongLines):
    name = "wrong"
    support = SMALL
    change = staticmethod(each_line(not_zeroed))


def has_zeros(case: Case) -> list[CheckResult]:
    """Fail where a program allocates zeros and calls a kernel, without running it."""
    lines = case.program.lines
    modes = {x.workspace for x in lines if isinstance(x, wir.AllocateLine)}
    is_wrong = wir.ZeroMode.ZERO_ON_CALL in modes
    status = Status.FAILED if is_wrong else Status.PASSED
    text, seed = format_program(case.program), case.seeds[0]
    return [CheckResult("drawn programs", "drawn", status, program=text, seed=seed)]


def test_a_drawn_counterexample_is_small() -> None:
    *passed, failed = check_drawn(SMALL, has_zeros, 150, 0, shrinking=60)
    assert {result.status for result in passed} <= {Status.PASSED}
    assert failed.status is Status.FAILED
    assert len(parse_program(failed.program).lines) <= 6


def test_a_drawn_program_that_fails_at_times_is_a_failure() -> None:
    calls = 0

    def fails_once(case: Case) -> list[CheckResult]:
        nonlocal calls
        calls += 1
        (result,) = has_zeros(case)
        return [evolve(result, status=Status.FAILED if calls == 3 else Status.PASSED)]

    *passed, failed = check_drawn(SMALL, fails_once, 20, 0, shrinking=60)
    assert [result.status for result in passed] == [Status.PASSED] * 2
    assert failed.status is Status.FAILED
    assert parse_program(failed.program)


def test_a_drawn_counterexample_repeats() -> None:
    selection = CheckSelection(
        features=frozenset({"drawn programs"}), examples=150, shrinking=2
    )
    report = check_emitter(NotZeroed(), selection)
    (failed,) = report.of(Status.FAILED)
    program = parse_program(failed.program)
    assert check_program(NotZeroed(), program, failed.seed).of(Status.FAILED)
    assert check_program(PythonEmitter(), program, failed.seed).holds
    text = format_report(report, "wrong")
    assert (
        f"plugins check wrong --program - --seed {failed.seed} <<'END_OF_PROGRAM'" in text
    )
    assert failed.program in text


def test_a_report_says_what_failed_and_why_the_rest_was_skipped() -> None:
    results = [
        CheckResult("buffers", "one", Status.PASSED),
        CheckResult("buffers", "two", Status.FAILED, "output 0 differs"),
        CheckResult("graph regions", "three", Status.SKIPPED, "not declared: some lines"),
    ]
    assert (
        format_report(CheckReport(results), "acme")
        == """\
FEATURE         PASSED   FAILED  SKIPPED
buffers              1        1        0
graph regions        0        0        1
all                  1        1        1

failed: 1
  buffers: two
    output 0 differs
    repeat with: wrapperir plugins check acme --feature buffers --case two

skipped: 1
  not declared: some lines
    graph regions (1)
"""
    )
    assert not CheckReport(results).holds
    assert not CheckReport(results[2:]).holds
    assert CheckReport(results[:1]).holds
    assert "Nothing was run" in format_report(CheckReport(results[2:]), "acme")


def test_names_of_checks() -> None:
    features, cases, devices = suite_names(PythonEmitter())
    assert "leaks" in features
    assert {wrong.case for wrong in WRONG.values()} <= set(cases)
    assert devices == ["cpu", "cuda"]


class OnAcme(PythonEmitter):
    """Runs programs of a device that PyTorch lacks on the CPU."""

    support = Support(devices=frozenset({"cpu", "acme"}))

    def emit(self, program: wir.Program) -> Artifact:
        return super().emit(moved(program, wir.CPU))


@pytest.mark.parametrize("name", ["asserts", "kernel_asserts_cpp", "symbols"])
def test_numbers_that_are_read_of_copies_are_those_of_the_case(name: str) -> None:
    (case,) = (case for case in suite_cases(wir.Language.CPP) if case.name == name)
    placing = placings(OnAcme())["acme"]
    assert isinstance(placing, Placing)
    assert check_case(OnAcme(), case, placing.place) is Outcome.PASSED


def test_a_counterexample_of_a_device_repeats_there() -> None:
    program = format_program(next(iter(suite_cases(wir.Language.CPP))).program)
    failed = CheckResult("drawn programs on acme", "drawn", Status.FAILED, "why", program)
    assert "plugins check wrong --device acme --program -" in format_report(
        CheckReport([failed]), "wrong"
    )
    report = check_program(OnAcme(), parse_program(program), 0, "acme")
    assert report.holds
    assert "drawn programs on acme" in report.rows()


class Unfinished(PythonEmitter):
    """An emitter with a fault of its author."""

    name = "unfinished"

    def emit(self, program: wir.Program) -> Artifact:
        return look_up({}, program.name)


def look_up(made: dict[str, Artifact], name: str) -> Artifact:
    return made[name]


def test_an_author_sees_where_an_emitter_raised_an_error() -> None:
    report = check_emitter(Unfinished(), CheckSelection(cases=frozenset({"comments"})))
    (result,) = report.of(Status.FAILED)
    raised, place = result.reason.splitlines()
    assert raised == "KeyError: 'main'"
    assert place.startswith("raised at ")
    assert place.endswith(", in look_up")
    plain = format_report(report, "unfinished")
    assert "Traceback" not in plain
    assert place in plain
    shown = format_report(report, "unfinished", show_tracebacks=True)
    assert "    Traceback (most recent call last):" in shown
    assert "return look_up({}, program.name)" in shown
