"""Time fused kernels of our own lowering beside Inductor's, as users compile them.

Each function is compiled by both in one process, which then runs them and eager in turns:
on a GPU, if there is one, and as CUDA graphs there, otherwise on one thread of the CPU.
``--write`` writes the page of ``docs/results``.

    python -m bench.lowering.fused_kernels [--write] [WORD ...]
"""

import functools
import statistics
import time
import warnings
from collections.abc import Callable, Sequence

import click
import torch
from attrs import frozen

from bench.lowering.fused_cases import CASES, FusedCase, Results
from bench.lowering.triton_kernels import Launch, captured, milliseconds
from bench.machine import describe_machine
from bench.results import ROOT

TURNS = 25
GOAL, GOAL_OF_COPY = 1.0, 0.85
_ON_GPU = 64
"""How much larger tensors are on a GPU."""
_SECONDS = 0.01
"""Of one turn on a CPU."""

INTRODUCTION = """\
# Fused kernels on a {kind}

Functions of PyTorch's, compiled with our own lowering (`backend="wrapperir",
options={{"frontend": "lowering"}}`) and with plain Inductor in one process, which runs both
and eager in turns{how}. Times are medians in microseconds{call}. *Of a
copy* is the bandwidth beside that of `Tensor.copy_`: bytes of inputs and results, each
once{goal_of_copy}. Results are compared with eager's; integers of Inductor's may differ
by 1.
Made by `python -m bench.lowering.fused_kernels --write` with {machine}.

Beside Inductor's: geometric mean **{mean:.2f}** (goal {goal:.1f}), worst {worst:.2f}.

| function | ours | Inductor | ratio | eager | of a copy |
| --- | ---: | ---: | ---: | ---: | ---: |
"""


@frozen
class Times:
    """Seconds of one call of a case."""

    name: str
    ours: float
    inductor: float
    eager: float
    of_copy: float

    @property
    def ratio(self) -> float:
        """Ours of Inductor's."""
        return self.ours / self.inductor


def moved_bytes(case: FusedCase, inputs: Sequence[torch.Tensor], found: Results) -> int:
    """Return the bytes that a kernel must read and write at least."""
    results = (found,) if isinstance(found, torch.Tensor) else found
    written = sum(result.nbytes for result in results)
    sizes = [
        min(x.nbytes, written) if place in case.read_in_part else x.nbytes
        for place, x in enumerate(inputs)
    ]
    return written + sum(sizes)


def cpu_turn(launch: Launch) -> float:
    """Return the processor time of a call, which other processes change less."""
    calls, begun = 0, time.thread_time()
    while not calls or time.thread_time() - begun < _SECONDS:
        launch()
        calls += 1
    return (time.thread_time() - begun) / calls


def gpu_turn(launch: Launch) -> float:
    """Return the median time of a replay, with cold caches."""
    return milliseconds(launch) / 1e3


def copy_seconds_a_byte(device: str, scale: int) -> float:
    """Return the seconds that a copy takes for each byte that it reads or writes."""
    source = torch.randn(scale * 2**20, device=device)
    target = torch.empty_like(source)
    turn = gpu_turn if device == "cuda" else cpu_turn
    times = [turn(lambda: target.copy_(source)) for _ in range(TURNS)]
    return statistics.median(times) / (2 * source.nbytes)


def measure(case: FusedCase, device: str, scale: int, copy: float) -> Times:
    """Return the times of a case.

    Raises:
        AssertionError: a result is not eager's.
    """
    torch._dynamo.reset()
    torch.manual_seed(0)
    inputs = [x.to(device) for x in case.inputs(scale)]
    expected = case.function(*inputs)
    calls: dict[str, Callable[..., Results]] = {
        "ours": torch.compile(
            case.function,
            backend="wrapperir",
            options={"frontend": "lowering"},
            dynamic=False,
        ),
        "inductor": torch.compile(case.function, dynamic=False),
        "eager": case.function,
    }
    launches: dict[str, Launch] = {}
    for name, call in calls.items():
        found = call(*inputs)
        most = close_to(expected, name)
        torch.testing.assert_close(found, expected, rtol=2e-2, atol=most)
        launch: Launch = functools.partial(call, *inputs)
        launches[name] = captured([launch]) if device == "cuda" else launch
    turn = gpu_turn if device == "cuda" else cpu_turn
    times: dict[str, list[float]] = {name: [] for name in launches}
    for _ in range(TURNS):
        for name, launch in launches.items():
            times[name].append(turn(launch))
    ours, theirs, eager = map(statistics.median, times.values())
    of_copy = copy * moved_bytes(case, inputs, expected) / ours
    return Times(case.name, ours, theirs, eager, of_copy)


def close_to(expected: Results, contender: str) -> float:
    """Return how far results may be from eager's.

    On a GPU Inductor divides less exactly than eager, and then rounds a few elements of
    66 million to another integer.
    """
    one = expected if isinstance(expected, torch.Tensor) else expected[0]
    return 1.0 if contender == "inductor" and not one.is_floating_point() else 2e-2


def format_page(found: Sequence[Times], device: str) -> str:
    """Return the page of ``docs/results``."""
    ratios = [times.ratio for times in found]
    on_gpu = device == "cuda"
    kind = "GPU" if on_gpu else "CPU"
    machine = describe_machine()
    if on_gpu:
        machine += f", {torch.cuda.get_device_name(0)}"
    text = INTRODUCTION.format(
        kind=kind,
        how=", as CUDA graphs with cold caches" if on_gpu else ", on one thread",
        call="" if on_gpu else ", with the call of what was compiled",
        goal_of_copy=f" (goal {GOAL_OF_COPY} where memory bounds)" if on_gpu else "",
        machine=machine,
        mean=statistics.geometric_mean(ratios),
        goal=GOAL,
        worst=max(ratios),
    )
    for times in found:
        micro = [f"{x * 1e6:.1f}" for x in (times.ours, times.inductor, times.eager)]
        cells = [times.name, *micro[:2], f"{times.ratio:.2f}", micro[2]]
        text += f"| {' | '.join([*cells, f'{times.of_copy:.2f}'])} |\n"
    return text


@click.command()
@click.option("--write", is_flag=True, help="Write the page of docs/results.")
@click.argument("words", nargs=-1)
def main(write: bool, words: tuple[str, ...]) -> None:
    """Time all cases, or those with one of some words in their names."""
    warnings.simplefilter("ignore")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    scale = _ON_GPU if device == "cuda" else 1
    torch.set_num_threads(1)
    chosen = [c for c in CASES if not words or any(word in c.name for word in words)]
    if not chosen or (write and words):
        raise click.UsageError("no case has such a name, or --write is for all of them")
    copy = copy_seconds_a_byte(device, scale)
    click.echo(f"a copy moves {1e-9 / copy:.0f} GB/s")
    found: list[Times] = []
    for case in chosen:
        times = measure(case, device, scale, copy)
        found.append(times)
        ours, theirs, eager = (
            f"{x * 1e6:.1f}" for x in (times.ours, times.inductor, times.eager)
        )
        click.echo(
            f"{case.name:32} {ours:>8} us, Inductor {theirs:>8}, ratio {times.ratio:.2f},"
            f" eager {eager:>8}, of a copy {times.of_copy:.2f}"
        )
    page = format_page(found, device)
    click.echo(next(line for line in page.splitlines() if line.startswith("Beside")))
    if write:
        path = (
            ROOT / "docs" / "results" / f"fused-kernels-{'gpu' if scale > 1 else 'cpu'}.md"
        )
        path.write_text(page)
        click.echo(f"table: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
