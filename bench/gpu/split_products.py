"""Matrix products with one odd extent: one call, and an aligned and a narrow one.

    python -m bench.gpu.split_products

The products are those of 1024 positions and a vocabulary of 50,257 words in training, with
padded rows.  Both ways take turns, each replayed from a CUDA graph with a number of calls,
so that launches count little.  Times are the least microseconds of a call.
"""

import torch

from bench.gpu.odd_products import compared
from bench.machine import describe_machine
from wrapperir.passes import split_products
from wrapperir.text import parse_program

POSITIONS, WORDS, PADDED, WIDTH = 1024, 50257, 50264, 768

SCORES = f"{POSITIONS}, {WORDS}; stride {PADDED}, 1"
CASES = {
    "scores": (
        f"{POSITIONS}, {WIDTH}",
        f"{WIDTH}, {WORDS}; stride 1, {WIDTH}",
        SCORES,
    ),
    "gradient of positions": (SCORES, f"{WORDS}, {WIDTH}", f"{POSITIONS}, {WIDTH}"),
    "gradient of words": (
        f"{WORDS}, {POSITIONS}; stride 1, {PADDED}",
        f"{POSITIONS}, {WIDTH}",
        f"{WORDS}, {WIDTH}",
    ),
}
PROGRAM = """\
wrapperir 1

program @main(%x: bf16[{x}]@cuda:0, %w: bf16[{w}]@cuda:0, %y: mutated bf16[{y}]@cuda:0) {{
  extern_kernel aten.mm.out(%x, %w, out = %y) writes(%y) @cuda:0
  return
}}
"""


def tensor_of(layout: str) -> torch.Tensor:
    """Return random numbers in a layout."""
    size, _, stride = layout.partition("; stride ")
    shape = [int(extent) for extent in size.split(",")]
    steps = [int(step) for step in stride.split(",")] if stride else [shape[1], 1]
    made = torch.empty_strided(shape, steps, device="cuda", dtype=torch.bfloat16)
    return made.normal_()


def main() -> None:
    """Print a table."""
    print(f"{describe_machine()}, {torch.cuda.get_device_name(0)}\n")
    print("| product | one call | two | ratio | difference |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, (x, w, y) in CASES.items():
        inputs = (tensor_of(x), tensor_of(w), tensor_of(y))
        program = parse_program(PROGRAM.format(x=x, w=w, y=y))
        times, difference = compared([program, split_products(program)], inputs)
        one, two = times
        print(f"| {name} | {one:.1f} | {two:.1f} | {two / one:.2f} | {difference:.1e} |")


if __name__ == "__main__":
    main()
