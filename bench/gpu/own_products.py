"""Products and convolutions with what follows them: library calls, and loops of our own.

    python -m bench.gpu.own_products

Both are programs of our own lowering, replayed from a CUDA graph with a number of calls, so
that launches count little.  Times are the least microseconds of a call, in turns.  After a
convolution come a scale, a shift, a sum and a ReLU; after a product, a bias and a GELU.
The difference of the results is relative to those of the library.
"""

from collections.abc import Callable
from unittest import mock

import torch

from bench.gpu.contenders import Step, captured
from bench.gpu.models import Inputs
from bench.gpu.turns import largest_error, seconds_of
from bench.machine import describe_machine
from wrapperir.emit import Loaded, compile_program
from wrapperir.frontend.lowering import products
from wrapperir.frontend.lowering.exported import lower_exported
from wrapperir.passes import memory_passes
from wrapperir.pipelines import run_passes
from wrapperir_python.emitter import PythonEmitter

CALLS = 20
ROUNDS = 10

CONVOLUTIONS = (
    *((56, 64, 64, 1, 1), (56, 64, 256, 1, 1), (56, 256, 64, 1, 1), (56, 256, 128, 1, 1)),
    *((28, 128, 512, 1, 1), (28, 512, 128, 1, 1), (14, 256, 1024, 1, 1)),
    *((14, 1024, 256, 1, 1), (7, 512, 2048, 1, 1), (7, 2048, 512, 1, 1)),
    *((56, 256, 512, 1, 2), (14, 1024, 2048, 1, 2), (224, 3, 64, 7, 2)),
    *((56, 64, 64, 3, 1), (56, 128, 128, 3, 2), (28, 128, 128, 3, 1)),
    *((28, 256, 256, 3, 2), (14, 256, 256, 3, 1), (14, 512, 512, 3, 2)),
    (7, 512, 512, 3, 1),
)
"""Pixels of a side of an image, its channels, the result's, side and step of windows."""

PRODUCTS = (
    *((64, 768, 768), (64, 768, 3072), (64, 3072, 768), (16, 768, 3072)),
    *((256, 768, 768), (256, 768, 3072), (1024, 768, 768), (2048, 768, 768)),
)
"""Rows, terms of a sum, and columns."""


class Convolution(torch.nn.Module):
    """A convolution and what follows it."""

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stride = stride

    def forward(
        self,
        x: torch.Tensor,
        weight: torch.Tensor,
        scale: torch.Tensor,
        shift: torch.Tensor,
        residual: torch.Tensor,
    ) -> torch.Tensor:
        found = torch.nn.functional.conv2d(
            x, weight, stride=self.stride, padding=weight.shape[-1] // 2
        )
        return torch.relu(found * scale + shift + residual)


class Product(torch.nn.Module):
    """A product and what follows it."""

    def forward(
        self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
    ) -> torch.Tensor:
        return torch.nn.functional.gelu(torch.nn.functional.linear(x, weight, bias))


def compiled(module: torch.nn.Module, inputs: Inputs, most_terms: int) -> Loaded:
    """Return the program of a module; products of more terms are library calls."""
    with mock.patch.object(products, "MOST_TERMS", most_terms):
        lowered = lower_exported(torch.export.export(module, inputs)).lowered
    program = run_passes(lowered.program, memory_passes(PythonEmitter().support.lines))
    return compile_program(program, emitter="python", constants=lowered.constants)


def compared(module: torch.nn.Module, inputs: Inputs) -> str:
    """Return the times of both programs, their ratio, and their difference, as text."""
    programs = [compiled(module, inputs, most) for most in (0, 1 << 40)]

    def calls_of(program: Loaded) -> Step:
        def calls(given: Inputs) -> None:
            for _ in range(CALLS):
                program([*given])

        return calls

    replays = [captured(calls_of(program), [inputs]) for program in programs]
    times = [
        [seconds_of(replay, "in_place", [inputs], calls=1) for replay in replays]
        for _ in range(ROUNDS)
    ]
    library, own = (min(each) * 1e6 / CALLS for each in zip(*times, strict=True))
    results = [
        [each for each in program([*inputs]) if isinstance(each, torch.Tensor)]
        for program in programs
    ]
    difference = largest_error(*results)
    return f"{library:.2f} | {own:.2f} | {own / library:.2f} | {difference:.1e}"


def halves(*size: int) -> torch.Tensor:
    """Return random numbers on the GPU; images are channels last."""
    made = torch.randn(size, device="cuda").half()
    return made.to(memory_format=torch.channels_last) if len(size) == 4 else made


def convolution(pixels: int, channels: int, results: int, side: int, stride: int) -> str:
    """Return the row of a convolution."""
    after = pixels // stride
    inputs = (
        halves(1, channels, pixels, pixels),
        halves(results, channels, side, side) * (channels * side**2) ** -0.5,
        *(halves(results, 1, 1) for _ in range(2)),
        halves(1, results, after, after),
    )
    name = f"{channels} × {pixels}² → {results}, {side} × {side}, step {stride}"
    return f"| {name} | {compared(Convolution(stride), inputs)} |"


def product(rows: int, terms: int, columns: int) -> str:
    """Return the row of a product."""
    inputs = (halves(rows, terms), halves(columns, terms) * terms**-0.5, halves(columns))
    return f"| {rows} × {terms} × {columns} | {compared(Product(), inputs)} |"


def main() -> None:
    """Print a table."""
    print(f"{describe_machine()}, {torch.cuda.get_device_name(0)}\n")
    print("| operator | library | own | ratio | difference |")
    print("| --- | ---: | ---: | ---: | ---: |")
    rows: list[tuple[Callable[..., str], tuple[int, ...]]] = [
        *((convolution, each) for each in CONVOLUTIONS),
        *((product, each) for each in PRODUCTS),
    ]
    for row, sizes in rows:
        print(row(*sizes), flush=True)


if __name__ == "__main__":
    main()
