"""Matrix products with an odd number of columns: the operator, and the pass's kernel.

    python -m bench.gpu.odd_products

Both take turns, each replayed from a CUDA graph with a number of calls, so that launches
count little.  Times are the least microseconds of a call.
"""

import time
from collections.abc import Callable
from typing import Any

import torch

from bench.machine import describe_machine
from wrapperir.emit import compile_program
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


def recorded(call: Any, inputs: tuple[torch.Tensor, ...]) -> Callable[[], None]:
    """Return a replay of ``CALLS`` calls."""
    side: torch.cuda.Stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(side):
        for _ in range(3):
            call([*inputs])
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            call([*inputs])
    return graph.replay


def seconds_of(replay: Callable[[], None]) -> float:
    """Return the seconds of a call."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    replay()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / CALLS


def main() -> None:
    """Print a table."""
    print(f"{describe_machine()}, {torch.cuda.get_device_name(0)}\n")
    print("| rows × terms × columns | operator | kernel | ratio |")
    print("| --- | ---: | ---: | ---: |")
    for rows, depth, columns in SHAPES:
        inputs = (
            torch.randn(rows, depth, device="cuda", dtype=torch.float16),
            torch.randn(columns, depth, device="cuda", dtype=torch.float16).t(),
            torch.empty(rows, columns, device="cuda", dtype=torch.float16),
        )
        text = PROGRAM.format(rows=rows, depth=depth, columns=columns)
        program = parse_program(text)
        replays = [
            recorded(compile_program(each, emitter="python"), inputs)
            for each in (program, tile_products(program))
        ]
        times = [[seconds_of(replay) * 1e6 for replay in replays] for _ in range(ROUNDS)]
        operator, kernel = map(min, zip(*times, strict=True))
        shown = f"{operator:.1f} | {kernel:.1f} | {kernel / operator:.2f}"
        print(f"| {rows} × {depth} × {columns} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
