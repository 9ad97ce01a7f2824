"""Tuning: what is chosen, what is recorded, what is left as it was and why."""

from collections.abc import Mapping, Sequence

import pytest
import torch
from attrs import evolve

from tests.tuning.costs import (
    FAST,
    SLOW,
    TURNS,
    Pretended,
    calling,
    constant,
    doubling,
    only,
    policy,
    refusing,
    slower,
)
from wrapperir.emit import compile_program
from wrapperir.interp import interpret
from wrapperir.ir import (
    BenchmarkChoice,
    ComputedChoice,
    Device,
    Expr,
    ExprOp,
    FirstChoice,
    ForcedChoice,
    Hint,
    ItemOf,
    KernelCallLine,
    Language,
    MultiKernelLine,
    NearestChoice,
    Number,
    Operation,
    Program,
    RecordedChoice,
    Selection,
    SizeOf,
    Symbol,
    TensorType,
    choose,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.report import SymbolValueError
from wrapperir.text import format_program, parse_program
from wrapperir.tuning.measure import LONGEST_REASON, Timer, Times
from wrapperir.tuning.text import format_tuning
from wrapperir.tuning.tune import Progress, tune_program
from wrapperir.verify import verify

S0, S1 = Symbol("s0"), Symbol("s1")


# what is really slower, with two emitters


@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_the_slow_choice_is_told_from_the_fast_one(emitter: str) -> None:
    tuned = tune_program(calling([64]), emitter=emitter, seconds=0.02)
    selection = policy(tuned)
    assert isinstance(selection, RecordedChoice)
    assert selection.index == 1
    slow, fast = selection.microseconds
    assert slow is not None
    assert fast is not None
    assert slow > 20 * fast
    assert selection.device.endswith(f"torch {torch.__version__}")


def test_what_is_best_flips_at_a_size_and_each_side_gets_its_own() -> None:
    # the first takes TURNS at any size, the second 64 for an element: even at TURNS / 64
    kernels = [SLOW, doubling("grows", "64 * n")]
    tuned = tune_program(
        calling([S0], kernels=kernels, upper=1 << 17), seconds=0.005, samples=24
    )
    selection = policy(tuned)
    assert isinstance(selection, ComputedChoice)
    even = TURNS // 64
    for size in (1, 17, even // 4):
        assert choose(selection, (), {"n": size}) == 1
    for size in (even * 4, 50_000, 1 << 17):
        assert choose(selection, (), {"n": size}) == 0
    assert parse_program(format_program(tuned.program)) == tuned.program
    assert verify(tuned.program) == ()
    compiled = compile_program(tuned.program)
    for size in (2, 40_000):
        x = torch.arange(float(size))
        assert_doubled(interpret(tuned.program, [x], {}), x)
        assert_doubled(compiled([x]), x)


def assert_doubled(outputs: Sequence[object], x: torch.Tensor) -> None:
    (out,) = outputs
    assert isinstance(out, torch.Tensor)
    torch.testing.assert_close(out, 2 * x, rtol=0, atol=0)


# what is recorded


def test_one_case_is_recorded_with_its_times() -> None:
    tuned = tune_program(calling([64]), timer=slower())
    assert policy(tuned) == RecordedChoice(1, (100.0, 5.0), only(tuned).device)
    assert parse_program(format_program(tuned.program)) == tuned.program
    assert verify(tuned.program) == ()


@pytest.mark.parametrize(
    "selection",
    [
        BenchmarkChoice(),
        RecordedChoice(0),
        ComputedChoice(0),
    ],
)
def test_what_leaves_the_choice_to_measurements_is_tuned(selection: Selection) -> None:
    tuned = tune_program(calling([64], selection=selection), timer=slower())
    assert isinstance(policy(tuned), RecordedChoice)


def test_hints_are_replaced_by_what_was_measured() -> None:
    program = calling([64])
    line = evolve(multi(program), selection=NearestChoice((Hint(0, ()),)))
    tuned = tune_program(with_definition(program, line), timer=slower())
    assert isinstance(policy(tuned), RecordedChoice)


@pytest.mark.parametrize("selection", [FirstChoice(), ForcedChoice(1)])
def test_what_is_settled_stays(selection: Selection) -> None:
    program = calling([64], selection=selection)
    tuned = tune_program(program, timer=refusing)
    assert tuned.program == program
    assert only(tuned).cases == ()
    policy = "forced(1)" if isinstance(selection, ForcedChoice) else "first"
    reason = f"its policy is `{policy}`; write `select benchmark` to have it timed"
    assert only(tuned).reason == reason
    assert f"@twice: not tuned: {reason}" in format_tuning(tuned.report)


def multi(program: Program) -> MultiKernelLine:
    (line,) = [d for d in program.definitions if isinstance(d, MultiKernelLine)]
    return line


def with_definition(program: Program, line: MultiKernelLine) -> Program:
    rest = tuple(d for d in program.definitions if d.name != line.name)
    return evolve(program, definitions=(*rest, line))


def by_size(best: Mapping[int, int]) -> Timer:
    """Return a timer by which the choice given for a static size is the better one."""

    def time(programs: Sequence[Program], values: Mapping[str, Number]) -> Times:
        (x, *_) = programs[0].inputs
        assert isinstance(x.type, TensorType)
        (size,) = x.type.size
        assert isinstance(size, int)
        return Times((1.0, 10.0) if best[size] == 0 else (10.0, 1.0), (None, None))

    return time


def test_static_calls_that_sizes_tell_apart_get_a_choice_each() -> None:
    best = {16: 1, 64: 0, 65: 1, 4096: 0, 5000: 0}
    tuned = tune_program(calling(list(best)), timer=by_size(best))
    selection = policy(tuned)
    assert isinstance(selection, ComputedChoice)
    for size, choice in best.items():
        assert choose(selection, (), {"n": size}) == choice
    assert verify(tuned.program) == ()


def test_static_calls_that_nothing_tells_apart_get_the_best_in_total() -> None:
    b = ProgramBuilder()
    strides = ((8, 1), (1, 4))
    inputs = [b.input(tensor("f32", (4, 8), stride)) for stride in strides]
    kernels = [b.kernel(SLOW), b.kernel(FAST)]
    either = b.multi_kernel(kernels, selection=BenchmarkChoice())
    outputs = []
    for value in inputs:
        outputs.append(b.allocate(tensor("f32", (4, 8))))
        b.call(either, value, outputs[-1], 32)
    for value in inputs:
        b.free(value)

    def time(programs: Sequence[Program], values: Mapping[str, Number]) -> Times:
        x = programs[0].inputs[0].type
        assert isinstance(x, TensorType)
        return Times((5.0, 6.0) if x.stride == (8, 1) else (9.0, 2.0), (None, None))

    tuned = tune_program(b.build(*outputs), timer=time)
    assert policy(tuned) == RecordedChoice(1, (14.0, 8.0), only(tuned).device)


def test_static_calls_with_one_best_choice_are_recorded_with_the_sum_of_times() -> None:
    tuned = tune_program(calling([16, 4096]), timer=slower())
    selection = policy(tuned)
    assert isinstance(selection, RecordedChoice)
    assert selection.microseconds == (200.0, 10.0)


def test_sizes_get_names_where_no_scalar_tells_calls_apart() -> None:
    b = ProgramBuilder()
    x = b.input(tensor("f32", (S0, 8)))
    b.symbol("s0", SizeOf(x.name, 0))
    kernels = [b.kernel(SLOW), b.kernel(FAST)]
    either = b.multi_kernel(kernels, name="twice", selection=BenchmarkChoice())
    out = b.allocate(tensor("f32", (S0, 8)))
    b.call(either, x, out, 8)
    b.free(x)
    program = b.build(out)
    timer = Pretended({"slow": constant(50.0), "fast": lambda values: float(values["s0"])})
    tuned = tune_program(program, timer=timer)
    line = multi(tuned.program)
    assert [size.name for size in line.sizes] == ["x_size0"]
    assert verify(tuned.program) == ()
    assert choose(line.selection, (), {"x_size0": 2, "n": 8}) == 1
    assert choose(line.selection, (), {"x_size0": 5000, "n": 8}) == 0


def test_values_that_are_given_are_those_that_are_timed() -> None:
    timer = slower()
    tune_program(calling([S0]), symbols={"s0": (64, 128)}, timer=timer)
    assert timer.asked == [{"s0": 64}, {"s0": 128}]
    with pytest.raises(SymbolValueError):
        tune_program(calling([S0]), symbols={"s7": (64,)}, timer=timer)


def test_other_kernels_than_those_named_stay() -> None:
    program = calling([64])
    assert tune_program(program, kernels=["other"], timer=refusing).program == program
    assert tune_program(program, kernels=["twice"], timer=slower()).program != program


# failures


def test_a_choice_that_fails_is_not_chosen_and_the_report_says_why() -> None:
    timer = Pretended({"slow": constant(100.0), "fast": constant(None)})
    tuned = tune_program(calling([64]), timer=timer)
    assert policy(tuned) == RecordedChoice(0, (100.0, None), only(tuned).device)
    (failure,) = only(tuned).failures
    assert (failure.choice, failure.reason) == ("fast", "it broke")
    assert "@fast has no time: it broke" in format_tuning(tuned.report)


@pytest.mark.parametrize("emitter", ["python", "fx", "cpp"])
def test_a_kernel_that_does_not_compile_has_no_time(emitter: str) -> None:
    wrong = evolve(FAST, name="wrong", source="this is no C++")
    program = calling([64], kernels=[wrong, FAST])
    tuned = tune_program(program, emitter=emitter, seconds=0.01)
    selection = policy(tuned)
    assert isinstance(selection, RecordedChoice)
    assert selection.index == 1
    assert selection.microseconds[0] is None
    (failure,) = only(tuned).failures
    assert failure.choice == "wrong"
    assert failure.reason.startswith("WIR709")
    assert "error: " in failure.reason
    assert "this" in failure.reason
    assert len(failure.reason) <= LONGEST_REASON


def test_a_kernel_whose_choices_all_fail_stays_as_it_was() -> None:
    timer = Pretended({"slow": constant(None), "fast": constant(None)})
    program = calling([S0])
    tuned = tune_program(program, timer=timer)
    assert tuned.program == program
    assert only(tuned).chosen is None
    assert "no choice could be timed" in only(tuned).reason
    assert len(timer.asked) < 4  # what fails everywhere is not tried at all sizes


def test_what_cannot_be_timed_stays_and_the_report_says_why() -> None:
    b = ProgramBuilder()
    cell, x = b.input(tensor("i64", ())), b.input(tensor("f32", (1 << 20,)))
    b.symbol("u0", ItemOf(cell.name), lower=1)
    part = b.reinterpret(x, tensor("f32", (Symbol("u0"),)))
    out = b.allocate(tensor("f32", (Symbol("u0"),)))
    kernels = [b.kernel(SLOW), b.kernel(FAST)]
    b.call(b.multi_kernel(kernels, selection=BenchmarkChoice()), part, out, Symbol("u0"))
    for value in (part, x, cell):
        b.free(value)
    late = b.build(out)

    triton, opaque = (
        [evolve(kernel, language=language, grid=grid) for kernel in (SLOW, FAST)]
        for language, grid in ((Language.TRITON, (1,)), (Language.OPAQUE, ()))
    )
    missing = Device("cuda", 63)
    uncalled = evolve(calling([64]), lines=(), outputs=())
    for program, reason in (
        (late, "u0 is read from a tensor and has no upper bound"),
        (calling([64], kernels=opaque), "opaque"),
        (calling([64], kernels=triton), "interpreted"),
        (calling([64], device=missing), "no device cuda:63"),
        (uncalled, "nothing calls it"),
        (calling([1 << 30]), "more than the limit"),
    ):
        tuned = tune_program(program, timer=refusing)
        assert tuned.program == program, reason
        assert reason in only(tuned).reason
        assert f"not tuned: {only(tuned).reason}" in format_tuning(tuned.report)


def test_interpreted_kernels_are_timed_if_asked() -> None:
    triton = [
        evolve(kernel, language=Language.TRITON, grid=(1,)) for kernel in (SLOW, FAST)
    ]
    tuned = tune_program(calling([64], kernels=triton), timer=slower(), interpreted=True)
    assert isinstance(policy(tuned), RecordedChoice)


# progress


def test_progress_goes_from_none_to_all_cases() -> None:
    seen: list[Progress] = []
    tune_program(calling([S0]), samples=3, timer=slower(), progress=seen.append)
    assert seen == [*(Progress("twice", at, 3) for at in range(3)), Progress("", 3, 3)]


def test_progress_names_each_choice_before_it_runs() -> None:
    seen: list[Progress] = []
    tune_program(calling([S0]), samples=2, seconds=0.001, progress=seen.append)
    assert seen == [
        *(
            Progress("twice", at, 2, choice)
            for at in range(2)
            for choice in ("", "slow", "fast")
        ),
        Progress("", 2, 2),
    ]


def test_values_at_which_an_argument_has_none_are_left_out() -> None:
    timer = slower()

    def with_count(count: Expr) -> Program:
        program = calling([S0], upper=64)
        (call,) = (a for a in program.lines if isinstance(a, KernelCallLine))
        changed = evolve(call, arguments=(*call.arguments[:2], count))
        lines = tuple(changed if line is call else line for line in program.lines)
        return evolve(program, lines=lines)

    halves = Operation(ExprOp.TRUEDIV, (S0, 2))
    tuned = tune_program(with_count(halves), timer=timer)
    assert only(tuned).chosen == 1
    assert timer.asked
    assert all(values["s0"] % 2 == 0 for values in timer.asked)
    never = tune_program(with_count(S0 // 0), timer=refusing)
    assert "an argument has no value" in only(never).reason
