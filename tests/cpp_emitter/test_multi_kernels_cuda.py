"""Multi-kernels of Triton kernels: with a driver that is made up, and on a GPU."""

from typing import Any, cast

import pytest
import torch

from tests.cpp_emitter.gpu_requests import CURRENT, FakeGpu, fake_gpu
from tests.cpp_emitter.moved import on_gpu
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.ir.expr import ExprOp, Operation, Symbol, compare
from wrapperir.ir.kernel import Language
from wrapperir.ir.line import SizeOf
from wrapperir.ir.program import Program
from wrapperir.ir.selection import (
    BenchmarkChoice,
    ComputedChoice,
    ForcedChoice,
    Hint,
    NearestChoice,
    Selection,
)
from wrapperir.ir.types import tensor
from wrapperir.testing import example_inputs
from wrapperir.testing.kernels import KernelKind, library_kernel
from wrapperir_cpp.build import build_artifact
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_cpp.targets import parse_targets

__all__ = ["fake_gpu"]

KINDS = (KernelKind.ADD, KernelKind.ADD_REVERSED)
ROWS = Symbol("s0")
TREE = Operation(ExprOp.WHERE, (compare(ExprOp.LT, Symbol("M"), 8), 1, 0))
HINTS = (Hint(0, (4,)), Hint(1, (64,)))


def choosing(*selections: Selection, stream: int = 0) -> Program:
    """Add the input to itself, or to the sum before, once for each policy."""
    b = ProgramBuilder()
    x = b.input(tensor("f32", (ROWS, 8)))
    b.symbol("s0", SizeOf(x.name, 0), lower=1, upper=100)
    kernels = [library_kernel(kind, Language.TRITON) for kind in KINDS]
    for kernel in kernels:
        b.kernel(kernel)
    sums = [x]
    for index, selection in enumerate(selections):
        multi = b.multi_kernel(
            kernels,
            name=f"sum_{index}",
            sizes={"M": ("in_ptr0", 0)},
            selection=selection,
        )
        out = b.allocate(tensor("f32", (ROWS, 8)))
        b.call(multi, x, sums[-1], out, ROWS * 8, stream=stream)
        sums.append(out)
    return b.build(*sums[1:])


def launched(log: str) -> list[str]:
    words = [line.split() for line in log.splitlines()]
    return [line[1] for line in words if line[0] == "launch"]


@pytest.mark.parametrize("stream", [0, 1])
@pytest.mark.parametrize("fastest", ["add", "add_reversed"])
def test_the_fastest_is_found_once(fake_gpu: FakeGpu, fastest: str, stream: int) -> None:
    costs = {"add": 2.0, "add_reversed": 2.0, fastest: 0.01}
    answer = fake_gpu.ask(choosing(BenchmarkChoice(), stream=stream), costs=costs)
    assert "error" not in answer, answer
    first, second = answer["logs"]
    assert {*launched(first)} == {"add", "add_reversed"}
    assert launched(first)[-1] == fastest
    assert launched(second) == [fastest]
    assert "memset" not in second
    freed = [line for line in first.splitlines() if line.startswith("deallocate")]
    made = [line for line in first.splitlines() if line.startswith("allocate")]
    assert len(freed) == len(made) == 2  # one to empty the cache, and a copy of the sum
    assert answer["left"] == 0


def test_a_stream_that_is_captured_is_not_waited_for(fake_gpu: FakeGpu) -> None:
    costs = {"add": 2.0, "add_reversed": 0.01}
    calls = [(seed, CURRENT) for seed in range(4)]
    program = choosing(BenchmarkChoice())
    logs = fake_gpu.logs(program, calls=calls, captured=[0, 1], costs=costs)
    text = ["\n".join(log) for log in logs]
    assert launched(text[0]) == launched(text[1]) == ["add"]
    assert len(launched(text[2])) > 4
    assert launched(text[3]) == ["add_reversed"]


def test_choices_by_size(fake_gpu: FakeGpu) -> None:
    program = choosing(NearestChoice(HINTS), ComputedChoice(TREE), ForcedChoice(1))
    calls = [(seed, CURRENT) for seed in range(6)]
    answer = fake_gpu.ask(program, calls=calls)
    assert "error" not in answer, answer
    names = [kind.value for kind in KINDS]
    for (seed, _), log in zip(calls, answer["logs"], strict=True):
        (x,) = example_inputs(program, seed)
        assert isinstance(x, torch.Tensor)
        rows = x.shape[0]
        assert launched(log) == [names[rows > 16], names[rows < 8], names[1]], rows


def test_the_launches_of_all_choices() -> None:
    program = on_gpu(choosing(BenchmarkChoice(), NearestChoice(HINTS), stream=1))
    artifact = CppEmitter().emit(program)
    text = str(artifact.files["program.cpp"])
    launch = (
        "launch({}, triton_{}, *c.cuda_0, 1, {{num::ceildiv(num::mul(c.s0, 8), 16), 1, 1}}"
    )
    sizes = "narrow<int32_t>(num::mul(c.s0, 8), {}));"
    for name in ("add", "add_reversed"):
        for line, given in (
            (1, "c.p[arg0], c.p[arg0], c.p[buf0]"),
            (3, "c.p[arg0], c.p[buf0], c.p[buf1]"),
        ):
            assert launch.format(line, name) in text, text
            assert f"{given}, {sizes.format(line)[:-1]}" in text
    assert "return time_choices(fastest_sum_0, given, run_choice, *c.cuda_0, 1);" in text


def test_all_choices_are_compiled() -> None:
    program = on_gpu(choosing(BenchmarkChoice()))
    artifact = build_artifact(CppEmitter().emit(program), parse_targets(["sm_90"]))
    assert {path for path in artifact.files if path.endswith(".cubin")} == {
        f"kernels/triton_{kind.value}{variant}.sm_90.cubin"
        for kind in KINDS
        for variant in ("", ".any")
    }


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu() -> None:
    program = on_gpu(
        choosing(BenchmarkChoice(), NearestChoice(HINTS), ComputedChoice(TREE))
    )
    emitter = CppEmitter()
    call = emitter.load(emitter.emit(program), {})
    for rows in (3, 3, 50):
        x = torch.rand(rows, 8, device="cuda")
        sums = call([x])
        for times, found in enumerate(sums, start=2):
            assert isinstance(found, torch.Tensor)
            torch.testing.assert_close(found, times * x)
    (chosen,) = cast(Any, call).timed_choices
    assert chosen[0] == "sum_0"
    assert chosen[1] in {"triton_add", "triton_add_reversed"}
