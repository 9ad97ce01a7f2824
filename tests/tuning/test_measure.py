"""Timing: fresh arguments, turns, a budget, and failures that stop nothing else."""

import time
from collections.abc import Callable, Mapping

import pytest
import torch

from tests.cpp_emitter import moved
from tests.tuning.costs import FAST, SLOW, calling
from wrapperir.emit import Artifact, Emitter, Loaded, Support, Value
from wrapperir.ir import (
    Access,
    BufferParameter,
    DType,
    KernelDefinitionLine,
    Language,
    Program,
    ScalarParameter,
    Symbol,
    TensorType,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.kernels import triton_compile
from wrapperir.text import parse_program
from wrapperir.tuning.calls import call_program, calls_of
from wrapperir.tuning.kernel_times import MOST_TURNS
from wrapperir.tuning.measure import LONGEST_REASON, CallInputs, CallTimer
from wrapperir.verify import verify

Rule = Callable[[list[Value]], None]


class Acting(Emitter):
    """An emitter whose programs do what a rule for the kernel's name says."""

    name = "acting"
    support = Support(languages=frozenset(Language))

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self.rules = rules
        self.order: list[str] = []
        self.loaded: list[str] = []

    def emit(self, program: Program) -> Artifact:
        return Artifact(self.name, {"name": program.definitions[0].name}, "name")

    def load(self, artifact: Artifact, constants: Mapping[str, torch.Tensor]) -> Loaded:
        name = str(artifact.files["name"])
        self.loaded.append(name)
        if name not in self.rules:
            raise LookupError(f"there is no rule for {name}")

        def run(inputs: list[Value]) -> tuple[Value, ...]:
            self.order.append(name)
            self.rules[name](inputs)
            inputs.clear()
            return ()

        return run


def choices(program: Program) -> tuple[Program, ...]:
    (call,) = calls_of(program)["twice"]
    return tuple(call_program(program, call, at) for at in (0, 1))


def nothing(inputs: list[Value]) -> None:
    pass


def waiting(seconds: float) -> Rule:
    return lambda inputs: time.sleep(seconds)


def test_choices_take_turns_and_begin_in_turn() -> None:
    emitter = Acting({"slow": nothing, "fast": nothing})
    times = CallTimer(emitter, seconds=10)(choices(calling([4])), {})
    assert times.failures == (None, None)
    assert all(time is not None and time >= 0 for time in times.microseconds)
    warm_up, rounds = emitter.order[:2], emitter.order[2:]
    assert warm_up == ["slow", "fast"]
    assert len(rounds) <= 2 * MOST_TURNS
    assert rounds[:4] == ["slow", "fast", "fast", "slow"]


def test_the_budget_ends_the_rounds() -> None:
    emitter = Acting({"slow": waiting(0.01), "fast": waiting(0.01)})
    times = CallTimer(emitter, seconds=0.1)(choices(calling([4])), {})
    # a run takes 10 ms or more of its 50, so there are at most 5, and there are 3 at least
    for name in ("slow", "fast"):
        assert 1 + 3 <= emitter.order.count(name) <= 1 + 5
    assert all(time is not None and time >= 10_000 for time in times.microseconds)


def test_what_is_much_slower_takes_only_two_turns() -> None:
    emitter = Acting({"slow": waiting(0.2), "fast": nothing})
    times = CallTimer(emitter, seconds=10)(choices(calling([4])), {})
    assert emitter.order.count("slow") == 1 + 2
    assert emitter.order.count("fast") == 1 + MOST_TURNS
    slow, _ = times.microseconds
    assert slow is not None
    assert slow >= 200_000


def test_what_fails_has_a_reason_and_the_others_a_time() -> None:
    def fail(inputs: list[Value]) -> None:
        raise ZeroDivisionError("by nothing\nmore")

    emitter = Acting({"slow": fail, "fast": nothing})
    times = CallTimer(emitter, seconds=0.01)(choices(calling([4])), {})
    assert times.failures == ("ZeroDivisionError: by nothing", None)
    assert times.microseconds[0] is None
    assert times.microseconds[1] is not None
    missing = CallTimer(Acting({"fast": nothing}), 0.01)(choices(calling([4])), {})
    assert missing.failures[0] is not None
    assert "there is no rule for slow" in missing.failures[0]
    assert missing.microseconds[1] is not None


def test_a_reason_is_one_short_line_without_control_characters() -> None:
    def fail(inputs: list[Value]) -> None:
        raise RuntimeError("\x1b[31mred\x07" + "x" * 1000)

    emitter = Acting({"slow": fail, "fast": nothing})
    reason = CallTimer(emitter, seconds=0.01)(choices(calling([4])), {}).failures[0]
    assert reason is not None
    assert reason.startswith("RuntimeError: [31mredxxx")
    assert reason.isprintable()
    assert len(reason) <= LONGEST_REASON


def test_a_choice_is_told_before_its_first_run() -> None:
    told: list[str] = []
    emitter = Acting({"slow": nothing, "fast": nothing})

    def tell(name: str) -> None:
        told.append(f"{name} after {len(emitter.order)}")

    CallTimer(emitter, 0.001, tell)(choices(calling([4])), {})
    assert told == ["slow after 0", "fast after 1"]


def test_what_fails_later_loses_its_time() -> None:
    def fail(inputs: list[Value]) -> None:
        if emitter.order.count("slow") > 3:
            raise RuntimeError("worn out")

    emitter = Acting({"slow": fail, "fast": nothing})
    times = CallTimer(emitter, seconds=10)(choices(calling([4])), {})
    assert times.microseconds[0] is None
    assert times.failures == ("RuntimeError: worn out", None)
    assert emitter.order.count("slow") == 4


def test_programs_are_compiled_once_for_all_values() -> None:
    made: list[str] = []

    class Counting(Acting):
        def emit(self, program: Program) -> Artifact:
            made.append(program.definitions[0].name)
            return super().emit(program)

    timer = CallTimer(Counting({"slow": nothing, "fast": nothing}), 0.001)
    programs = choices(calling([Symbol("s0")]))
    sizes: list[int] = []
    for size in (4, 400):
        timer(programs, {"s0": size})
        sizes.append(size)
    assert made == ["slow", "fast"]


def test_programs_for_a_gpu_are_compiled_together_before_the_first_is_timed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[str] = []
    monkeypatch.setattr(triton_compile, "start_compiler", lambda: begun.append("compiler"))
    emitter = Acting({})
    on_gpu = [tuple(map(moved.on_gpu, choices(calling([size])))) for size in (4, 8)]
    on_cpu = choices(calling([4]))
    timer = CallTimer(emitter, 0.01, planned=[*on_gpu, on_cpu])
    assert emitter.loaded == []
    timer(on_gpu[1], {})
    assert sorted(emitter.loaded) == ["fast", "fast", "slow", "slow"]
    assert begun == ["compiler"]
    timer(on_gpu[0], {})
    assert len(emitter.loaded) == 4
    timer(on_cpu, {})
    assert len(emitter.loaded) == 6
    assert begun == ["compiler"]


def test_inputs_are_the_numbers_then_the_tensors() -> None:
    seen: list[list[Value]] = []
    emitter = Acting({"slow": lambda inputs: seen.append(list(inputs)), "fast": nothing})
    CallTimer(emitter, 0.001)(choices(calling([Symbol("s0")])), {"s0": 37})
    number, x, out = seen[0]
    assert number == 37
    assert isinstance(x, torch.Tensor)
    assert isinstance(out, torch.Tensor)
    assert (tuple(x.shape), tuple(out.shape)) == ((37,), (37,))
    assert float(x.abs().max()) <= 1
    assert float(x.std()) > 0.3


def in_place(access: Access) -> Program:
    b = ProgramBuilder()
    kernel = KernelDefinitionLine(
        name="grow",
        language=Language.CPP,
        parameters=(
            BufferParameter("x", DType.F32, access),
            BufferParameter("indices", DType.I64, Access.READ),
            ScalarParameter("n", DType.I64),
        ),
        entry="grow",
        source="",
    )
    x = b.input(tensor("f32", (4, 2), (8, 1), offset=3), mutated=True)
    indices = b.input(tensor("i64", (2,)))
    b.call(b.kernel(kernel), x, indices, 8)
    b.free(x)
    b.free(indices)
    return b.build()


@pytest.mark.parametrize(
    ("access", "is_restored"), [(Access.READ_WRITE, True), (Access.WRITE, False)]
)
def test_what_is_read_and_written_begins_the_same_each_time(
    access: Access, is_restored: bool
) -> None:
    program = in_place(access)
    (call,) = calls_of(program)["grow"]
    arguments = CallInputs.fresh([call_program(program, call)], {})
    x, indices = arguments.values()
    assert isinstance(x, torch.Tensor)
    assert isinstance(indices, torch.Tensor)
    assert (x.shape, x.stride(), x.storage_offset()) == ((4, 2), (8, 1), 3)
    assert x.untyped_storage().nbytes() == 4 * (3 + 3 * 8 + 1 + 1)
    assert indices.tolist() == [0, 0]
    before = x.clone()
    x.mul_(1e30)
    arguments.restore()
    assert torch.equal(x, before) is is_restored


def timed_on(text: str, kernel: str = "m") -> tuple[list[torch.Tensor], CallInputs]:
    """Return the tensors that the choices of a call in a program are timed on."""
    program = parse_program(text)
    assert verify(program) == ()
    (call,) = calls_of(program)[kernel]
    programs = [call_program(program, call, at) for at in (0, 1)]
    arguments = CallInputs.fresh(programs, {})
    tensors = [item for item in arguments.values() if isinstance(item, torch.Tensor)]
    return tensors, arguments


def stub(name: str, parameters: str) -> str:
    return (
        f"kernel_definition @{name} cpp({parameters}) {{\n"
        f"  entry = {name}\n  source {{\n    | {name}\n  }}\n}}\n\n"
    )


def test_what_is_read_by_one_parameter_and_written_by_another_begins_the_same() -> None:
    parts = "x: read f32*, y: write f32*, z: write f32*"
    text = (
        "wrapperir 1\n\n"
        + stub("one", parts)
        + stub("other", parts)
        + "multi_kernel @m(x: read_write f32*, z: write f32*) {\n"
        "  choice @one(0, 0, 1)\n  choice @other(0, 0, 1)\n  select benchmark\n}\n\n"
        "program @main(%x: mutated f32[8], %z: mutated f32[8]) {\n"
        "  kernel_call @m(%x, %z)\n  return\n}\n"
    )
    (x, z), arguments = timed_on(text)
    before = x.clone()
    x.fill_(1e30)
    z.fill_(7)
    arguments.restore()
    assert torch.equal(x, before)
    assert torch.equal(z, torch.full((8,), 7.0))


@pytest.mark.parametrize("mode", ["zero_on_call", "zero_per_program"])
def test_a_workspace_that_a_choice_needs_zero_is_zero_each_time(mode: str) -> None:
    parameters = "y: write f32*, ws: read_write f32*"
    text = (
        "wrapperir 1\n\n"
        + stub("one", parameters)
        + stub("other", "y: write f32*")
        + f"multi_kernel @m({parameters}) {{\n"
        f"  choice @one(0, 1) workspace(ws, 8, {mode})\n  choice @other(0)\n"
        "  select benchmark\n}\n\n"
        "program @main(%y: mutated f32[8]) {\n"
        "  %ws = allocate f32[8] workspace(MODE)\n  kernel_call @m(%y, %ws)\n"
        "  FREEreturn\n}\n"
    )
    free = "free %ws\n  " if mode == "zero_on_call" else ""
    (_, workspace), arguments = timed_on(text.replace("MODE", mode).replace("FREE", free))
    assert torch.equal(workspace, torch.zeros(8))
    workspace.fill_(3)
    arguments.restore()
    assert torch.equal(workspace, torch.zeros(8))


def test_a_workspace_that_begins_zero_is_zero_each_time_without_a_need() -> None:
    """Kernels with several configs say nothing of what they need."""
    parameters = "y: write f32*, ws: read_write f32*"
    text = (
        "wrapperir 1\n\n"
        + stub("one", parameters)
        + stub("other", parameters)
        + f"multi_kernel @m({parameters}) {{\n"
        "  choice @one(0, 1)\n  choice @other(0, 1)\n  select benchmark\n}\n\n"
        "program @main(%y: mutated f32[8], %x: mutated f32[8]) {\n"
        "  %ws = allocate f32[8] workspace(zero_on_call)\n"
        "  kernel_call @m(%y, %WS)\n"
        "  free %ws\n  return\n}\n"
    )
    (_, workspace), arguments = timed_on(text.replace("%WS", "%ws"))
    assert torch.equal(workspace, torch.zeros(8))
    workspace.fill_(3)
    arguments.restore()
    assert torch.equal(workspace, torch.zeros(8))
    (_, other), _ = timed_on(text.replace("%WS", "%x"))
    assert float(other.abs().max()) > 0


@pytest.mark.parametrize("dtype", list(DType), ids=str)
def test_there_are_numbers_of_every_type(dtype: DType) -> None:
    kernel = KernelDefinitionLine(
        name="use",
        language=Language.CPP,
        parameters=(BufferParameter("x", dtype, Access.READ_WRITE),),
        entry="use",
        source="",
    )
    b = ProgramBuilder()
    type = tensor(dtype, (3, 5))
    x = b.input(type, mutated=True)
    b.call(b.kernel(kernel), x)
    b.free(x)
    program = b.build()
    (call,) = calls_of(program)["use"]
    arguments = CallInputs.fresh([call_program(program, call)], {})
    arguments.restore()
    (made,) = arguments.values()
    assert isinstance(made, torch.Tensor)
    assert tuple(made.shape) == (3, 5)
    assert made.element_size() == dtype.itemsize
    assert isinstance(program.inputs[0].type, TensorType)


def test_memory_that_cannot_be_had_is_a_reason() -> None:
    emitter = Acting({"slow": nothing, "fast": nothing})
    huge = choices(calling([Symbol("s0")]))
    times = CallTimer(emitter, 0.01)(huge, {"s0": 1 << 55})
    assert times.microseconds == (None, None)
    assert all(reason is not None for reason in times.failures)
    assert emitter.order == []


def test_unused_kernels_are_not_in_a_call_program() -> None:
    for program, kernel in zip(choices(calling([4])), (SLOW, FAST), strict=True):
        assert program.definitions == (kernel,)
