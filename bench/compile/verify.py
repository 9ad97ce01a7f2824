"""Lines per second of ``verify`` for 10³ to 10⁶ lines, and whether its time is linear.

Each program repeats the lines that Inductor's programs consist of: an allocation, a matmul
into it, a fused kernel over a reuse, a view, frees.  Types are new for each line, as a
frontend makes them, or shared, as they are after reading text; static or symbolic.

Seconds are processor time of this process.

    python -m bench.compile.verify [most lines]
"""

import gc
import sys
import time

from wrapperir.ir import (
    Access,
    BufferParameter,
    DType,
    KernelConfig,
    KernelDefinitionLine,
    Language,
    Program,
    ScalarParameter,
    SizeOf,
    Symbol,
    TensorType,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.verify import verify


def program_of(lines: int, *, shared: bool, symbolic: bool) -> Program:
    """Return a program of about ``lines`` lines."""
    b = ProgramBuilder()
    rows = Symbol("s0") if symbolic else 8

    def fresh() -> TensorType:
        return tensor("f32", (rows, 64))

    one = fresh()

    def make() -> TensorType:
        return one if shared else fresh()

    x = b.input(make(), name="x")
    if symbolic:
        b.symbol("s0", SizeOf("x", 0), lower=2, upper=1024)
    weight = b.constant(tensor("f32", (64, 64)), "weight")
    kernel = b.kernel(
        KernelDefinitionLine(
            name="kernel",
            language=Language.TRITON,
            parameters=(
                BufferParameter("in_ptr0", DType.F32, Access.READ),
                BufferParameter("out_ptr0", DType.F32, Access.READ_WRITE),
                ScalarParameter("xnumel", DType.I32),
            ),
            grid=(1,),
            configs=(KernelConfig((("num_warps", 4),)),),
            entry="kernel",
            source="",
        )
    )
    before = x
    for _ in range(lines // 7):
        buffer = b.allocate(make())
        b.extern_out("aten.mm.out", before, weight, out=buffer)
        reused = b.reuse(buffer, make())
        view = b.reinterpret(reused, make())
        b.call(kernel, before, view, rows * 64)
        b.free(view)
        if before is not x:
            b.free(before)
        before = reused
    return b.build(before)


def main() -> None:
    """Print a table."""
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 10**6
    print(
        f"{'types':<8}{'sizes':<10}{'lines':>9}{'seconds':>10}{'lines/s':>10}{'µs/line':>9}"
    )
    for shared in (True, False):
        for symbolic in (False, True):
            rates: list[float] = []
            size = 10**3
            while size <= most:
                program = program_of(size, shared=shared, symbolic=symbolic)
                gc.collect()  # what building left behind is not ours to clear
                begin = time.process_time()
                assert verify(program) == ()
                spent = time.process_time() - begin
                count = len(program.lines)
                rates.append(spent / count * 1e6)
                print(
                    f"{'shared' if shared else 'fresh':<8}"
                    f"{'symbolic' if symbolic else 'static':<10}{count:>9}"
                    f"{spent:>10.3f}{count / spent:>10.0f}{rates[-1]:>9.2f}"
                )
                size *= 10
            print(f"  a line costs {rates[-1] / rates[0]:.2f} times what it did at first")


if __name__ == "__main__":
    main()
