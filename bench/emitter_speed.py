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

`python -m bench.host.cpp`: microseconds of one call on 8×8 matrices of f32, with one thread
and a new output for each call. The contenders take turns in one process. Ratios are to
`loader.run`, AOTInductor's C++ entry point.

- X: 100 times a matrix product and a fused add + relu
- A: the same function with Inductor's patterns on, which turn it into `addmm` and relu
- M: 200 matrix products
- P: 200 pointwise kernels that are not fused with each other
- X/10, M/10, P/10: a tenth as long
- 1: one fused kernel
""",
    "compile.cpp_build": """\
## Build time

`python -m bench.compile.cpp_build`: processor seconds to build the host code of a Llama
with 12 layers of width 128, and of the same lines ten times over. Kernels and the runtime
are built before. `all` is emission and the whole build. The last table compares the run
time of programs that are split into functions (chunks) with that of one large function.
""",
    "host.cpp_choice": """\
## Choosing between kernels

`python -m bench.host.cpp_choice`: nanoseconds of a call, by the way its kernel is chosen.
""",
}
FX = """\
# Speed of the FX emitter

Output of one run of `make bench-fx`.
"""
FX_SECTIONS = {
    "compile.fx_graph": """\
## Building a graph

`python -m bench.compile.fx_graph`: processor time to build the graph of a program of about
1,000 lines, where each node gets its fake tensor, its line and its provenance, beside the
time to create the same nodes with `torch.fx.Graph` alone. The two take turns in one
process. The goal is at most twice the time of the nodes alone.

- A: matrix products, each into memory that is allocated before and freed after it
- D: the same with a dynamic number of rows
- M: Inductor's program of 333 matrix products
- X: Inductor's program of 200 matrix products, each with a fused add + relu
""",
    "host.fx": """\
## Running a graph

`python -m bench.host.fx`: microseconds of one call on 8×8 matrices of f32, with one thread.
The contenders take turns in one process. Inductor's FX backend has no C++ kernels, so the
programs call operators only. Ratios are to Inductor's FX backend; the goal is at most 1.1.

- M: 200 matrix products; M/10: 20 of them
- A: 200 times `addmm`
- B: 100 times a batched matrix product and a matrix product of views of it
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
