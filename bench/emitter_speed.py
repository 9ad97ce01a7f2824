"""Runs the benches of an emitter and writes their output to a page of ``docs/results``.

python -m bench.emitter_speed cpp|fx
"""

import subprocess
import sys

from bench.results import ROOT

CPP = """\
# Speed of the C++ emitter

Output of one run of `make bench-cpp`.
[Host time of emitted C++](../reference/cpp-host-time.md) explains the figures.
"""
CPP_SECTIONS = {
    "host.cpp": """\
## Host time

`python -m bench.host.cpp`: microseconds of one call on 8×8 matrices of f32, one
thread, a fresh output each call; all take turns in one process. X is 100 times a matrix
product and a fused add + relu, A the same with Inductor's patterns, which make an `addmm`
and a relu of it, M 200 matrix products, P 200 fused pointwise kernels kept apart; X/10 and
so on are a tenth as long, and 1 is one fused kernel. Ratios are to `loader.run`.
""",
    "compile.cpp_build": """\
## Build time

`python -m bench.compile.cpp_build`: processor seconds to build the host code of a Llama of
12 layers, 128 wide, and of the same lines ten times over; kernels and the runtime's objects
are built before. `all` is emission and the whole build. Below, chunks against one function
when they run.
""",
    "host.cpp_choice": """\
## Choosing between kernels

`python -m bench.host.cpp_choice`: nanoseconds of a call by how its kernel is chosen.
""",
}
FX = """\
# Speed of the FX emitter

Output of one run of `make bench-fx`.
"""
FX_SECTIONS = {
    "compile.fx_graph": """\
## Building a graph

`python -m bench.compile.fx_graph`: processor time of building the graph of a program of
about 1,000 lines, each node with its fake tensor, its line and where that came from, beside
that of creating the same nodes with `torch.fx.Graph` alone. The two take turns in one
process.
A is matrix products, each into memory that is allocated before and freed after it, D the
same with a number of rows that only the run knows, M Inductor's program of 333 matrix
products, X its program of 200 matrix products, each with a fused add + relu. It should be
at most twice the time of the nodes.
""",
    "host.fx": """\
## Running a graph

`python -m bench.host.fx`: microseconds of one call on 8×8 matrices of f32, one thread; all
take turns in one process. Inductor's FX backend has no C++ kernels, so the chains call
operators only: M is 200 matrix products, M/10 is 20 of them, A is 200 times `addmm`, B is
100 times a batched matrix product and a matrix product of views of it. Ours should take at
most 1.1 times as long as Inductor's FX backend; ratios are to that.
""",
}
PAGES = {"cpp": (CPP, CPP_SECTIONS), "fx": (FX, FX_SECTIONS)}


def main() -> None:
    """Run each bench in a process of its own, and write the page."""
    emitter = sys.argv[1]
    page, sections = PAGES[emitter]
    for module, introduction in sections.items():
        command = [sys.executable, "-W", "ignore", "-m", f"bench.{module}"]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        print(done.stdout, flush=True)
        done.check_returncode()
        page += f"\n{introduction}\n```text\n{done.stdout.strip()}\n```\n"
    path = ROOT / "docs" / "results" / f"{emitter}-speed.md"
    path.write_text(page)
    print(f"tables: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
