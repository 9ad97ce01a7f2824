"""Writes the page of what the passes for collectives decide for many ranks, by their model.

    python -m bench.overlap.simulate [--write]

The programs are captured for each number of ranks; nothing of them runs.
"""

import click
from attrs import evolve, frozen

from bench.overlap.capture import capture_step
from bench.overlap.models import Shape
from bench.results import ROOT, tested_versions
from wrapperir.analysis.machines import A100, H100, Machine
from wrapperir.ir import DType, Program
from wrapperir.passes import BlockOverlap, merge_lines, overlap_lines

PAGE = ROOT / "docs" / "results" / "overlap.md"
LAYER = Shape(layers=2, width=4096, hidden=14336, head=128, batch=1, length=4096)
"""Sizes of Llama 3 8B, with as many heads for keys and values as for queries."""
LARGE = evolve(LAYER, width=16384, hidden=53248)
"""Sizes of Llama 3.1 405B, likewise."""


@frozen(kw_only=True)
class Simulated:
    """The predicted seconds of the programs of a step, and their largest peak."""

    before: float
    after: float
    bound: float
    hidden: float
    collectives: float
    peak_before: int
    peak: int
    merged: int

    def cells(self) -> str:
        """Return the cells of a row of the table."""
        share = self.hidden / self.collectives if self.collectives else 0.0
        return (
            f"{self.before * 1e3:.2f} | {self.after * 1e3:.2f} | {self.bound * 1e3:.2f} | "
            f"{self.after / self.before:.2f} | {share:.2f} | "
            f"{self.peak / self.peak_before:.3f}"
        )


def simulate(programs: list[Program], machine: Machine, limit: float) -> Simulated:
    """Return what is predicted for the programs of a step."""
    blocks: list[BlockOverlap] = []
    merged = 0
    for program in programs:
        found = merge_lines(program, machine, limit)
        merged += sum(each.count for each in found.collectives)
        blocks += overlap_lines(found.program, machine, limit).report.blocks
    each = [each for block in blocks for each in block.collectives]
    return Simulated(
        before=sum(block.seconds_before for block in blocks),
        after=sum(block.seconds for block in blocks),
        bound=sum(block.bound for block in blocks),
        hidden=sum(max(0.0, one.seconds - one.stalls) for one in each),
        collectives=sum(one.seconds for one in each),
        peak_before=max(block.peak_before for block in blocks),
        peak=max(block.peak for block in blocks),
        merged=merged,
    )


@frozen(kw_only=True)
class Case:
    """A model that is split over numbers of ranks."""

    title: str
    split: str
    shape: Shape
    ranks: tuple[int, ...]


CASES = (
    Case(
        title="Fully sharded, parameters gathered again in the backward pass, 8B",
        split="sharded",
        shape=LAYER,
        ranks=(8, 16, 32, 64, 128, 256, 512, 1024),
    ),
    Case(title="Tensor-parallel, 8B", split="tensor", shape=LAYER, ranks=(8, 16, 32)),
    Case(title="Tensor-parallel, 405B", split="tensor", shape=LARGE, ranks=(32, 128)),
)
LIMITS = (1.02, 1.2)
MACHINES = (H100, A100)

INTRODUCTION = """\
# Collectives and work at once, by the model

What [`overlap_collectives`](../reference/passes.md#overlap_collectives) and
[`merge_collectives`](../reference/passes.md#merge_collectives) decide for two layers of a
Llama on 8 to 1,024 ranks, and what they predict. **Nothing on this page was measured.**
Made by `python -m bench.overlap.simulate --write` with {versions}.

The programs are those of a training step, forward and backward, in bf16, for one sequence
of 4,096 tokens, captured from `torch.compile` with PyTorch's fake process group and the
kernels of our own lowering. The fully sharded model gathers each parameter where it is
used, in both passes, and scatters its gradient, in the graph, as SimpleFSDP does; each rank
has a sequence of its own. There are as many heads for keys and values as for queries, and
at most so many ranks can split the tensors. Groups fill hosts.

## The model

A line takes the longer of two times: its bytes over the bandwidth of the memory, or, for
products and attention, its operations over those that the device does a second; and at
least {launch:.0f} µs. Both reach {reached:.0%} of the published figures. Collectives of one
group run one after the other, and slow no other work. One begins when the line with work
that follows its start ends, as kernels of products take all processors of a GPU until then
(seen in traces of NCCL on two H200). It takes the least time of ring and tree, and of their
protocols:

| collective of B bytes, on n ranks of h hosts | steps | a rank sends |
| --- | --- | --- |
| ring: all-gather, reduce-scatter | n − 1; h of them between hosts | (n − 1)/n B |
| ring: all-reduce | twice as many | 2 (n − 1)/n B |
| tree: all-reduce | 2 (n/h − 1) in hosts, 2 log₂ h between them | 2 B |

The bandwidth of a group in one host is that of NVLink. In several hosts, rings leave a host
through the adapters of all its ranks, so that it is that of NVLink or of all these
adapters, whichever is less.

{figures}

Sources: NVIDIA's data sheets of the H100 SXM (without sparsity) and the A100 80 GB SXM; its
guides to the DGX H100 and the DGX A100, which have an adapter of 400 or 200 Gb/s for each
GPU; `src/graph/tuning.cc` of NCCL, for the protocols. The share of links is that of gathers
of 32 to 90 MB on two H200, 0.42 to 0.50; that of the memory and of products is assumed.
The steps of rings and trees are those of Thakur, Rabenseifner and Gropp, *Optimization
of Collective Communication Operations in MPICH* (2005), and of NCCL's own model.

## What is predicted

Times are milliseconds of the forward and the backward pass, where small collectives are
merged. *Before*: waits where they stood. *After*: with work while collectives are in
flight. *Bound*: the work alone, or the collectives alone if they take longer. *Ratio*:
after over before. *Hidden*: the share of the collectives' time for which no wait stalls.
*Peak*: of the live bytes after, as a multiple of those before, which `limit`, the argument
of each of both passes, bounds.
"""


HEAD = """\
| ranks | machine | limit | before | after | bound | ratio | hidden | peak |
| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
"""


def figures() -> str:
    """Return the table of the machines' figures."""
    rows: list[tuple[str, list[str]]] = [
        ("bf16, TFLOP/s", [f"{m.products[DType.BF16] / 1e12:g}" for m in MACHINES]),
        ("memory, TB/s", [f"{m.memory / 1e12:g}" for m in MACHINES]),
        ("NVLink, GB/s in one direction", [f"{m.link.within / 1e9:g}" for m in MACHINES]),
        ("adapter of a GPU, GB/s", [f"{m.link.between / 1e9:g}" for m in MACHINES]),
        ("share of links that is reached", [f"{m.linked:.0%}" for m in MACHINES]),
        ("ranks of a host", [f"{m.host_ranks}" for m in MACHINES]),
    ]
    for number, ring in enumerate(H100.rings):
        cells = [
            f"{x.start * 1e6:g} + {x.within * 1e6:g}, {x.between * 1e6:g} ({x.share:g})"
            for x in (m.rings[number] for m in MACHINES)
        ]
        rows.append((f"ring, {ring.name}", cells))
    for number, tree in enumerate(H100.trees):
        cells = [
            f"{x.start * 1e6:g} + {x.within * 1e6:g}, {x.between * 1e6:g} ({x.share:g})"
            for x in (m.trees[number] for m in MACHINES)
        ]
        rows.append((f"tree, {tree.name}", cells))
    names = " | ".join(machine.name.upper() for machine in MACHINES)
    lines = [f"| figure | {names} |", "| --- |" + " ---: |" * len(MACHINES)]
    lines += [f"| {title} | {' | '.join(cells)} |" for title, cells in rows]
    lines += ["", "Rings and trees: µs before the first step + of a step in a host, of one"]
    lines += ["between hosts (the share of the bandwidth)."]
    return "\n".join(lines)


def page() -> str:
    """Return the page."""
    text = INTRODUCTION.format(
        versions=tested_versions(),
        launch=H100.launch * 1e6,
        reached=H100.reached,
        figures=figures(),
    )
    merged = 0
    for case in CASES:
        text += f"\n### {case.title}\n\n{HEAD}"
        for ranks in case.ranks:
            programs = capture_step(case.split, case.shape, ranks, regather=True)
            for machine in MACHINES:
                for limit in LIMITS:
                    found = simulate(programs, machine, limit)
                    merged += found.merged
                    name = machine.name.upper()
                    text += f"| {ranks:,} | {name} | {limit} | {found.cells()} |\n"
            click.echo(f"{case.title}, {ranks} ranks", err=True)
    return f"{text}\nCollectives that were merged with others, in all rows: {merged}.\n"


@click.command(help=__doc__)
@click.option("--write", is_flag=True, help="write the page, instead of printing it")
def main(write: bool) -> None:
    """Print or write the page."""
    text = page()
    if write:
        PAGE.write_text(text, encoding="utf-8")
    else:
        click.echo(text)


if __name__ == "__main__":
    main()
