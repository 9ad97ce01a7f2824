"""Time the backward of PyTorch's depthwise convolutions by the layout of what it is given.

A program of our lowering gives it gradients and images in the layout of eager, channels
last in a ConvNeXt, but contiguous ones where few pixels have a large kernel; Inductor makes
all contiguous.  On one thread of the CPU.

    python -m bench.lowering.depthwise
"""

import time

import torch

KERNEL, TURNS = 7, 7
SIZES = ((768, 2), (768, 4), (512, 2), (256, 4), (128, 8), (128, 14), (64, 28), (32, 56))
"""Channels, and the sides of planes."""


def microseconds(size: tuple[int, int, int, int], layout: torch.memory_format) -> float:
    """Return the least time of one call for images of a size."""
    x = torch.randn(size).to(memory_format=layout)
    gradient = torch.randn(size).to(memory_format=layout)
    channels, pad = size[1], KERNEL // 2
    weight = torch.randn(channels, 1, KERNEL, KERNEL)
    least = float("inf")
    for _ in range(TURNS):
        begun = time.thread_time()
        torch.ops.aten.convolution_backward(
            *(gradient, x, weight, [channels], [1, 1], [pad, pad], [1, 1], False),
            *([0, 0], channels, [True, True, True]),
        )
        least = min(least, time.thread_time() - begun)
    return least * 1e6


def main() -> None:
    """Print a row for each size."""
    torch.set_num_threads(1)
    print("batch channels side contiguous channels-last ratio")
    for batch in (1, 8):
        for channels, side in SIZES:
            size = batch, channels, side, side
            plain = microseconds(size, torch.contiguous_format)
            last = microseconds(size, torch.channels_last)
            times = f"{plain:10.0f} {last:13.0f} {last / plain:5.2f}"
            print(f"{batch:5} {channels:8} {side:4} {times}")


if __name__ == "__main__":
    main()
