"""Time poolings of images on one thread: our own lowering, Inductor and eager.

Each figure is the least of several calls in milliseconds; ratios are to Inductor.

    python -m bench.lowering.poolings
"""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from bench.machine import describe_machine

Function = Callable[[torch.Tensor], object]

CALLS = 15
POOLINGS: dict[str, Function] = {
    "relu, largest of 3 × 3, step 2": lambda x: functional.max_pool2d(x.relu(), 3, 2, 1),
    "largest of 3 × 3, step 2": lambda x: functional.max_pool2d(x, 3, 2, 1),
    "largest of 3 × 3, step 1": lambda x: functional.max_pool2d(x, 3, 1, 1),
    "largest of 2 × 2, step 2": lambda x: functional.max_pool2d(x, 2),
    "with indices": lambda x: functional.max_pool2d(x, 3, 2, 1, return_indices=True),
    "mean of 3 × 3, step 2": lambda x: functional.avg_pool2d(x, 3, 2, 1),
    "mean of 5 × 5, step 1": lambda x: functional.avg_pool2d(x, 5, 1, 2),
    "mean of 7 × 7 windows": lambda x: functional.adaptive_avg_pool2d(x, (7, 7)),
}


def milliseconds(function: Function, image: torch.Tensor) -> float:
    """Return the least milliseconds of this thread for a call."""
    least = float("inf")
    for _ in range(CALLS):
        begun = time.thread_time()
        function(image)
        least = min(least, time.thread_time() - begun)
    return 1e3 * least


def main() -> None:
    """Print a table."""
    torch.set_num_threads(1)
    print(describe_machine())
    print("| pooling of 64 × 112 × 112 | ours | Inductor | eager | ratio |")
    print("| --- | ---: | ---: | ---: | ---: |")
    options: dict[str, Any] = {"frontend": "lowering", "emitter": "cpp"}
    for format in (torch.contiguous_format, torch.channels_last):
        image = torch.randn(1, 64, 112, 112).to(memory_format=format)
        for name, function in POOLINGS.items():
            torch.compiler.reset()
            contenders: list[Function] = [
                torch.compile(function, backend="wrapperir", options=options),
                torch.compile(function),
                function,
            ]
            with torch.no_grad():
                for contender in contenders:
                    contender(image)
                ours, base, eager = (milliseconds(each, image) for each in contenders)
            title = f"{name}, {str(format).removeprefix('torch.').removesuffix('_format')}"
            numbers = f"{ours:.2f} | {base:.2f} | {eager:.2f} | {ours / base:.2f}"
            print(f"| {title.replace('_', ' ')} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
