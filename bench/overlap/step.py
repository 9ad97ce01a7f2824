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
* ``merge``: this project, with small sums over ranks merged too.

``--frontend lowering`` has this project make its own kernels.  Each contender runs in
processes of its own, for at most ``--limit`` seconds.  Rank 0 prints a JSON object a line:
the median and least seconds of a step of the slowest rank, the peak of bytes that the
allocator gave during a step beyond those before it (on a GPU), the peak of the plans of
its programs (of this project's), the loss after the timed steps and its difference from
eager's; then the ratios of the times to ``still``'s and ``inductor``'s.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
import torch
from attrs import asdict, frozen
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor

from bench.overlap.models import SPLITS, Shape, new_model

CONTENDERS = ("eager", "inductor", "still", "overlap", "merge")
PASSES = {
    "still": (),
    "overlap": ("overlap_collectives",),
    "merge": ("merge_collectives", "overlap_collectives"),
}
"""The passes of this project's contenders over collectives."""
RATIOS = (
    ("overlap", "still"),
    ("merge", "overlap"),
    ("overlap", "inductor"),
    ("still", "inductor"),
    ("overlap", "eager"),
)


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
    if contender == "inductor":
        return torch.compile(model)
    from wrapperir.emit.default_passes import passes_to_run
    from wrapperir.plugin import plugin_manager

    settings: dict[str, Any] = {"dump_dir": folder, "frontend": options.frontend}
    passes = passes_to_run(None, plugin_manager().emitter("python"), graphs=False)
    settings["passes"] = [
        name
        for each in passes
        for name in (PASSES[contender] if each == "overlap_collectives" else (each,))
    ]
    return torch.compile(model, backend="wrapperir", options=settings)


def planned_peak(folder: Path) -> int | None:
    """Return the largest peak of the programs that were written."""
    from wrapperir.analysis import analyze_memory
    from wrapperir.text import parse_program

    texts = [path.read_text() for path in sorted(folder.glob("*/program.wir"))]
    return max(
        (analyze_memory(parse_program(text), {}).peak for text in texts), default=None
    )


def wait(device: str) -> None:
    """Wait for the device's work."""
    if device == "cuda":
        torch.cuda.synchronize()


def measure(split: str, contender: str, options: Options) -> dict[str, Any]:
    """Return the figures of a contender on this rank."""
    shape, device = options.shape, options.device
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    mesh = init_device_mesh(device, (distributed.get_world_size(),))
    whole = new_model(shape).to(device, getattr(torch, options.dtype))
    model = SPLITS[split](whole, mesh, options.regather)
    # Shards of a batch are of different samples; ranks that split tensors share theirs.
    torch.manual_seed(options.seed + (distributed.get_rank() if split == "sharded" else 0))
    size = (shape.batch, shape.length, shape.width)
    x = torch.randn(size).to(device, getattr(torch, options.dtype))
    parameters = list(model.parameters())
    local = [p.to_local() if isinstance(p, DTensor) else p for p in parameters]

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = compiled(model, contender, options, folder)

        def step() -> torch.Tensor:
            loss: torch.Tensor = run(x).float().square().mean()
            torch.autograd.backward(loss)
            with torch.no_grad():
                grads = [p.grad for p in parameters if p.grad is not None]
                plain = [g.to_local() if isinstance(g, DTensor) else g for g in grads]
                torch._foreach_add_([p.detach() for p in local], plain, alpha=-1e-3)
            for parameter in parameters:
                parameter.grad = None
            return loss

        begun = time.perf_counter()
        for _ in range(3):
            step()
        wait(device)
        ready = time.perf_counter() - begun
        before = 0
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
        times: list[float] = []
        loss = torch.zeros(())
        for _ in range(options.steps):
            distributed.barrier()
            wait(device)
            start = time.perf_counter()
            loss = step()
            wait(device)
            times.append(time.perf_counter() - start)
        peak = torch.cuda.max_memory_allocated() - before if device == "cuda" else None
        plan = planned_peak(folder)
    slowest = torch.tensor(times, device=device)
    distributed.all_reduce(slowest, distributed.ReduceOp.MAX)
    mean = loss.detach().float()
    distributed.all_reduce(mean)
    return {
        "median": statistics.median(slowest.tolist()),
        "least": min(slowest.tolist()),
        "first_steps": ready,
        "peak_bytes": peak,
        "plan_bytes": plan,
        "loss": float(mean) / distributed.get_world_size(),
    }


def run_contender(split: str, contender: str, options: Options, port: int) -> None:
    """Run a contender on this rank; rank 0 prints its figures."""
    from torch._inductor import config

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    meeting = f"tcp://{os.environ['MASTER_ADDR']}:{port}"
    backend = "nccl" if options.device == "cuda" else "gloo"
    distributed.init_process_group(backend, init_method=meeting, rank=rank, world_size=size)
    reordering = nullcontext()
    if contender == "inductor":
        reordering = config.patch(reorder_for_compute_comm_overlap=True)
    try:
        with reordering:
            figures = measure(split, contender, options)
        if rank == 0:
            print(json.dumps(figures), flush=True)
    finally:
        distributed.destroy_process_group()


def figures_of(command: list[str], limit: float) -> dict[str, Any]:
    """Return what a process prints last, or why it prints nothing."""
    # A child that joins torchrun's own store would meet the ranks of other contenders.
    env = {k: v for k, v in os.environ.items() if not k.startswith("TORCHELASTIC_")}
    with tempfile.TemporaryFile("w+") as errors:
        try:
            ran = subprocess.run(
                command, env=env, stdout=subprocess.PIPE, stderr=errors, timeout=limit,
                text=True, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"skipped": f"more than {limit:.0f} s"}
        errors.seek(0)
        said = [line for line in errors.read().splitlines() if line.strip()]
    if ran.returncode:
        raised = [line for line in said if "Error" in line]
        return {"skipped": (raised or said or [f"exit status {ran.returncode}"])[-1][:300]}
    lines = ran.stdout.strip().splitlines()
    return json.loads(lines[-1]) if lines else {}


def compare(
    split: str, options: Options, names: list[str], limit: float, port: int
) -> None:
    """Run the contenders of a split, and print their figures on rank 0."""
    found: dict[str, dict[str, Any]] = {}
    for number, name in enumerate(names):
        given = json.dumps(asdict(options))
        command = [sys.executable, "-m", "bench.overlap.step", "--one", split, name]
        command += [str(port + number), given]
        figures = figures_of(command, limit)
        if int(os.environ["RANK"]) != 0:
            continue
        found[name] = figures
        if "loss" in figures and "loss" in found.get("eager", {}):
            reference = found["eager"]["loss"]
            figures["loss_difference"] = abs(figures["loss"] / reference - 1)
        print(json.dumps({"split": split, "contender": name, **figures}), flush=True)
    medians = {name: each["median"] for name, each in found.items() if "median" in each}
    ratios = {
        f"{one}/{other}": medians[one] / medians[other]
        for one, other in RATIOS
        if one in medians and other in medians
    }
    if ratios:
        print(json.dumps({"split": split, "ratios": ratios}), flush=True)


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
@click.option("--steps", default=10, help="timed steps")
@click.option("--seed", default=1)
@click.option("--limit", default=240.0, help="seconds for each contender")
def main(
    device: str | None,
    splits: tuple[str, ...],
    names: tuple[str, ...],
    dtype: str | None,
    limit: float,
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
    # The port of torchrun is taken; children meet at later ones.
    port = int(os.environ["MASTER_PORT"]) % 50000 + 5000
    for number, split in enumerate(splits or sorted(SPLITS)):
        first = port + len(CONTENDERS) * number
        compare(split, options, list(names or CONTENDERS), limit, first)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        split, contender, port, given = sys.argv[2:]
        read = json.loads(given)
        options = Options(**{**read, "shape": Shape(**read["shape"])})
        run_contender(split, contender, options, int(port))
    else:
        main()
