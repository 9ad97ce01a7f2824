"""Kernels with several configurations, tuned as the choices of a multi-kernel."""

from collections.abc import Sequence

from attrs import evolve

from tests.tuning.costs import (
    FAST,
    Pretended,
    constant,
    only,
    policy,
    refusing,
)
from wrapperir.ir import (
    Access,
    BenchmarkChoice,
    BufferParameter,
    ConstexprParameter,
    Device,
    DType,
    KernelConfig,
    KernelDefinitionLine,
    Language,
    Program,
    RecordedChoice,
    ScalarParameter,
    Symbol,
    ceildiv,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.tuning.tune import tune_program
from wrapperir.verify import verify


def configured(
    name: str = "scale", blocks: Sequence[int] = (64, 256)
) -> KernelDefinitionLine:
    return KernelDefinitionLine(
        name=name,
        language=Language.TRITON,
        parameters=(
            BufferParameter("x", DType.F32, Access.READ),
            BufferParameter("out", DType.F32, Access.WRITE),
            ScalarParameter("n", DType.I64),
            ConstexprParameter("B"),
        ),
        grid=(ceildiv(Symbol("n"), Symbol("B")),),
        configs=tuple(KernelConfig((("B", block),)) for block in blocks),
        entry="scale",
        source=f"# {name}\n",
    )


def calling_configured(size: int = 512, *, name: str = "scale") -> Program:
    b = ProgramBuilder()
    x, out = b.input(tensor("f32", (size,))), b.allocate(tensor("f32", (size,)))
    b.call(b.kernel(configured(name)), x, out, size)
    b.free(x)
    return b.build(out)


def by_block(fast: int) -> Pretended:
    return Pretended(
        {
            f"scale_config{at}": constant(1.0 if block == fast else 9.0)
            for at, block in enumerate((64, 256))
        }
    )


def test_configs_are_tuned_as_choices() -> None:
    tuned = tune_program(calling_configured(), timer=by_block(256), interpreted=True)
    assert [line.name for line in tuned.program.definitions] == [
        "scale_config0",
        "scale_config1",
        "scale",
    ]
    assert policy(tuned) == RecordedChoice(1, (9.0, 1.0), only(tuned).device)
    assert only(tuned).choices == ("scale_config0", "scale_config1")
    assert verify(tuned.program) == ()


def test_configs_that_are_not_timed_stay_in_their_kernel() -> None:
    program = calling_configured()
    untimed = tune_program(program, timer=refusing)
    assert untimed.program == program
    assert only(untimed).kernel == "scale"
    assert "interpreted" in only(untimed).reason
    broken = Pretended({f"scale_config{at}": constant(None) for at in (0, 1)})
    failed = tune_program(program, timer=broken, interpreted=True)
    assert failed.program == program
    assert "no choice could be timed" in only(failed).reason
    assert tune_program(program, kernels=(), timer=refusing).program == program


def test_only_configs_that_are_timed_are_split() -> None:
    b = ProgramBuilder()
    x, out = b.input(tensor("f32", (512,))), b.allocate(tensor("f32", (512,)))
    gpu = tensor("f32", (512,), device=Device("cuda", 63))
    there, back = b.input(gpu), b.allocate(gpu)
    kernels = [b.kernel(configured(name)) for name in ("scale", "other")]
    b.call(kernels[0], x, out, 512)
    b.call(kernels[1], there, back, 512, device=Device("cuda", 63))
    b.free(x)
    b.free(there)
    tuned = tune_program(b.build(out, back), timer=by_block(64), interpreted=True)
    names = {line.name for line in tuned.program.definitions}
    assert names == {"scale_config0", "scale_config1", "scale", "other"}
    assert kernels[1] in tuned.program.definitions
    scale, other = sorted(tuned.report.kernels, key=lambda k: k.kernel, reverse=True)
    assert scale.chosen == 0
    assert "no device cuda:63" in other.reason


def test_a_multi_kernel_of_a_kernel_with_configs_picks_among_all() -> None:
    b = ProgramBuilder()
    x, out = b.input(tensor("f32", (512,))), b.allocate(tensor("f32", (512,)))
    triton = evolve(FAST, language=Language.TRITON, grid=(1,))
    kernels = [b.kernel(triton), b.kernel(configured())]
    either = b.multi_kernel(kernels, name="either", selection=BenchmarkChoice())
    b.call(either, x, out, 512)
    b.free(x)
    program = b.build(out)
    timer = by_block(256)
    rules = {**timer.microseconds, "fast": constant(3.0)}
    tuned = tune_program(program, timer=Pretended(rules), interpreted=True)
    assert only(tuned).choices == ("fast", "scale_config0", "scale_config1")
    assert policy(tuned) == RecordedChoice(2, (3.0, 9.0, 1.0), only(tuned).device)
    assert tune_program(program, timer=refusing).program == program
