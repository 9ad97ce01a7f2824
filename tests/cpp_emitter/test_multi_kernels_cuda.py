"""Multi-kernels of Triton kernels: with a driver that is made up, and on a GPU."""

from collections.abc import Sequence
from typing import Any, cast

import pytest
import torch
from attrs import evolve

from tests.cpp_emitter.gpu_requests import CURRENT, FakeGpu
from tests.cpp_emitter.moved import GPU, on_gpu
from wrapperir.emit import Loaded
from wrapperir.ir import (
    Access,
    BenchmarkChoice,
    BufferParameter,
    ComputedChoice,
    ConstexprParameter,
    DType,
    ExprOp,
    ForcedChoice,
    Hint,
    KernelConfig,
    KernelDefinitionLine,
    Language,
    NearestChoice,
    Operation,
    Program,
    ScalarParameter,
    Selection,
    SizeOf,
    Symbol,
    ceildiv,
    compare,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.kernels import Target, present_targets
from wrapperir.testing import example_inputs
from wrapperir.testing.kernels import KernelKind, library_kernel
from wrapperir_cpp.build import build_artifact, load_library
from wrapperir_cpp.emitter import CppEmitter

KINDS = (KernelKind.ADD, KernelKind.ADD_REVERSED)
ROWS = Symbol("s0")
TREE = Operation(ExprOp.WHERE, (compare(ExprOp.LT, Symbol("M"), 8), 1, 0))
HINTS = (Hint(0, (4,)), Hint(1, (64,)))


def choosing(*selections: Selection, stream: int = 0, least: int = 1) -> Program:
    """Add the input to itself, or to the sum before, once for each policy."""
    b = ProgramBuilder()
    x = b.input(tensor("f32", (ROWS, 8)))
    b.symbol("s0", SizeOf(x.name, 0), lower=least, upper=100)
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
    copies = [line for line in first.splitlines() if line.startswith("copy")]
    assert copies
    assert min(int(line.split()[-1]) for line in copies) >= 1 << 16, copies


def test_a_stream_that_is_captured_is_not_waited_for(fake_gpu: FakeGpu) -> None:
    costs = {"add": 2.0, "add_reversed": 0.01}
    calls = [(seed, CURRENT) for seed in range(5)]
    program = choosing(BenchmarkChoice(), least=0)
    logs = fake_gpu.logs(program, calls=calls, captured=[0, 1], empty=[2], costs=costs)
    text = ["\n".join(log) for log in logs]
    assert launched(text[0]) == launched(text[1]) == ["add"]
    assert launched(text[2]) == []  # a call without elements decides nothing, either
    assert len(launched(text[3])) > 4
    assert launched(text[4]) == ["add_reversed"]


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
    artifact = build_artifact(CppEmitter().emit(program), tuple(map(Target, ["sm_90"])))
    assert {path for path in artifact.files if path.endswith(".cubin")} == {
        f"kernels/triton_{kind.value}{variant}.sm_90.cubin"
        for kind in KINDS
        for variant in ("", ".any")
    }


on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

SOURCE = """\
import triton
import triton.language as tl

@triton.jit
def {name}(p, mark, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(p + at, mask=at < n)
    y = x
    for turn in range({turns}):
        y = tl.sqrt(y * y + turn)
    tl.store(p + at, tl.where(y < 0, y, x + 1), mask=at < n)
    tl.store(mark + tl.arange(0, 1), {number})
"""


def marking(number: int, turns: int) -> KernelDefinitionLine:
    """Return a kernel that adds one in place, slowly, and leaves its number."""
    name = f"mark_{number}"
    return KernelDefinitionLine(
        name=name,
        language=Language.TRITON,
        parameters=(
            BufferParameter("p", DType.F32, Access.READ_WRITE),
            BufferParameter("mark", DType.I32, Access.WRITE),
            ScalarParameter("n", DType.I32),
            ConstexprParameter("BLOCK"),
        ),
        grid=(ceildiv(Symbol("n"), Symbol("BLOCK")),),
        configs=(KernelConfig((("BLOCK", 256),)),),
        entry=name,
        source=SOURCE.format(name=name, turns=turns, number=number),
    )


def marked(turns: Sequence[int], name: str) -> Loaded:
    """Return a program, built without tuning: the fastest is found as it runs."""
    rows = Symbol("s0")
    b = ProgramBuilder(name)
    x = b.input(tensor("f32", (rows,), device=GPU), mutated=True)
    b.symbol("s0", SizeOf(x.name, 0), lower=1, upper=1 << 20)
    kernels = [b.kernel(marking(*pair)) for pair in enumerate(turns)]
    multi = b.multi_kernel(kernels, name="pick", selection=BenchmarkChoice())
    mark = b.allocate(tensor("i32", (1,), device=GPU))
    b.call(multi, x, mark, rows, device=GPU)
    emitted = CppEmitter().emit(b.build(mark))
    untuned = evolve(emitted, files={**emitted.files, "tuning.json": "{}"})
    return load_library(build_artifact(untuned, present_targets()), {})


@pytest.mark.gpu
@on_a_gpu
@pytest.mark.parametrize("turns", [(20_000, 10, 20_000), (10, 20_000), (20_000, 10)])
def test_the_fastest_is_found_on_a_gpu(turns: tuple[int, ...]) -> None:
    call = marked(turns, "_".join(("of", *map(str, turns))))
    x = torch.zeros(100_000, device="cuda")
    for count in (1, 2, 3):
        (mark,) = call([x])
        assert isinstance(mark, torch.Tensor)
        assert int(mark[0]) == turns.index(10)
        assert torch.equal(x, torch.full_like(x, count))
    assert cast(Any, call).timed_choices == (("pick", f"mark_{turns.index(10)}"),)


@pytest.mark.gpu
@on_a_gpu
def test_a_choice_stays_open_while_a_graph_is_captured() -> None:
    call = marked((20_000, 10), "captured")
    x = torch.zeros(100_000, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call([x])
    assert cast(Any, call).timed_choices == (("pick", None),)
    graph.replay()
    assert torch.equal(x, torch.ones_like(x))
    call([x])
    assert cast(Any, call).timed_choices == (("pick", "mark_1"),)
    assert torch.equal(x, torch.full_like(x, 2))


@pytest.mark.gpu
@on_a_gpu
def test_choices_by_size_on_a_gpu() -> None:
    program = on_gpu(choosing(NearestChoice(HINTS), ComputedChoice(TREE), ForcedChoice(1)))
    emitter = CppEmitter()
    call = emitter.load(emitter.emit(program), {})
    for rows in (3, 3, 50):
        x = torch.rand(rows, 8, device="cuda")
        for times, found in enumerate(call([x]), start=2):
            assert isinstance(found, torch.Tensor)
            torch.testing.assert_close(found, times * x)
