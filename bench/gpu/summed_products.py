"""Small matrix products and a ReLU: the operators, and the sum that Inductor fuses with it.

    python -m bench.gpu.summed_products

Both take turns, each replayed from a CUDA graph with a number of calls, so that launches
count little.  The calls read different matrices, so that these come from memory and not
from a cache.  Times are the least microseconds of a call.  The difference of the results
is relative to that of the operators.
"""

from collections.abc import Callable
from unittest import mock

import torch

from bench.gpu.contenders import Step, captured
from bench.gpu.models import Inputs
from bench.gpu.turns import largest_error, seconds_of
from bench.machine import describe_machine
from wrapperir.emit import Loaded, compile_program
from wrapperir.frontend.aten import small_products
from wrapperir.frontend.aten.small_products import sum_of_products
from wrapperir.frontend.inductor import capture
from wrapperir.passes import memory_passes
from wrapperir.pipelines import run_passes
from wrapperir_python.emitter import PythonEmitter

SHAPES = (
    (1, 512, 512, True),
    (1, 512, 2730, True),
    (1, 3072, 768, True),
    (1, 4096, 1024, True),
    (1, 4096, 4096, True),
    (1, 4096, 14336, True),
    (2, 1024, 1024, True),
    (4, 768, 3072, True),
    (8, 256, 256, True),
    (64, 64, 64, True),
    (128, 128, 128, True),
    (64, 64, 64, False),
    (128, 64, 64, False),
    (8, 256, 256, False),
)
"""Rows, terms of a sum, columns, and whether columns of the matrix are dense, or rows.

Of these, decompositions leave 1 × 4096 × 14336, 4 × 768 × 3072 and the last two to the
operator.
"""
DTYPES = torch.float16, torch.float32
CALLS = 20
ROUNDS = 10
MOST_BYTES = 400_000_000


def summed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Return the product as a sum."""
    return torch.relu(sum_of_products(x, w).to(x.dtype))


def called(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Return the product by the operator."""
    return torch.relu(x @ w)


def compiled(function: Callable[..., object], inputs: Inputs) -> Loaded:
    """Return a program that Inductor made of a function, products as written."""
    torch._dynamo.reset()  # else a second size makes all sizes symbolic
    with mock.patch.object(small_products, "is_summed", return_value=False):
        (lowered,) = capture(function, inputs)
    program = run_passes(lowered.program, memory_passes(PythonEmitter().support.lines))
    return compile_program(program, emitter="python", constants=lowered.constants)


def measure(
    dtype: torch.dtype, rows: int, depth: int, columns: int, has_dense_columns: bool
) -> tuple[float, float, float]:
    """Return the microseconds of the operator and of the sum, and their difference."""
    size = depth * columns * dtype.itemsize
    shape = (columns, depth) if has_dense_columns else (depth, columns)
    x = torch.randn(rows, depth, device="cuda", dtype=dtype)
    made = (
        torch.randn(shape, device="cuda", dtype=dtype)
        for _ in range(min(CALLS, MOST_BYTES // size))
    )
    matrices = [each.t() if has_dense_columns else each for each in made]
    programs = [compiled(function, (x, matrices[0])) for function in (called, summed)]

    def calls_of(program: Loaded) -> Step:
        def calls(given: Inputs) -> None:
            for index in range(CALLS):
                program([x, matrices[index % len(matrices)]])

        return calls

    replays = [captured(calls_of(program), [(x,)]) for program in programs]
    times = [
        [seconds_of(replay, "in_place", [(x,)], calls=1) for replay in replays]
        for _ in range(ROUNDS)
    ]
    results = [
        [each for each in program([x, matrices[0]]) if isinstance(each, torch.Tensor)]
        for program in programs
    ]
    operator, sum = (min(each) * 1e6 / CALLS for each in zip(*times, strict=True))
    return operator, sum, largest_error(*results)


def main() -> None:
    """Print a table."""
    print(f"{describe_machine()}, {torch.cuda.get_device_name(0)}\n")
    print("| type | rows × terms × columns | dense | operator | sum | ratio | difference |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: |")
    for dtype in DTYPES:
        for rows, depth, columns, has_dense_columns in SHAPES:
            operator, sum, difference = measure(
                dtype, rows, depth, columns, has_dense_columns
            )
            shown = f"{operator:.1f} | {sum:.1f} | {sum / operator:.2f} | {difference:.1e}"
            dense = "columns" if has_dense_columns else "rows"
            name = str(dtype).removeprefix("torch.")
            print(
                f"| {name} | {rows} × {depth} × {columns} | {dense} | {shown} |", flush=True
            )


if __name__ == "__main__":
    main()
