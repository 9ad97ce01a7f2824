"""Programs of kernels whose costs are set, and stand-ins for timing them."""

from collections.abc import Callable, Mapping, Sequence

from attrs import define, field

from wrapperir.ir import (
    CPU,
    Access,
    BenchmarkChoice,
    BufferParameter,
    Device,
    DType,
    Expr,
    KernelDefinitionLine,
    Language,
    MultiKernelLine,
    Number,
    Program,
    ScalarParameter,
    Selection,
    SizeOf,
    Symbol,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.tuning.measure import Times
from wrapperir.tuning.report import KernelReport
from wrapperir.tuning.tune import Tuned

_SOURCE = """\
#include <cstdint>
extern "C" void {name}(const float* x, float* out, int64_t n) {{
  volatile int64_t done = 0;
  for (int64_t i = 0; i < ({turns}); ++i) done = done + 1;
  for (int64_t i = 0; i < n; ++i) out[i] = 2 * x[i];
}}
"""

TURNS = 100_000
"""What a slow kernel turns round for, some hundred microseconds."""


def doubling(name: str, turns: str = "0") -> KernelDefinitionLine:
    """Return a C++ kernel that doubles, and first turns round so often."""
    return KernelDefinitionLine(
        name=name,
        language=Language.CPP,
        parameters=(
            BufferParameter("x", DType.F32, Access.READ),
            BufferParameter("out", DType.F32, Access.WRITE),
            ScalarParameter("n", DType.I64),
        ),
        entry=name,
        source=_SOURCE.format(name=name, turns=turns),
    )


SLOW, FAST = doubling("slow", str(TURNS)), doubling("fast")


def calling(
    sizes: Sequence[Expr],
    *,
    kernels: Sequence[KernelDefinitionLine] = (SLOW, FAST),
    selection: Selection | None = None,
    upper: int | None = 100_000,
    device: Device = CPU,
) -> Program:
    """Return a program that calls ``@twice`` once for an input of each size."""
    b = ProgramBuilder()
    inputs = [b.input(tensor("f32", (size,), device=device)) for size in sizes]
    for value, size in zip(inputs, sizes, strict=True):
        if isinstance(size, Symbol):
            b.symbol(size.name, SizeOf(value.name, 0), lower=1, upper=upper)
    twice = b.multi_kernel(
        [b.kernel(kernel) for kernel in kernels],
        name="twice",
        selection=selection or BenchmarkChoice(),
    )
    outputs = []
    for value, size in zip(inputs, sizes, strict=True):
        out = b.allocate(tensor("f32", (size,), device=device))
        b.call(twice, value, out, size, device=device)
        outputs.append(out)
    for value in inputs:
        b.free(value)
    return b.build(*outputs)


@define
class Pretended:
    """A timer that runs nothing: each kernel takes what a rule for its name says."""

    microseconds: Mapping[str, Callable[[Mapping[str, Number]], float | None]]
    asked: list[dict[str, Number]] = field(factory=list[dict[str, Number]])

    def __call__(self, programs: Sequence[Program], values: Mapping[str, Number]) -> Times:
        self.asked.append(dict(values))
        names = [program.definitions[0].name for program in programs]
        times = tuple(self.microseconds[name](values) for name in names)
        return Times(times, tuple("it broke" if t is None else None for t in times))


def constant(time: float | None) -> Callable[[Mapping[str, Number]], float | None]:
    """Return the rule of a kernel that always takes the same, or always fails."""
    return lambda values: time


def policy(tuned: Tuned | Program) -> Selection:
    """Return how the only multi-kernel picks."""
    program = tuned.program if isinstance(tuned, Tuned) else tuned
    (line,) = [line for line in program.definitions if isinstance(line, MultiKernelLine)]
    return line.selection


def only(tuned: Tuned) -> KernelReport:
    """Return the report of the only kernel."""
    (kernel,) = tuned.report.kernels
    return kernel


def refusing(programs: Sequence[Program], values: Mapping[str, Number]) -> Times:
    """Fail: a timer for programs that are not to be timed."""
    raise AssertionError("nothing is to be timed")


def slower(slow: float = 100.0, fast: float = 5.0) -> Pretended:
    """Return a timer by which ``SLOW`` is slower than ``FAST``."""
    return Pretended({"slow": constant(slow), "fast": constant(fast)})
