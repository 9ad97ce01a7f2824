"""Runs the benches of the FX emitter and writes what they print to ``docs/sweeps``.

python -m bench.fx_speed
"""

import subprocess
import sys

from bench.results import ROOT

PAGE = ROOT / "docs" / "sweeps" / "fx-speed.md"
INTRODUCTION = """\
# Speed of the FX emitter

What `make bench-fx` printed, in one run.
"""
SECTIONS = {
    "fx_emission": """\
## Building a graph

`python -m bench.fx_emission`: processor time of building the graph of a program of about
1,000 lines, each node with its fake tensor, its line and where that came from, beside that
of creating the same nodes with `torch.fx.Graph` alone. The two take turns in one process.
A is matrix products, each into memory that is allocated before and freed after it, D the
same with a number of rows that only the run knows, M Inductor's program of 333 matrix
products, X its program of 200 matrix products, each with a fused add + relu. It should be
at most twice the time of the nodes.
""",
    "fx_run": """\
## Running a graph

`python -m bench.fx_run`: microseconds of one call on 8×8 matrices of f32, one thread; all
take turns in one process. Inductor's FX backend has no C++ kernels, so the chains call
operators only: M is 200 matrix products, M/10 is 20 of them, A is 200 times `addmm`, B is
100 times a batched matrix product and a matrix product of views of it. Ours should take at
most 1.1 times as long as Inductor's FX backend; ratios are to that.
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
