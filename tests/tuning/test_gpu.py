"""Tuning on a GPU: configs of Triton kernels, by the device's own times."""

from collections.abc import Iterator, Mapping, Sequence

import pytest
import torch

from wrapperir.emit import compile_program
from wrapperir.ir import (
    Access,
    BenchmarkChoice,
    BufferParameter,
    ComputedChoice,
    ConstexprParameter,
    Device,
    DType,
    Expr,
    KernelConfig,
    KernelDefinitionLine,
    Language,
    MultiKernelLine,
    Number,
    Program,
    RecordedChoice,
    ScalarParameter,
    SizeOf,
    Symbol,
    ceildiv,
    choose,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.tuning.choice_cache import ChoiceCache, fresh_choice_cache
from wrapperir.tuning.kernel_times import FLUSHED_BYTES, Clock
from wrapperir.tuning.measure import Times
from wrapperir.tuning.tune import tune_program

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

GPU = Device("cuda", 0)


def test_a_clock_leaves_no_memory_reserved() -> None:
    torch.cuda.empty_cache()
    reserved = torch.cuda.memory_reserved()
    clock = Clock(torch.device("cuda", 0))
    assert torch.cuda.memory_reserved() - reserved >= FLUSHED_BYTES
    del clock
    kept = torch.empty(FLUSHED_BYTES // 8, dtype=torch.uint8, device="cuda")
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() - reserved < FLUSHED_BYTES // 2
    del kept


_DOUBLE = """\
import triton
import triton.language as tl


@triton.jit
def double(x, out, n, B: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    tl.store(out + at, 2 * tl.load(x + at, at < n), at < n)
"""

_WAITING = """\
import triton
import triton.language as tl


@triton.jit
def waiting(x, out, n, B: tl.constexpr, TURNS: tl.constexpr, EACH: tl.constexpr):
    value = tl.load(x + tl.arange(0, B), tl.arange(0, B) < n, other=0)
    turns = TURNS + EACH * n
    total = value
    for _ in range(0, turns):
        total = total * 1.0001 + 0.5
    for begin in range(0, n, B):
        at = begin + tl.arange(0, B)
        tl.store(out + at, 2 * tl.load(x + at, at < n), (at < n) & (total[:] != 12345.0))
"""


def doubling(blocks: Sequence[int]) -> KernelDefinitionLine:
    return KernelDefinitionLine(
        name="double",
        language=Language.TRITON,
        parameters=_parameters("B"),
        grid=(ceildiv(Symbol("n"), Symbol("B")),),
        configs=tuple(KernelConfig((("B", block), ("num_warps", 1))) for block in blocks),
        entry="double",
        source=_DOUBLE,
    )


def waiting(name: str, turns: int, each: int) -> KernelDefinitionLine:
    return KernelDefinitionLine(
        name=name,
        language=Language.TRITON,
        parameters=_parameters("B", "TURNS", "EACH"),
        grid=(1,),
        constants=(("B", 128), ("TURNS", turns), ("EACH", each)),
        configs=(KernelConfig((("num_warps", 4),)),),
        entry="waiting",
        source=_WAITING,
    )


def _parameters(
    *constexprs: str,
) -> tuple[BufferParameter | ScalarParameter | ConstexprParameter, ...]:
    return (
        BufferParameter("x", DType.F32, Access.READ),
        BufferParameter("out", DType.F32, Access.WRITE),
        ScalarParameter("n", DType.I32),
        *map(ConstexprParameter, constexprs),
    )


def calling(size: Expr, *kernels: KernelDefinitionLine) -> Program:
    b = ProgramBuilder()
    type = tensor("f32", (size,), device=GPU)
    x = b.input(type)
    if isinstance(size, Symbol):
        b.symbol(size.name, SizeOf(x.name, 0), lower=1, upper=1 << 17)
    added = [b.kernel(kernel) for kernel in kernels]
    called = (
        added[0]
        if len(added) == 1
        else b.multi_kernel(added, name="either", selection=BenchmarkChoice())
    )
    out = b.allocate(type)
    b.call(called, x, out, size, device=GPU)
    b.free(x)
    return b.build(out)


@pytest.fixture
def cache() -> Iterator[ChoiceCache]:
    with fresh_choice_cache() as made:
        yield made


def policy(program: Program) -> object:
    (line,) = [d for d in program.definitions if isinstance(d, MultiKernelLine)]
    return line.selection


def check(program: Program, size: int, emitter: str) -> None:
    x = torch.rand(size, device="cuda")
    (out,) = compile_program(program, emitter=emitter)([x])
    torch.testing.assert_close(out, 2 * x, rtol=0, atol=0)


@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_the_better_config_is_recorded(emitter: str, cache: ChoiceCache) -> None:
    size = 1 << 24
    program = calling(size, doubling([1, 1024]))
    tuned = tune_program(program, emitter=emitter, cache=cache)
    selection = policy(tuned.program)
    assert isinstance(selection, RecordedChoice)
    assert selection.index == 1
    one, many = selection.microseconds
    assert one is not None
    assert many is not None
    assert one > 10 * many
    # 128 MiB are moved, which no GPU does in 10 µs or less
    assert many > 10
    assert torch.cuda.get_device_name() in selection.device
    check(tuned.program, size, emitter)

    def refusing(programs: Sequence[Program], values: Mapping[str, Number]) -> Times:
        raise AssertionError("nothing is to be timed")

    again = tune_program(program, emitter=emitter, cache=cache, timer=refusing)
    assert again.program == tuned.program


def test_a_config_that_cannot_be_launched_has_no_time() -> None:
    program = calling(4096, doubling([1024, 1 << 21]))
    tuned = tune_program(program)
    selection = policy(tuned.program)
    assert isinstance(selection, RecordedChoice)
    assert selection.index == 0
    assert selection.microseconds[1] is None
    (kernel,) = tuned.report.kernels
    assert [failure.choice for failure in kernel.failures] == ["double_config1"]


def test_what_is_best_flips_at_a_size() -> None:
    kernels = waiting("costly_start", 200_000, 0), waiting("slow_steps", 0, 50)
    tuned = tune_program(calling(Symbol("s0"), *kernels), samples=24, seconds=0.02)
    selection = policy(tuned.program)
    assert isinstance(selection, ComputedChoice)
    assert choose(selection, (), {"n": 8}) == 1
    assert choose(selection, (), {"n": 1 << 17}) == 0
    for size in (8, 1 << 17):
        check(tuned.program, size, "python")
