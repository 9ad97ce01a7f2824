"""Artifacts built where there is a GPU have choices made; the times are made up here."""

import functools
from collections.abc import Mapping, Sequence

import pytest
from attrs import evolve

from tests.cpp_emitter.moved import GPU
from wrapperir.ir import (
    CPU,
    BenchmarkChoice,
    Device,
    FirstChoice,
    KernelDefinitionLine,
    Language,
    Number,
    Program,
    Selection,
    SizeOf,
    Symbol,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.kernels import Target
from wrapperir.testing.kernels import KernelKind, library_kernel
from wrapperir.text import parse_program
from wrapperir.tuning.choice_cache import fresh_choice_cache
from wrapperir.tuning.measure import Times
from wrapperir.tuning.record import parse_record
from wrapperir.tuning.tune import tune_program
from wrapperir.verify import verify
from wrapperir_cpp.build import open_choices, tune_artifact
from wrapperir_cpp.emitter import CppEmitter

ADD = library_kernel(KernelKind.ADD, Language.TRITON)
REVERSED = library_kernel(KernelKind.ADD_REVERSED, Language.TRITON)
ONE_CONFIG = [evolve(kernel, configs=kernel.configs[:1]) for kernel in (ADD, REVERSED)]
HERE = Target("sm_90")


def adding(
    *kernels: KernelDefinitionLine,
    selection: Selection | None = None,
    device: Device = GPU,
) -> Program:
    """Add a tensor to itself with a kernel, or with one of several."""
    rows = Symbol("s0")
    b = ProgramBuilder()
    x = b.input(tensor("f32", (rows, 8), device=device))
    b.symbol("s0", SizeOf(x.name, 0), lower=2, upper=1000)
    called = [b.kernel(kernel) for kernel in kernels]
    out = b.allocate(tensor("f32", (rows, 8), device=device))
    if selection is None:
        b.call(called[0], x, x, out, rows * 8, device=device)
    else:
        multi = b.multi_kernel(called, name="either", selection=selection)
        b.call(multi, x, x, out, rows * 8, device=device)
    program = b.build(out)
    assert verify(program) == ()
    return program


@pytest.mark.parametrize(
    ("program", "names"),
    [
        (adding(ADD), {"triton_add"}),
        (adding(ONE_CONFIG[0]), set()),
        (adding(ADD, device=CPU), set()),
        (adding(*ONE_CONFIG, selection=BenchmarkChoice()), {"either"}),
        (adding(*ONE_CONFIG, selection=FirstChoice()), set()),
        (adding(ADD, REVERSED, selection=BenchmarkChoice()), {"either"}),
    ],
)
def test_what_is_open(program: Program, names: set[str]) -> None:
    assert open_choices(program) == names


class Clock:
    """Says what the choices take, and counts how often it was asked."""

    def __init__(self, *microseconds: float | None) -> None:
        self.microseconds = microseconds
        self.asked = 0

    def __call__(self, programs: Sequence[Program], values: Mapping[str, Number]) -> Times:
        self.asked += 1
        failures = (None if time else "it is made up" for time in self.microseconds)
        return Times(self.microseconds, tuple(failures))


def with_a_gpu(patch: pytest.MonkeyPatch, clock: Clock) -> None:
    patch.setattr("wrapperir_cpp.build.present_targets", lambda: (HERE,))
    patch.setattr("wrapperir.tuning.planning._missing_device", lambda _: None)
    facts = {"device": "a made-up GPU", "torch": "2.99"}
    for module in ("choice_facts", "tune"):
        patch.setattr(f"wrapperir.tuning.{module}.machine_facts", lambda _: facts)
    patch.setattr(
        "wrapperir.tuning.tune.tune_program", functools.partial(tune_program, timer=clock)
    )


def test_the_fastest_config_alone_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(3.0, 2.0)
    with_a_gpu(monkeypatch, clock)
    emitted = CppEmitter().emit(adding(ADD))
    with fresh_choice_cache():
        tuned = tune_artifact(emitted, [HERE], CppEmitter().emit)
        again = tune_artifact(emitted, [HERE], CppEmitter().emit)
    record = parse_record(tuned.files["tuning.json"])
    assert record.program == "main"
    assert [kernel.chosen for kernel in record.kernels] == [1]
    assert clock.asked == len(record.kernels[0].cases) > 1  # the second took none
    assert again.files["program.cpp"] == tuned.files["program.cpp"]
    assert [path for path in tuned.files if path.startswith("kernels/")] == [
        "kernels/triton_add_config1.py",
        "kernels/triton_add_config1.triton.json",
    ]
    text = str(tuned.files["program.wir"])
    assert "select recorded(1)" in text
    assert 'on "a made-up GPU, torch 2.99"' in text
    assert verify(parse_program(text)) == ()
    assert "launch(1, triton_add_config1, " in str(tuned.files["program.cpp"])


def test_a_record_that_is_there_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(3.0, 2.0)
    with_a_gpu(monkeypatch, clock)
    emitted = CppEmitter().emit(adding(ADD))
    kept = evolve(emitted, files={**emitted.files, "tuning.json": "a record"})
    assert tune_artifact(kept, [HERE], CppEmitter().emit) == kept
    assert clock.asked == 0


def test_what_cannot_be_timed_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with_a_gpu(monkeypatch, Clock(None, None))
    emitted = CppEmitter().emit(adding(ADD))
    with fresh_choice_cache():
        tuned = tune_artifact(emitted, [HERE], CppEmitter().emit)
    record = parse_record(tuned.files["tuning.json"])
    assert [kernel.chosen for kernel in record.kernels] == [None]
    assert tuned.files["program.cpp"] == emitted.files["program.cpp"]


@pytest.mark.parametrize(
    "program", [adding(ADD), adding(*ONE_CONFIG, selection=BenchmarkChoice())]
)
def test_without_a_gpu_of_a_target_nothing_is_timed(
    monkeypatch: pytest.MonkeyPatch, program: Program
) -> None:
    clock = Clock(3.0, 2.0)
    with_a_gpu(monkeypatch, clock)
    emitted = CppEmitter().emit(program)
    assert tune_artifact(emitted, [Target("sm_80")], CppEmitter().emit) == emitted
    assert clock.asked == 0
    facts = str(emitted.files["kernels/triton_add.triton.json"])
    assert f'"XBLOCK": {dict(ADD.configs[0].values)["XBLOCK"]}' in facts
