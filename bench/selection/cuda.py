"""Triton kernels, timed on a GPU as ``wrapperir tune`` does: its caches flushed before.

``python -m bench.selection.cuda`` only holds the kernels against PyTorch, on small shapes;
with ``TRITON_INTERPRET=1`` it does so without a GPU.
"""

import os
import sys
from collections.abc import Callable, Sequence

import torch
from attrs import field, frozen

from bench.selection import triton_kernels as kernels
from bench.selection.table import Range, Sizes, median, turns

FLUSHED_BYTES = 1 << 28
MOST_ELEMENTS = 1 << 26
MOST_STEPS = 1 << 36
TUNED_AT = (64, 256, 1024, 4096)
TUNING_ROUNDS = 15

Launch = Callable[[Sequence[torch.Tensor], Sizes], None]
"""Runs a kernel on two inputs and an output, given as memory that is large enough."""


def _power(n: int) -> int:
    return 1 << max(n - 1, 1).bit_length()


def _persistent(kernel: Callable[..., object], elements: int) -> Launch:
    """Return a launch with the whole of ``elements`` // N rows, at least one, a program."""

    def launch(memory: Sequence[torch.Tensor], sizes: Sizes) -> None:
        m, n = sizes
        block = _power(n)
        rows = max(1, min(64, elements // block))
        taken = rows * block
        warps = 16 if taken >= 16384 else 8 if taken >= 4096 else 4
        kernel[(-(-m // rows),)](  # type: ignore[index]
            memory[0], memory[2], m, n, XBLOCK=rows, RBLOCK=block, num_warps=warps
        )

    return launch


def _looped(kernel: Callable[..., object], rows: int, block: int, warps: int) -> Launch:
    def launch(memory: Sequence[torch.Tensor], sizes: Sizes) -> None:
        m, n = sizes
        kernel[(-(-m // rows),)](  # type: ignore[index]
            memory[0], memory[2], m, n, XBLOCK=rows, RBLOCK=block, num_warps=warps
        )

    return launch


Blocking = tuple[int, int, int, int, int]
"""Rows, columns and depth of a block, warps, stages."""

BLOCKINGS: tuple[Blocking, ...] = (
    (16, 64, 128, 4, 3),
    (64, 16, 128, 4, 3),
    (32, 32, 64, 4, 3),
    (64, 64, 32, 4, 4),
    (64, 64, 64, 4, 3),
    (128, 64, 64, 4, 3),
    (64, 128, 64, 4, 3),
    (128, 128, 64, 4, 3),
    (128, 128, 64, 8, 3),
    (128, 256, 64, 8, 3),
    (256, 128, 64, 8, 3),
)


def _product(blocking: Blocking) -> Launch:
    rows, columns, depth, warps, stages = blocking

    def launch(memory: Sequence[torch.Tensor], sizes: Sizes) -> None:
        m, n, k = sizes
        grid = (-(-m // rows) * -(-n // columns),)
        kernels.matmul[grid](
            *memory,
            *(m, n, k, k, n),
            BM=rows,
            BN=columns,
            BK=depth,
            GROUP=8,
            num_warps=warps,
            num_stages=stages,
        )

    return launch


def _name(blocking: Blocking) -> str:
    rows, columns, depth, warps, stages = blocking
    return f"{rows}x{columns}x{depth}w{warps}s{stages}"


@frozen
class CudaTask:
    """Kernels that do the same on a GPU."""

    name: str
    size_names: tuple[str, ...]
    ranges: tuple[Range, ...]
    choices: tuple[str, ...]
    launches: tuple[Launch, ...]
    memory: tuple[torch.Tensor, ...]
    flushed: torch.Tensor
    reported: set[str] = field(factory=set)

    def fits(self, sizes: Sizes) -> bool:
        if len(sizes) == 3:
            m, n, k = sizes
            return m * n * k <= MOST_STEPS and max(m * n, n * k, m * k) <= MOST_ELEMENTS
        return sizes[0] * sizes[1] <= MOST_ELEMENTS

    def measure(self, sizes: Sizes, rounds: int) -> list[list[float] | None]:
        running = [at for at in range(len(self.launches)) if self._runs(at, sizes)]
        taken: list[list[tuple[torch.cuda.Event, torch.cuda.Event]]]
        taken = [[] for _ in self.launches]
        for order in turns(running, rounds):
            for at in order:
                begin = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
                end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
                self.flushed.zero_()
                begin.record()
                self.launches[at](self.memory, sizes)
                end.record()
                taken[at].append((begin, end))
        torch.cuda.synchronize()
        times = [[a.elapsed_time(b) * 1000 for a, b in pairs] for pairs in taken]
        return [times[at] if at in running else None for at in range(len(times))]

    def typical(self, times: Sequence[float]) -> float:
        return median(times)

    def _runs(self, at: int, sizes: Sizes) -> bool:
        """Run a choice untimed, which compiles it; say once why it cannot."""
        try:
            self.launches[at](self.memory, sizes)
            torch.cuda.synchronize()
        except Exception as error:  # what a compiler of kernels raises is not known
            if self.choices[at] not in self.reported:
                self.reported.add(self.choices[at])
                reason = f"{type(error).__name__}: {str(error)[:300]}"
                print(f"{self.name} {self.choices[at]} at {sizes}: {reason}", flush=True)
            return False
        return True


REDUCTIONS = {
    "softmax": (kernels.softmax_persistent, kernels.softmax_looped),
    "layer_norm": (kernels.layer_norm_persistent, kernels.layer_norm_looped),
    "sum": (kernels.sum_persistent, kernels.sum_looped),
}


def reduction_launches(name: str) -> dict[str, Launch]:
    """Return the choices of a reduction, by name."""
    persistent, looped = REDUCTIONS[name]
    return {
        "persistent": _persistent(persistent, 1),
        "persistent4096": _persistent(persistent, 4096),
        "looped1x2048": _looped(looped, 1, 2048, 8),
        "looped8x256": _looped(looped, 8, 256, 8),
        "looped64x32": _looped(looped, 64, 32, 8),
    }


def cuda_tasks(progress: Callable[[str], None]) -> list[CudaTask]:
    """Return the tasks, with products tuned at the squares of ``TUNED_AT``."""
    check_equal("cuda")
    progress("all kernels agree with PyTorch")
    floats = tuple(torch.randn(MOST_ELEMENTS, device="cuda") for _ in range(3))
    halves = tuple(floating.half() for floating in floats)
    flushed = torch.empty(FLUSHED_BYTES, dtype=torch.int8, device="cuda")
    sides = (Range(1, 1 << 17), Range(2, 1 << 15))
    tasks: list[CudaTask] = []
    for name in REDUCTIONS:
        made = reduction_launches(name)
        choices, launches = tuple(made), tuple(made.values())
        tasks.append(CudaTask(name, ("M", "N"), sides, choices, launches, floats, flushed))
    cube = (Range(8, 1 << 13),) * 3
    names = ("M", "N", "K")
    every = tuple(_product(blocking) for blocking in BLOCKINGS)
    titles = tuple(map(_name, BLOCKINGS))
    whole = CudaTask("matmul", names, cube, titles, every, halves, flushed)
    kept: list[int] = []
    for hint in TUNED_AT:
        times = whole.measure((hint, hint, hint), TUNING_ROUNDS)
        known = {at: median(one) for at, one in enumerate(times) if one is not None}
        best = min(known, key=lambda at: known[at])
        progress(f"matmul at {hint}: {titles[best]}, {known[best]:.1f} us")
        if best not in kept:
            kept.append(best)
    choices = tuple(titles[at] for at in kept)
    launches = tuple(every[at] for at in kept)
    tasks.append(CudaTask("matmul", names, cube, choices, launches, halves, flushed))
    return tasks


def check_equal(device: str) -> None:
    """Compare every kernel with PyTorch on small shapes with tails."""
    torch.manual_seed(0)
    for name in REDUCTIONS:
        for m, n in ((1, 2), (5, 70), (67, 33), (3, 2100)):
            x = torch.randn(m, n, device=device)
            expected = _reference(name, x)
            for choice, launch in reduction_launches(name).items():
                out = torch.full_like(expected, float("nan"))
                launch((x, x, out), (m, n))
                torch.testing.assert_close(
                    out, expected, rtol=1e-4, atol=1e-4, msg=f"{name} {choice} {m}x{n}"
                )
    for m, n, k in ((16, 16, 16), (70, 37, 130)):
        a = torch.randn(m, k, device=device).half()
        b = torch.randn(k, n, device=device).half()
        expected = (a.float() @ b.float()).half()
        for blocking in BLOCKINGS[:: 1 if device == "cuda" else 3]:
            out = torch.full_like(expected, float("nan"))
            try:
                _product(blocking)((a, b, out), (m, n, k))
            except Exception as error:
                # A blocking too large for this device is no choice, and no wrong result.
                print(f"{_name(blocking)}: {type(error).__name__}: {error}", flush=True)
                continue
            torch.testing.assert_close(out, expected, rtol=2e-2, atol=2e-2)


def _reference(name: str, x: torch.Tensor) -> torch.Tensor:
    if name == "softmax":
        return torch.softmax(x, 1)
    if name == "layer_norm":
        return torch.nn.functional.layer_norm(x, x.shape[1:])
    return x.sum(1)


if __name__ == "__main__":
    on_cpu = os.environ.get("TRITON_INTERPRET") == "1"
    check_equal("cpu" if on_cpu else "cuda")
    print("all kernels agree with PyTorch", file=sys.stderr)
