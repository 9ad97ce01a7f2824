"""Kernels that Inductor writes only for GPUs, autotuned, beside Inductor and eager mode.

    python -m bench.gpu.autotuned [--write] [WORKLOAD ...]

Templates of products, convolutions and attention, split scans, cooperative and mix-order
reductions.  ``docs/results/gpu-autotuned.md`` is written with ``--write``.
"""

import statistics
from collections.abc import Callable
from typing import Any

import click
import torch
import torch.nn.functional as F  # noqa: N812
from attrs import frozen
from torch._inductor import config
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils import _pytree as pytree

from bench.gpu.contenders import Step
from bench.gpu.models import Inputs
from bench.gpu.turns import calls_of_a_turn, largest_error, seconds_of_a_turn
from bench.machine import describe_machine
from bench.results import ROOT

ROUNDS = 9
PAGE = ROOT / "docs" / "results" / "gpu-autotuned.md"
INTRODUCTION = """\
# Kernels that Inductor writes for GPUs, autotuned

`python -m bench.gpu.autotuned --write` wrote this page.

{machine}

The contenders take turns in one process. Times are the median microseconds of a call in
{rounds} turns, the GPU's work included. Errors are norms of the difference from eager mode,
relative to those of its results.

"""
CONTENDERS: dict[str, dict[str, Any]] = {
    "Inductor": {},
    "Python": {"backend": "wrapperir"},
    "C++": {"backend": "wrapperir", "options": {"emitter": "cpp"}},
}
OURS = ("Python", "C++")
AUTOTUNED = {"max_autotune": True, "max_autotune_gemm_backends": "TRITON"}
TMA = {
    **AUTOTUNED,
    "triton.enable_persistent_tma_matmul": True,
    "test_configs.autotune_choice_name_regex": ".*tma.*",
}


@frozen
class Kernels:
    """A function, the sizes of its inputs, and Inductor's settings.

    With ``is_training`` a call is a forward and a backward pass.
    """

    function: Callable[..., torch.Tensor]
    sizes: tuple[tuple[int, ...], ...]
    settings: dict[str, Any]
    dtype: torch.dtype = torch.bfloat16
    is_training: bool = False


def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    """Attend to earlier positions."""
    length = q.shape[2]
    mask = create_block_mask(
        lambda b, h, i, j: i >= j, None, None, length, length, device=q.device
    )
    return flex_attention(q, k, v, block_mask=mask)


def relative(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    """Attend with scores that fall with the distance."""
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s - (i - j).abs() / 64)


HEADS = (4, 16, 2048, 64)
WORKLOADS: dict[str, Kernels] = {
    "product, ReLU": Kernels(
        lambda x, y: (x @ y).relu(), ((2048, 2048), (2048, 2048)), AUTOTUNED
    ),
    "product by TMA": Kernels(
        lambda x, y: (x @ y).relu(), ((2048, 2048), (2048, 2048)), TMA
    ),
    "product of long sums": Kernels(
        lambda x, y: x @ y, ((64, 65536), (65536, 64)), AUTOTUNED
    ),
    "batched product": Kernels(
        lambda x, y: (x @ y) * 2, ((64, 256, 256), (64, 256, 256)), AUTOTUNED
    ),
    "linear layers, training": Kernels(
        lambda x, w, v: F.gelu(x @ w) @ v,
        ((2048, 1024), (1024, 4096), (4096, 1024)),
        AUTOTUNED,
        is_training=True,
    ),
    "convolution": Kernels(
        lambda x, w: F.conv2d(x, w, padding=1).relu(),
        ((16, 64, 56, 56), (64, 64, 3, 3)),
        {**AUTOTUNED, "max_autotune_conv_backends": "TRITON"},
    ),
    "causal attention": Kernels(causal, (HEADS, HEADS, HEADS), {}),
    "attention, training": Kernels(relative, (HEADS, HEADS, HEADS), {}, is_training=True),
    "attention, decoding": Kernels(relative, ((4, 16, 1, 64), HEADS, HEADS), {}),
    "split scan": Kernels(
        lambda x: torch.cumsum(x, 0), ((16_000_000,),), {}, dtype=torch.float32
    ),
    "cooperative reduction": Kernels(
        lambda x: torch.softmax(x, 1),
        ((4, 1_000_000),),
        {"triton.cooperative_reductions": True},
        dtype=torch.float32,
    ),
    "mix-order reduction": Kernels(
        lambda x, w: F.rms_norm(x, (2048,), w),
        ((32768, 2048), (2048,)),
        {},
        is_training=True,
    ),
}


def step_of(kernels: Kernels, function: Callable[..., torch.Tensor]) -> Step:
    """Return a call of a function; it returns the result, or the gradients."""

    def call(inputs: Inputs) -> object:
        output = function(*inputs)
        if not kernels.is_training:
            return output
        return torch.autograd.grad(output, inputs, torch.ones_like(output))

    return call


def measure(kernels: Kernels) -> list[str]:
    """Return the cells of a row: times of eager mode and the contenders, then errors."""
    torch._dynamo.reset()
    inputs = tuple(
        torch.randn(
            *size, device="cuda", dtype=kernels.dtype, requires_grad=kernels.is_training
        )
        for size in kernels.sizes
    )
    steps = {"eager": step_of(kernels, kernels.function)}
    with config.patch(kernels.settings):
        for name, arguments in CONTENDERS.items():
            torch._dynamo.reset()
            compiled: Any = torch.compile(kernels.function, **arguments)
            steps[name] = step_of(kernels, compiled)
            steps[name](inputs)
        calls = {
            name: calls_of_a_turn(s, "in_place", [inputs]) for name, s in steps.items()
        }
        times: dict[str, list[float]] = {name: [] for name in steps}
        for _ in range(ROUNDS):
            for name, step in steps.items():
                seconds = seconds_of_a_turn(step, "in_place", [inputs], calls[name])
                times[name].append(seconds * 1e6)
        results = {name: pytree.tree_leaves(step(inputs)) for name, step in steps.items()}
    expected = results.pop("eager")
    median = {name: statistics.median(each) for name, each in times.items()}
    return [
        *(f"{each:.1f}" for each in median.values()),
        *(f"{median[name] / median['Inductor']:.2f}" for name in OURS),
        *(f"{largest_error(expected, actual):.0e}" for actual in results.values()),
    ]


@click.command()
@click.option("--write", is_flag=True, help="Write the page, after each row.")
@click.argument("names", nargs=-1, type=click.Choice([*WORKLOADS]))
def main(names: tuple[str, ...], write: bool) -> None:
    """Print a table; write ``docs/results/gpu-autotuned.md`` with ``--write``."""
    heads = [
        *("eager", *CONTENDERS),
        *(f"{name} / Inductor" for name in OURS),
        *(f"error of {name}" for name in CONTENDERS),
    ]
    machine = f"{describe_machine()}, {torch.cuda.get_device_name(0)}"
    text = INTRODUCTION.format(machine=machine, rounds=ROUNDS)
    text += f"| kernels | {' | '.join(heads)} |\n| --- |{' ---: |' * len(heads)}\n"
    click.echo(text, nl=False)
    for name in names or WORKLOADS:
        try:
            cells = measure(WORKLOADS[name])
        except Exception as error:
            cells = [" ".join(f"{type(error).__name__}: {error}".split())[:200]]
        row = f"| {name} | {' | '.join(cells)} |\n"
        click.echo(row, nl=False)
        text += row
        if write:
            PAGE.write_text(text)


if __name__ == "__main__":
    main()
