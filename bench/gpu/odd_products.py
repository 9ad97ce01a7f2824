"""Matrix products with an odd number of columns: the operator, and the pass's kernel.

    python -m bench.gpu.odd_products

Both take turns, each replayed from a CUDA graph with a number of calls, so that launches
count little.  Times are the least microseconds of a call.  The difference of the results
is relative to the operator's.
"""

from collections.abc import Sequence

import torch

from bench.gpu.contenders import Step, captured
from bench.gpu.models import Inputs
from bench.gpu.turns import largest_error, seconds_of
from bench.machine import describe_machine
from wrapperir.emit import compile_program
from wrapperir.ir import Program
from wrapperir.passes import tile_products
from wrapperir.text import parse_program

SHAPES = (
    (8, 768, 50257),
    (64, 768, 50257),
    (256, 768, 50257),
    (1024, 768, 50257),
    (16, 4096, 4099),
    (64, 4096, 4099),
    (64, 256, 30521),
    (64, 768, 2049),
)
"""Rows, terms of a sum, and columns."""
CALLS = 10
ROUNDS = 10

PROGRAM = """\
wrapperir 1

program @main(%x: f16[{rows}, {depth}]@cuda:0, \
%w: f16[{depth}, {columns}; stride 1, {depth}]@cuda:0, \
%y: mutated f16[{rows}, {columns}]@cuda:0) {{
  extern_kernel aten.mm.out(%x, %w, out = %y) writes(%y) @cuda:0
  return
}}
"""


def recorded(program: Program, inputs: Inputs) -> Step:
    """Return a replay of ``CALLS`` calls of a program."""
    call = compile_program(program, emitter="python")

    def calls(given: Inputs) -> None:
        for _ in range(CALLS):
            call([*given])

    return captured(calls, [inputs])


def compared(programs: Sequence[Program], inputs: Inputs) -> tuple[list[float], float]:
    """Return the microseconds of a call of each program, and a difference of results.

    It is that of the first and the last program.  The last input is the result.
    """
    replays = [recorded(program, inputs) for program in programs]
    times = [
        [seconds_of(replay, "in_place", [inputs], calls=1) for replay in replays]
        for _ in range(ROUNDS)
    ]
    results: list[torch.Tensor] = []
    for replay in replays:
        inputs[-1].zero_()
        replay(inputs)
        results.append(inputs[-1].clone())
    difference = largest_error(results[:1], results[-1:])
    return [min(each) * 1e6 / CALLS for each in zip(*times, strict=True)], difference


def main() -> None:
    """Print a table."""
    print(f"{describe_machine()}, {torch.cuda.get_device_name(0)}\n")
    print("| rows × terms × columns | operator | kernel | ratio | difference |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for rows, depth, columns in SHAPES:
        inputs = (
            torch.randn(rows, depth, device="cuda", dtype=torch.float16),
            torch.randn(columns, depth, device="cuda", dtype=torch.float16).t(),
            torch.empty(rows, columns, device="cuda", dtype=torch.float16),
        )
        text = PROGRAM.format(rows=rows, depth=depth, columns=columns)
        program = parse_program(text)
        times, difference = compared([program, tile_products(program)], inputs)
        operator, kernel = times
        shown = (
            f"{operator:.1f} | {kernel:.1f} | {kernel / operator:.2f} | {difference:.1e}"
        )
        print(f"| {rows} × {depth} × {columns} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
