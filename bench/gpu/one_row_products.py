"""Products of one row and a matrix: the operator, and the sum that Inductor writes for it.

    python -m bench.gpu.one_row_products

Both take turns, each replayed from a CUDA graph with a number of calls, so that launches
count little.  The calls read different matrices, so that these come from memory and not
from a cache.  Times are the least microseconds of a call.  The difference of the results
is relative to the operator's.
"""

import torch

from bench.gpu.contenders import captured
from bench.gpu.models import Inputs
from bench.gpu.turns import largest_error, seconds_of
from bench.machine import describe_machine
from wrapperir.emit import compile_program
from wrapperir.frontend.inductor import capture
from wrapperir.frontend.inductor.decompositions import sum_of_products

SHAPES = (
    (512, 512),
    (512, 2730),
    (768, 768),
    (768, 3072),
    (3072, 768),
    (1024, 4096),
    (4096, 1024),
    (4096, 4096),
    (4096, 14336),
    (768, 50257),
)
"""Terms of a sum, and columns; decompositions leave the last two to the operator."""
DTYPES = torch.float16, torch.float32
CALLS = 20
ROUNDS = 10
MOST_BYTES = 400_000_000


def summed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Return the product as a sum."""
    return sum_of_products(x, w).to(x.dtype)


def main() -> None:
    """Print a table."""
    print(f"{describe_machine()}, {torch.cuda.get_device_name(0)}\n")
    print("| type | terms × columns | operator | sum | ratio | difference |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for dtype in DTYPES:
        for depth, columns in SHAPES:
            operator, sum, difference = measure(dtype, depth, columns)
            shown = f"{operator:.1f} | {sum:.1f} | {sum / operator:.2f} | {difference:.1e}"
            name = str(dtype).removeprefix("torch.")
            print(f"| {name} | {depth} × {columns} | {shown} |", flush=True)


def measure(dtype: torch.dtype, depth: int, columns: int) -> tuple[float, float, float]:
    """Return the microseconds of the operator and of the sum, and their difference."""
    size = depth * columns * dtype.itemsize
    x = torch.randn(1, depth, device="cuda", dtype=dtype)
    matrices = [
        torch.randn(columns, depth, device="cuda", dtype=dtype).t()
        for _ in range(min(CALLS, MOST_BYTES // size))
    ]
    (lowered,) = capture(summed, (x, matrices[0]))
    sum = compile_program(lowered.program, emitter="python", constants=lowered.constants)
    out = torch.empty(1, columns, device="cuda", dtype=dtype)

    def operator_calls(given: Inputs) -> None:
        for index in range(CALLS):
            torch.mm(x, matrices[index % len(matrices)], out=out)

    def sum_calls(given: Inputs) -> None:
        for index in range(CALLS):
            sum([x, matrices[index % len(matrices)]])

    replays = [captured(calls, [(x,)]) for calls in (operator_calls, sum_calls)]
    times = [
        [seconds_of(replay, "in_place", [(x,)], calls=1) for replay in replays]
        for _ in range(ROUNDS)
    ]
    found = [each for each in sum([x, matrices[0]]) if isinstance(each, torch.Tensor)]
    difference = largest_error([x @ matrices[0]], found)
    operator, of_sum = (min(each) * 1e6 / CALLS for each in zip(*times, strict=True))
    return operator, of_sum, difference


if __name__ == "__main__":
    main()
