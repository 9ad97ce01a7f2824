"""C++ kernels of different blocking, timed on one thread of the processor."""

import ctypes
import math
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from bench.selection.table import Range, Sizes, least, turns

SOURCE = Path(__file__).with_name("kernels.cpp")
FLAGS = (
    *("-O3", "-march=native", "-std=c++17", "-shared", "-fPIC", "-fopenmp-simd"),
    *("-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math"),
    *("-fno-math-errno", "-ffinite-math-only", "-ffp-contract=fast"),
)
TOGETHER = 40_000.0
"""Nanoseconds of calls timed as one repetition: reading the clock takes some, too."""

RANGES = {
    "row_sum": (Range(1, 1 << 14), Range(1, 1 << 14)),
    "column_sum": (Range(1, 1 << 14), Range(1, 1 << 14)),
    "softmax": (Range(1, 1 << 13), Range(1, 1 << 13)),
    "transpose": (Range(1, 1 << 12), Range(1, 1 << 12)),
    "matmul": (Range(1, 1 << 10), Range(1, 1 << 10), Range(1, 1 << 10)),
}
STEPS = {
    "row_sum": (1 << 14, 1 << 22),
    "column_sum": (1 << 14, 1 << 22),
    "softmax": (1 << 13, 1 << 20),
    "transpose": (1 << 13, 1 << 21),
    "matmul": (1 << 16, 1 << 24),
}
"""What the product of a shape's sizes may be: calls take half a microsecond or more, so
that they are worth deciding, and a few milliseconds at most."""

SIZE_NAMES = ("M", "N", "K")


@frozen
class CpuTask:
    """A group of kernels of the library."""

    library: ctypes.CDLL
    name: str
    kernels: tuple[int, ...]
    choices: tuple[str, ...]
    buffers: tuple[ctypes.Array[ctypes.c_float], ...]

    @property
    def ranges(self) -> tuple[Range, ...]:
        return RANGES[self.name]

    @property
    def size_names(self) -> tuple[str, ...]:
        return SIZE_NAMES[: len(self.ranges)]

    def fits(self, sizes: Sizes) -> bool:
        least, most = STEPS[self.name]
        return least <= math.prod(sizes) <= most

    def measure(self, sizes: Sizes, rounds: int) -> list[list[float] | None]:
        m, n, k = (*sizes, 1, 1)[:3]

        def once(kernel: int, calls: int) -> float:
            time: float = self.library.kernel_time(kernel, *self.buffers, m, n, k, calls)
            return time

        calls = [max(1, int(TOGETHER / max(once(at, 1), 1.0))) for at in self.kernels]
        calls = [
            max(1, min(20_000, int(TOGETHER / max(once(at, 1 + count // 4), 1.0))))
            for at, count in zip(self.kernels, calls, strict=True)
        ]
        times: list[list[float]] = [[] for _ in self.kernels]
        for order in turns(range(len(self.kernels)), rounds):
            for at in order:
                times[at].append(once(self.kernels[at], calls[at]) / 1000)
        return [*times]

    def typical(self, times: Sequence[float]) -> float:
        return least(times)

    def result(self, kernel: int, sizes: Sizes) -> list[float]:
        """Return the output of a kernel, to compare it with the others'."""
        m, n, k = (*sizes, 1, 1)[:3]
        count = {"row_sum": m, "column_sum": n}.get(self.name, m * n)
        self.library.kernel_time(kernel, *self.buffers, m, n, k, 1)
        return self.buffers[2][:count]


def cpu_tasks(folder: Path) -> list[CpuTask]:
    """Compile the kernels into a folder and return their groups."""
    compiler = shutil.which(os.environ.get("CXX", "c++")) or "c++"
    built = folder / "kernels.so"
    subprocess.run([compiler, *FLAGS, str(SOURCE), "-o", str(built)], check=True)
    library = ctypes.CDLL(str(built))
    library.kernel_task.restype = ctypes.c_char_p
    library.kernel_choice.restype = ctypes.c_char_p
    library.kernel_time.restype = ctypes.c_double
    pointers = [ctypes.POINTER(ctypes.c_float)] * 3
    library.kernel_time.argtypes = [ctypes.c_int, *pointers, *[ctypes.c_int64] * 4]
    groups: dict[str, list[int]] = {}
    index = 0
    while (name := library.kernel_task(index)) is not None:
        groups.setdefault(name.decode(), []).append(index)
        index += 1
    buffers = tuple((ctypes.c_float * (1 << 22))() for _ in range(3))
    for buffer in buffers[:2]:
        for at in range(len(buffer)):
            buffer[at] = (at * 7919 % 2003) / 1000 - 1
    tasks = [
        CpuTask(
            library,
            name,
            tuple(kernels),
            tuple(library.kernel_choice(kernel).decode() for kernel in kernels),
            buffers,
        )
        for name, kernels in groups.items()
    ]
    for task in tasks:
        _check_equal(task)
    return tasks


def _check_equal(task: CpuTask) -> None:
    """Compare all kernels of a group with the first, on shapes with tails."""
    for sizes in ((1, 1, 1), (37, 131, 70), (130, 5, 33), (3, 300, 129)):
        shape = sizes[: len(task.ranges)]
        expected = task.result(task.kernels[0], shape)
        for kernel, choice in zip(task.kernels[1:], task.choices[1:], strict=True):
            found = task.result(kernel, shape)
            worst = max(abs(x - y) for x, y in zip(found, expected, strict=True))
            if not worst <= 1e-3:
                raise AssertionError(f"{task.name} {choice} at {shape}: off by {worst}")
