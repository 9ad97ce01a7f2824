"""Choices among configs, with times that are made up."""

from typing import Any, cast

import pytest
from attrs import evolve

from tests.cpp_emitter.moved import GPU
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.ir.expr import EvaluationError, Symbol
from wrapperir.ir.kernel import KernelConfig, Language
from wrapperir.ir.line import KernelDefinitionLine, SizeOf
from wrapperir.ir.program import Program
from wrapperir.ir.types import DType, tensor
from wrapperir.testing.kernels import KernelKind, library_kernel
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_cpp.tuning import (
    Buffer,
    Case,
    Tuning,
    apply_tuning,
    format_tuning,
    needs_tuning,
    parse_tuning,
    tune,
)

ADD = library_kernel(KernelKind.ADD, Language.TRITON)
FIRST, SECOND = ADD.configs
FACTS = {"device": "of tests"}


def program(*, upper: int = 10_000, device: Any = GPU) -> Program:
    rows = Symbol("s0")
    b = ProgramBuilder()
    x = b.input(tensor("f32", (rows, 8), device=device))
    b.symbol("s0", SizeOf(x.name, 0), lower=2, upper=upper)
    b.kernel(ADD)
    out = b.allocate(tensor("f32", (rows, 8), device=device))
    b.call(ADD, x, x, out, rows * 8, device=device)
    tail = b.reinterpret(out, tensor("f32", (4,), offset=4, device=device))
    b.call(ADD, tail, tail, tail, 4, device=device)
    b.free(tail)
    return b.build(out)


class Clock:
    """Says what each config takes, and notes what it was asked."""

    def __init__(self, *times: float | None) -> None:
        self.times = dict(zip((FIRST, SECOND), times, strict=True))
        self.asked: list[tuple[Case, KernelConfig]] = []

    def __call__(self, case: Case, config: KernelConfig) -> float | None:
        self.asked.append((case, config))
        return self.times[config]


def first_config(program: Program) -> KernelConfig:
    (kernel,) = program.definitions
    return cast(KernelDefinitionLine, kernel).configs[0]


@pytest.mark.parametrize(
    ("times", "best"),
    [
        ((3.0, 2.0), SECOND),
        ((2.0, 3.0), FIRST),
        ((2.0, 2.0), FIRST),
        ((None, 9.0), SECOND),
        ((None, None), FIRST),
    ],
)
def test_the_fastest_config_comes_first(
    times: tuple[float | None, ...], best: KernelConfig
) -> None:
    given = program()
    chosen = apply_tuning(given, tune(given, Clock(*times), FACTS))
    assert first_config(chosen) == best
    (kernel,) = chosen.definitions
    assert {*cast(KernelDefinitionLine, kernel).configs} == {FIRST, SECOND}
    text = str(CppEmitter().emit(chosen).files["kernels/triton_add.triton.json"])
    assert f'"XBLOCK": {dict(best.values)["XBLOCK"]}' in text


def test_kernels_are_timed_as_they_are_called() -> None:
    clock = Clock(1.0, 2.0)
    tune(program(), clock, FACTS)
    typical, small = Buffer(DType.F32, 256 * 8), Buffer(DType.F32, 4)
    assert [case.arguments for case, config in clock.asked if config == FIRST] == [
        (typical, typical, typical, 256 * 8),
        (small, small, small, 4),
    ]
    case = clock.asked[0][0]
    assert case.grid(FIRST) == (128, 1, 1)
    assert case.grid(SECOND) == (256, 1, 1)
    with pytest.raises(EvaluationError):
        case.grid(KernelConfig(()))


def test_symbols_are_within_their_ranges() -> None:
    clock = Clock(1.0, 2.0)
    tune(program(upper=6), clock, FACTS)
    assert clock.asked[0][0].arguments[-1] == 48


def test_without_a_choice_nothing_is_timed() -> None:
    one = evolve(ADD, configs=(FIRST,))
    assert not needs_tuning(evolve(program(), definitions=(one,)))
    assert not needs_tuning(program(device=tensor("f32", ()).device))
    assert needs_tuning(program())


def test_a_record_is_read_back() -> None:
    tuning = tune(program(), Clock(1.5, None), FACTS)
    assert parse_tuning(format_tuning(tuning)) == tuning


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"facts": {}, "kernels": {"k": [{"us": "1"}]}}']
)
def test_what_is_no_record_is_not_used(text: str) -> None:
    assert parse_tuning(text) is None


def test_known_times_are_used_again() -> None:
    known = tune(program(), Clock(1.0, 2.0), FACTS)
    clock = Clock(2.0, 1.0)
    assert tune(program(), clock, FACTS, known) == known
    assert clock.asked == []
    reordered = apply_tuning(program(), tune(program(), clock, FACTS))
    clock.asked.clear()
    assert tune(reordered, clock, FACTS, known).times == known.times
    assert clock.asked == []


@pytest.mark.parametrize(
    "known",
    [
        Tuning({"device": "another"}, {"triton_add": ((FIRST, 1.0), (SECOND, 2.0))}),
        Tuning(FACTS, {"triton_add": ((FIRST, 1.0),)}),
        Tuning(FACTS, {}),
        None,
    ],
)
def test_times_of_another_device_or_kernel_are_not(known: Tuning | None) -> None:
    clock = Clock(1.0, 2.0)
    tune(program(), clock, FACTS, known)
    assert len(clock.asked) == 4
