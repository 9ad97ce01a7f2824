"""Attention of few positions: the libraries' kernels, and the pass's.

    python -m bench.gpu.short_attention

All take turns, each replayed from a CUDA graph with a number of calls, so that launches
count little.  Times are the least microseconds of a call; the ratio is to the faster
library.  The difference of the results is relative to the first library's.
"""

import torch

from bench.gpu.odd_products import compared
from bench.machine import describe_machine
from wrapperir.passes import tile_attention
from wrapperir.text import parse_program

SHAPES = (
    (1, 12, 16, 16, 64),
    (1, 12, 64, 64, 64),
    (4, 12, 64, 64, 64),
    (64, 12, 64, 64, 64),
    (1, 12, 128, 128, 64),
    (16, 12, 128, 128, 64),
    (8, 32, 1, 128, 128),
    (8, 32, 128, 128, 128),
    (1, 12, 256, 256, 64),
    (4, 12, 256, 256, 64),
)
"""Batch, heads, queries, keys, and elements of each."""
LIBRARIES = "efficient", "cudnn"

PROGRAM = """\
wrapperir 1

program @main(%q: f16[{q}]@cuda:0, %k: f16[{k}]@cuda:0, %v: f16[{k}]@cuda:0, \
%m: f16[{m}]@cuda:0, %y: mutated f16[{q}]@cuda:0) {{
  %all = extern_kernel aten._scaled_dot_product_{library}_attention.default(\
%q, %k, %v, %m, false) @cuda:0 : (f16[{q}]@cuda:0)
  %x = multi_output %all[0] : f16[{q}]@cuda:0
  extern_kernel aten.copy_.default(%y, %x) writes(%y) @cuda:0
  free %all
  free %x
  return
}}
"""


HEADER = """\
Each call also copies its result.

| batch × heads × queries × keys × width | efficient | cuDNN | kernel | ratio | difference |
| --- | ---: | ---: | ---: | ---: | ---: |"""


def _rows(batch: int, heads: int, positions: int, width: int) -> torch.Tensor:
    made = torch.randn(batch, positions, heads, width, device="cuda")
    return made.half().transpose(1, 2)


def main() -> None:
    """Print a table."""
    print(f"{describe_machine()}, {torch.cuda.get_device_name(0)}\n")
    print(HEADER)
    for batch, heads, rows, columns, width in SHAPES:
        positions = rows, columns, columns, rows
        q, k, v, y = (_rows(batch, heads, each, width) for each in positions)
        mask = torch.zeros(rows, columns, device="cuda", dtype=torch.float16)
        step = heads * width
        types = {
            name: f"{batch}, {heads}, {n}, {width}; stride {n * step}, {width}, {step}, 1"
            for name, n in (("q", rows), ("k", columns))
        }
        types["m"] = f"{batch}, {heads}, {rows}, {columns}; stride 0, 0, {columns}, 1"
        programs = [parse_program(PROGRAM.format(library=x, **types)) for x in LIBRARIES]
        inputs = q, k, v, mask.expand(batch, heads, rows, columns), y
        times, difference = compared([*programs, tile_attention(programs[0])], inputs)
        shown = " | ".join(f"{each:.1f}" for each in times)
        ratio = times[-1] / min(times[:-1])
        shape = f"{batch} × {heads} × {rows} × {columns} × {width}"
        print(f"| {shape} | {shown} | {ratio:.2f} | {difference:.1e} |", flush=True)


if __name__ == "__main__":
    main()
