"""Cost of choosing a kernel in emitted C++.

Kernels that do nothing are called in a loop, in one program for each way to choose between
two of them.  The loop of every program makes a view with the sizes of the iteration.  The
cost is the time of a call less that of a direct call.  The direct call is measured twice,
as two programs; their difference is the error of the figures.

Programs take turns; each figure is the least of many.

    python -m bench.host.cpp_choice
"""

import time
from collections.abc import Mapping

import torch

from bench.machine import describe_machine
from wrapperir.emit import Loaded
from wrapperir.text import parse_program
from wrapperir.verify import verify
from wrapperir_cpp.emitter import CppEmitter

CALLS, ITERATIONS, TURNS = 100, 2_000, 60

KERNEL = """\
kernel_definition @{name} cpp(p: read_write f32*) {{
  entry = kernel
  source {{
    | extern "C" void kernel(float* p) {{}}
  }}
}}
"""
MULTI = """\
multi_kernel @pick(p: read_write f32*) {{
  size M = size(p, 0)
  size N = size(p, 1)
  choice @one(0)
  choice @two(0)
  select {selection}
}}
"""
HINTS = "0: (64, 64), 1: (256, 64), 0: (1024, 1024), 1: (4096, 1024)"
TREE = "where(M * N <= 16384, where(M < 64, 1, 0), where(N % 128 == 0, 0, 1))"
NEAREST = f"nearest_shape({HINTS})"
COMPUTED = f"computed({TREE})"

WAYS: Mapping[str, tuple[str | None, int]] = {
    "direct": (None, 1),
    "direct, another program": (None, 1),
    "recorded": ("recorded(1)", 1),
    "nearest_shape, a known shape": (NEAREST, 1),
    "computed": (COMPUTED, 1),
    "benchmark, once decided": ("benchmark", 1),
    "direct, shapes alternate": (None, 2),
    "nearest_shape, shapes alternate": (NEAREST, 2),
    "computed, shapes alternate": (COMPUTED, 2),
}
"""How each program chooses, and how many shapes take turns."""


def program(number: int, selection: str | None, shapes: int) -> str:
    """Return a program of ``CALLS`` calls in a loop."""
    multi = MULTI.format(selection=selection) if selection else ""
    calls = f"      kernel_call @{'pick' if selection else 'two'}(%v)\n" * CALLS
    return f"""\
wrapperir 1

{KERNEL.format(name="one")}
{KERNEL.format(name="two")}
{multi}
program @of_{number}(%a: mutated f32[65536], %n: i64) {{
  %count = while_loop (0) (%a, %n) : i64 {{
    condition (%i: i64, %a1: f32[65536], %n1: i64) {{
      symbol_definition i1: int = value(%i)
      symbol_definition most: int = value(%n1)
      return i1 < most
    }}
    body (%j: i64, %a2: f32[65536], %n2: i64) {{
      symbol_definition i2: int = value(%j)
      symbol_definition m: int 1..1024 = i2 % {shapes} * 64 + 64
      %v = reinterpret %a2 as f32[m, 64]
{calls}      free %v
      return i2 + 1
    }}
  }}
  return %count
}}
"""


def load(number: int, selection: str | None, shapes: int) -> Loaded:
    """Return a program, built and called once."""
    parsed = parse_program(program(number, selection, shapes))
    assert verify(parsed) == ()
    emitter = CppEmitter()
    call = emitter.load(emitter.emit(parsed), {})
    call([torch.zeros(65536), 10])
    return call


def nanoseconds(call: Loaded, memory: torch.Tensor) -> float:
    """Return the time of one kernel call."""
    begin = time.perf_counter_ns()
    call([memory, ITERATIONS])
    return (time.perf_counter_ns() - begin) / (CALLS * ITERATIONS)


def main() -> None:
    """Print the table."""
    calls = {name: load(number, *way) for number, (name, way) in enumerate(WAYS.items())}
    memory = torch.zeros(65536)
    least = dict.fromkeys(WAYS, float("inf"))
    for _ in range(TURNS):
        for name, call in calls.items():
            least[name] = min(least[name], nanoseconds(call, memory))
    print(describe_machine())
    print()
    print("| a call that is | ns | ns more than a direct call |")
    print("| --- | ---: | ---: |")
    for name, time_of in least.items():
        base = least["direct, shapes alternate" if "alternate" in name else "direct"]
        print(f"| {name} | {time_of:.2f} | {time_of - base:.2f} |")


if __name__ == "__main__":
    main()
