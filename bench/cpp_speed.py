"""Runs the benches of the C++ emitter and writes what they print to ``docs/sweeps``.

python -m bench.cpp_speed
"""

import subprocess
import sys

from bench.results import ROOT

PAGE = ROOT / "docs" / "sweeps" / "cpp-speed.md"
INTRODUCTION = """\
# Speed of the C++ emitter

What `make bench-cpp` printed, in one run.
[Host time of emitted C++](../reference/cpp-host-time.md) explains the figures.
"""
SECTIONS = {
    "cpp_host_time": """\
## Host time

`python -m bench.cpp_host_time`: microseconds of one call on 8×8 matrices of f32, one
thread, a fresh output each call; all take turns in one process. X is 100 times a matrix
product and a fused add + relu, A the same with Inductor's patterns, which make an `addmm`
and a relu of it, M 200 matrix products, P 200 fused pointwise kernels kept apart; X/10 and
so on are a tenth as long, and 1 is one fused kernel. Ratios are to `loader.run`.
""",
    "cpp_build_time": """\
## Build time

`python -m bench.cpp_build_time`: processor seconds to build the host code of a Llama of
12 layers, 128 wide, and of the same lines ten times over; kernels and the runtime's objects
are built before. `all` is emission and the whole build. Below, chunks against one function
when they run.
""",
    "cpp_decided_call": """\
## Choosing between kernels

`python -m bench.cpp_decided_call`: nanoseconds of a call by how its kernel is chosen.
""",
}


def main() -> None:
    """Run them, each in a process of its own, and write the page."""
    page = INTRODUCTION
    for name, introduction in SECTIONS.items():
        command = [sys.executable, "-W", "ignore", "-m", f"bench.{name}"]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        print(done.stdout, flush=True)
        done.check_returncode()
        page += f"\n{introduction}\n```text\n{done.stdout.strip()}\n```\n"
    PAGE.write_text(page)
    print(f"tables: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
