"""Times a training step of a split model on several ranks, contenders one after the other.

    torchrun --nproc-per-node 2 -m bench.overlap.step [--device cuda|cpu] [OPTIONS]

A Llama-like model is split over all ranks in each of the ways that ``--split`` names:
``tensor`` (matrices by columns and rows) or ``sharded`` (each parameter sharded, gathered
where it is used; with ``--regather`` gathered again in the backward pass).  A step is the
forward pass, the backward pass and an update of the parameters.  The contenders are

* ``eager``;
* ``inductor``, with ``reorder_for_compute_comm_overlap``;
* ``still``: this project, with waits where they stood;
* ``overlap``: this project, with work while collectives are in flight, as by default;
* ``merge``: this project, with small collectives merged too;
* ``replay`` and ``inductor-replay``: ``overlap`` and ``inductor`` with CUDA graphs, which
  hold the collectives.

``--frontend lowering`` has this project make its own kernels.  The contenders take turns
in one process a rank.  Rank 0 prints a JSON object a line: the median and least seconds of
a step of the slowest rank, the peak of bytes that the allocator gave during a step beyond
those before it (on a GPU), for this project also that of each program and of its plan, the
loss after the timed steps and its difference from eager's; then the ratios of the times to
``still``'s and ``inductor``'s.  With ``--write``, ``docs/results/overlap-steps.md``
is written for two ranks, and a page of its own for another number.
"""

import gc
import json
import os
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import torch
from attrs import asdict, define, field, frozen
from torch import distributed, nn
from torch._inductor import config
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor

from bench.machine import describe_machine
from bench.overlap.models import SPLITS, Shape, new_model
from bench.overlap.program_peaks import CudaAllocator, ProgramPeak, measure_programs
from bench.results import ROOT

CONTENDERS = (
    *("eager", "inductor", "still", "overlap", "merge"),
    *("replay", "inductor-replay"),
)
PASSES = {
    "still": (),
    "overlap": ("overlap_collectives",),
    "merge": ("merge_collectives", "overlap_collectives"),
    "replay": ("overlap_collectives",),
}
"""The passes of this project's contenders over collectives."""
RATIOS = (
    ("overlap", "still"),
    ("merge", "overlap"),
    ("overlap", "inductor"),
    ("still", "inductor"),
    ("overlap", "eager"),
    ("replay", "overlap"),
    ("replay", "inductor-replay"),
)

BASES = "still", "inductor", "inductor-replay"
"""The contenders that a page has the ratios to."""
ROLES = "forward", "backward"
"""The programs of a step."""


@frozen(kw_only=True)
class Options:
    """What all contenders are given."""

    device: str
    dtype: str
    frontend: str
    regather: bool
    steps: int
    seed: int
    shape: Shape


def compiled(model: nn.Module, contender: str, options: Options, folder: Path) -> Any:
    """Return the model as a contender runs it."""
    if contender == "eager":
        return model
    if contender.startswith("inductor"):
        return torch.compile(model, options={"triton.cudagraphs": "replay" in contender})
    from wrapperir.emit.default_passes import passes_to_run
    from wrapperir.plugin import plugin_manager

    settings: dict[str, Any] = {"dump_dir": folder, "frontend": options.frontend}
    graphs = contender == "replay"
    passes = passes_to_run(
        None,
        plugin_manager().emitter("python"),
        graphs=graphs,
        graph_collectives=graphs,
    )
    settings["passes"] = [
        name
        for each in passes
        for name in (PASSES[contender] if each == "overlap_collectives" else (each,))
    ]
    return torch.compile(model, backend="wrapperir", options=settings)


def wait(device: str) -> None:
    """Wait for the device's work."""
    if device == "cuda":
        torch.cuda.synchronize()


PAGES = ROOT / "docs" / "results"
INTRODUCTION = """\
# Collectives and work at once, measured{on_ranks}

This command wrote this page:

    {command}

{machine}, {ranks} ranks

A training step of a Llama-like model ({shape}).
Milliseconds are the median of {steps} steps of the slowest rank; contenders take turns.
The peak is of what a step allocates; the peaks of the forward and the backward program are
divided by those that are planned. Losses are relative differences.

{contenders}
"""
MEANINGS = {
    "eager": "PyTorch without a compiler",
    "inductor": "with `reorder_for_compute_comm_overlap`",
    "still": "this project, with waits where they stood",
    "overlap": "with work while collectives are in flight, as by default",
    "merge": "*overlap*, with small collectives merged",
    "replay": "*overlap*, with CUDA graphs that hold the collectives",
    "inductor-replay": "*inductor*, with CUDA graphs",
}


@define
class Contender:
    """A contender that is ready: its step, and what was measured of it."""

    step: Callable[[], torch.Tensor]
    first_steps: float
    peak: int | None
    programs: dict[str, ProgramPeak]
    times: list[float] = field(factory=list[float])


def prepare(split: str, name: str, options: Options) -> Contender:
    """Return a contender after its first steps."""
    shape, device = options.shape, options.device
    mesh = init_device_mesh(device, (distributed.get_world_size(),))
    whole = new_model(shape).to(device, getattr(torch, options.dtype))
    model = SPLITS[split](whole, mesh, options.regather)
    # Shards of a batch are of different samples; ranks that split tensors share theirs.
    torch.manual_seed(options.seed + (distributed.get_rank() if split == "sharded" else 0))
    size = (shape.batch, shape.length, shape.width)
    x = torch.randn(size).to(device, getattr(torch, options.dtype))
    parameters = list(model.parameters())
    local = [p.to_local() if isinstance(p, DTensor) else p for p in parameters]

    with tempfile.TemporaryDirectory() as written:
        folder = Path(written)
        run = compiled(model, name, options, folder)

        def step() -> torch.Tensor:
            loss: torch.Tensor = run(x).float().square().mean()
            torch.autograd.backward(loss)
            with torch.no_grad():
                grads = [p.grad for p in parameters if p.grad is not None]
                plain = [g.to_local() if isinstance(g, DTensor) else g for g in grads]
                torch._foreach_add_([p.detach() for p in local], plain, alpha=-1e-3)
            model.zero_grad()
            return loss

        reordering = config.patch(reorder_for_compute_comm_overlap="inductor" in name)
        begun = time.perf_counter()
        with reordering:
            for _ in range(3):
                step()
        wait(device)
        ready = time.perf_counter() - begun
        peak = peak_of(step, device)
        programs: dict[str, ProgramPeak] = {}
        if device == "cuda" and name in PASSES and name != "replay":
            programs = measure_programs(run, x, folder, CudaAllocator())
        model.zero_grad()
        return Contender(step, ready, peak, programs)


def peak_of(step: Callable[[], torch.Tensor], device: str) -> int | None:
    """Return the bytes that a step needs beyond those before it, on a GPU."""
    if device != "cuda":
        return None
    allocator = CudaAllocator()
    before = allocator.begin()
    step()
    return allocator.peak() - before


def timed(contender: Contender, device: str) -> torch.Tensor:
    """Time a step after all ranks have met, and return its loss."""
    distributed.barrier()
    wait(device)
    start = time.perf_counter()
    loss = contender.step()
    wait(device)
    contender.times.append(time.perf_counter() - start)
    return loss


def figures_of(contender: Contender, loss: torch.Tensor, device: str) -> dict[str, Any]:
    """Return the figures of a contender on all ranks."""
    slowest = torch.tensor(contender.times, device=device)
    distributed.all_reduce(slowest, distributed.ReduceOp.MAX)
    mean = loss.detach().float()
    distributed.all_reduce(mean)
    return {
        "median": statistics.median(slowest.tolist()),
        "least": min(slowest.tolist()),
        "first_steps": contender.first_steps,
        "peak_bytes": contender.peak,
        "programs": {role: asdict(peak) for role, peak in contender.programs.items()},
        "loss": float(mean) / distributed.get_world_size(),
    }


def compare(split: str, options: Options, names: list[str]) -> dict[str, dict[str, Any]]:
    """Run the contenders of a split, and print their figures on rank 0; return them."""
    ready = {name: prepare(split, name, options) for name in names}
    losses: dict[str, torch.Tensor] = {}
    for _ in range(options.steps):
        for name, contender in ready.items():
            losses[name] = timed(contender, options.device)
    found = {
        name: figures_of(contender, losses[name], options.device)
        for name, contender in ready.items()
    }
    if distributed.get_rank() != 0:
        return found
    for name, figures in found.items():
        if "eager" in found:
            reference = found["eager"]["loss"]
            figures["loss_difference"] = abs(figures["loss"] / reference - 1)
        print(json.dumps({"split": split, "contender": name, **figures}), flush=True)
    ratios = {
        f"{one}/{other}": found[one]["median"] / found[other]["median"]
        for one, other in RATIOS
        if one in found and other in found
    }
    print(json.dumps({"split": split, "ratios": ratios}), flush=True)
    return found


def page_text(
    found: dict[str, dict[str, dict[str, Any]]],
    options: Options,
    machine: str,
    command: str,
) -> str:
    """Return the page of the figures of each split."""
    ranks = distributed.get_world_size()
    shape = ", ".join(f"{key} {value}" for key, value in asdict(options.shape).items())
    text = INTRODUCTION.format(
        machine=machine,
        on_ranks="" if ranks == 2 else f" on {ranks} ranks",
        ranks=ranks,
        shape=f"{shape}, {options.dtype}",
        command=command,
        steps=options.steps,
        contenders="\n".join(
            f"- *{name}*: {MEANINGS[name]}" for name in next(iter(found.values()))
        ),
    )
    for split, figures in found.items():
        bases = [name for name in BASES if name in figures]
        heads = "ms", *[f"/ {n}" for n in bases], "peak, MB", *ROLES, "loss, from eager's"
        text += f"\n| {split} | {' | '.join(heads)} |\n| --- |{' ---: |' * len(heads)}\n"
        for name, each in figures.items():
            cells = [f"{each['median'] * 1e3:.2f}"]
            cells += [f"{each['median'] / figures[n]['median']:.3f}" for n in bases]
            peak = each["peak_bytes"]
            cells.append(f"{peak / 1e6:.0f}" if peak else "-")
            for role in ROLES:
                program = each["programs"].get(role)
                there = program is not None
                cells.append(
                    f"{program['taken'] / program['planned']:.3f}" if there else "-"
                )
            difference = each.get("loss_difference")
            cells.append("-" if difference is None else f"{difference:.0e}")
            text += f"| {name} | {' | '.join(cells)} |\n"
    return text


@click.command(help=__doc__)
@click.option("--device", type=click.Choice(["cuda", "cpu"]), default=None)
@click.option("--split", "splits", multiple=True, type=click.Choice(sorted(SPLITS)))
@click.option("--contender", "names", multiple=True, type=click.Choice(CONTENDERS))
@click.option("--frontend", type=click.Choice(["inductor", "lowering"]), default="inductor")
@click.option("--regather", is_flag=True)
@click.option("--dtype", default=None, help="default: bfloat16 on a GPU, else float32")
@click.option("--layers", default=4)
@click.option("--width", default=4096)
@click.option("--hidden", default=11008)
@click.option("--head", default=128)
@click.option("--batch", default=1)
@click.option("--length", default=4096)
@click.option("--steps", default=20, help="timed steps")
@click.option("--seed", default=1)
@click.option("--write", is_flag=True, help="write the page")
def main(
    device: str | None,
    splits: tuple[str, ...],
    names: tuple[str, ...],
    dtype: str | None,
    write: bool,
    **sizes: Any,
) -> None:
    """Compare the contenders of each split."""
    if "RANK" not in os.environ:
        raise click.ClickException(
            "run this with torchrun --nproc-per-node N -m bench.overlap.step"
        )
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    shape = Shape(**{k: sizes.pop(k) for k in ("layers", "width", "hidden")},
                  **{k: sizes.pop(k) for k in ("head", "batch", "length")})  # fmt: skip
    dtype = dtype or ("bfloat16" if device == "cuda" else "float32")
    options = Options(device=device, dtype=dtype, shape=shape, **sizes)
    torch._dynamo.config.recompile_limit = 64  # the contenders share their models' code
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    distributed.init_process_group("nccl" if device == "cuda" else "gloo")
    try:
        found = {
            split: compare(split, options, list(names or CONTENDERS))
            for split in splits or sorted(SPLITS)
        }
        if write and distributed.get_rank() == 0:
            machine = describe_machine()
            if device == "cuda":
                machine += f", {torch.cuda.get_device_name(0)}"
            ranks = distributed.get_world_size()
            given = shlex.join(sys.argv[1:])
            command = f"torchrun --nproc-per-node {ranks} -m bench.overlap.step {given}"
            name = "overlap-steps" if ranks == 2 else f"overlap-steps-{ranks}"
            text = page_text(found, options, machine, command)
            (PAGES / f"{name}.md").write_text(text)
    finally:
        # NCCL waits for graphs that have its collectives when its group is destroyed.
        torch.compiler.reset()
        gc.collect()
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
