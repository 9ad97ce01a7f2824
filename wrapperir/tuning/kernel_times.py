"""Times kernels that do the same: clocks, turns and copies of arguments.

Ahead-of-time tuning and emitted Python, which carries a copy of this file, time by the
same rules.  The file imports torch and the standard library only.
"""

import contextlib
import functools
import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

logger = logging.getLogger("wrapperir.choices")

SECONDS = 0.05
"""How long a kernel is timed, about; one run may take longer."""

MOST_TURNS = 50
"""How often a kernel is timed at most."""

MOST_SECONDS = 2.0
"""A kernel whose first run on the CPU takes longer is not run again."""

TRIAL_TURNS = 2
TOO_SLOW = 3.0
"""A kernel is dropped when it is this many times slower than the fastest in the trial
turns."""

ALIGNMENT = 1 << 16
"""Copies have the same address as their originals modulo this many bytes: kernels may rely
on the alignment, even to a page, and an address decides which cache lines are used."""

FLUSHED_BYTES = 1 << 28
"""How much is written before a launch on a GPU, as ``triton.testing.do_bench`` does: more
than its caches hold, and the host has launched before the device is done writing."""


def time_kernels(
    kernels: Sequence[tuple[str, Callable[..., object]]],
    arguments: Sequence[Any],
    updated: Sequence[int],
    device: torch.device,
) -> list[float | None]:
    """Return the least microseconds of each kernel, ``None`` for a kernel that raises.

    The kernels run on copies of the arguments, which do not overlap and have the layout of
    their originals.  The copies at the positions ``updated`` are restored before each run,
    untimed.
    """

    def failed(at: int, error: Exception) -> None:
        logger.info("%s fails: %s: %s", kernels[at][0], type(error).__name__, error)

    try:
        with current_device(device):
            clock = Clock(device)
            copies = Copies(arguments, updated)

            def run(kernel: Callable[..., object]) -> float:
                copies.restore()
                return clock(lambda: kernel(*copies.arguments))

            runs = [functools.partial(run, kernel) for _, kernel in kernels]
            return least_times(runs, failed, device)
    except (RuntimeError, MemoryError) as error:  # no memory for the copies
        told = type(error).__name__, str(error)  # not the error: it holds the arguments
    logger.warning("no kernel could be timed: %s: %s", *told)
    return [None] * len(kernels)


def least_times(
    runs: Sequence[Callable[[], float]],
    failed: Callable[[int, Exception], object],
    device: torch.device,
    *,
    seconds: float = SECONDS,
    least_turns: int = 1,
) -> list[float | None]:
    """Return the least of the times that each run returns, ``None`` for a run that raises.

    Each runs once untimed, since that may compile or set up something.  Then they take
    turns, so that other work on the machine affects them alike, until each has taken
    ``seconds``, or ten times as long for the first ``least_turns``, or was timed
    :data:`MOST_TURNS` times.  Other work only adds to a time, so the least one counts.
    """
    least: dict[int, float] = {}
    spent: dict[int, float] = {}

    def took(at: int) -> float | None:
        try:
            return runs[at]()
        except Exception as error:  # whatever it is, the other kernels may run
            failed(at, error)
            return None

    for at in range(len(runs)):
        first = took(at)
        if first is not None:
            slow = device.type == "cpu" and first / 1e6 > MOST_SECONDS
            least[at], spent[at] = (first, math.inf) if slow else (math.inf, 0.0)
    for turn in range(MOST_TURNS):
        budget = seconds if turn >= least_turns else 10 * seconds
        running = [at for at in least if spent[at] < budget]
        if turn >= TRIAL_TURNS:
            limit = TOO_SLOW * min(least.values(), default=0.0)
            running = [at for at in running if least[at] <= limit]
        if not running:
            break
        start = turn % len(running)
        for at in (*running[start:], *running[:start]):
            begin = time.perf_counter()
            found = took(at)
            if found is None:
                del least[at]
                continue
            least[at] = min(least[at], found)
            spent[at] += time.perf_counter() - begin
    return [least.get(at) for at in range(len(runs))]


class Copies:
    """Arguments like others, in memory of their own."""

    def __init__(self, arguments: Sequence[Any], updated: Sequence[int]) -> None:
        """Copy the tensors; :meth:`restore` copies the tensors at ``updated`` again."""
        self.arguments: list[Any] = []
        self._updated: list[tuple[torch.Tensor, torch.Tensor]] = []
        for at, given in enumerate(arguments):
            if not isinstance(given, torch.Tensor):
                self.arguments.append(given)
                continue
            memory = bytes_of(given)
            copied = _tensor_like(given, memory.numel())
            taken = bytes_of(copied)
            taken.copy_(memory)
            self.arguments.append(copied)
            if at in updated:
                self._updated.append((taken, memory))

    def restore(self) -> None:
        """Give what kernels read and write its values again."""
        for taken, memory in self._updated:
            taken.copy_(memory)


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the memory from a tensor's first element to its last, as bytes."""
    steps = zip(tensor.size(), tensor.stride(), strict=True)
    last = sum((extent - 1) * step for extent, step in steps)
    count = (last + 1) * tensor.itemsize if tensor.numel() else 0
    first = tensor.storage_offset() * tensor.itemsize
    view = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return view.set_(tensor.untyped_storage(), first, (count,), (1,))


def _tensor_like(tensor: torch.Tensor, count: int) -> torch.Tensor:
    """Return a tensor of the same layout in new memory of ``count`` bytes."""
    room = torch.empty(
        ALIGNMENT + count,
        dtype=torch.uint8,
        device=tensor.device,
        pin_memory=tensor.is_pinned(),
    )
    skipped = (tensor.data_ptr() - room.data_ptr()) % ALIGNMENT // tensor.itemsize
    view = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return view.set_(room.untyped_storage(), skipped, tensor.size(), tensor.stride())


def current_device(device: torch.device) -> "contextlib.AbstractContextManager[object]":
    """Return a context manager that makes a device the current one."""
    if device.type == "cpu":
        return contextlib.nullcontext()
    current: contextlib.AbstractContextManager[object]
    current = torch.get_device_module(device).device(device)
    return current


class Clock:
    """Returns the microseconds that a function takes on a device.

    On the CPU, and on a device without events, these are the host's.  Elsewhere they are
    between two events on the current stream, after a write that flushes the caches.
    """

    def __init__(self, device: torch.device) -> None:
        """Wait until all streams of the device are done.

        Raises:
            RuntimeError: PyTorch has no such device, or no memory to flush its caches with.
        """
        self._wait: Callable[[], object] | None = None
        self._events: Sequence[torch.Event] = ()
        if device.type == "cpu":
            return
        module = torch.get_device_module(device)
        self._wait = module.synchronize
        module.synchronize()
        if hasattr(module, "Event"):
            with contextlib.ExitStack() as stack:
                pool = None
                if hasattr(module, "MemPool"):
                    # A later tensor in memory of this size would keep all of it reserved.
                    pool = module.MemPool()
                    stack.enter_context(module.use_mem_pool(pool, device))
                self._flushed = torch.empty(
                    FLUSHED_BYTES // 4, dtype=torch.int32, device=device
                )
                self._pool = pool  # set after the tensor, it goes after it
            self._events = [module.Event(enable_timing=True) for _ in range(2)]

    def __call__(self, run: Callable[[], object]) -> float:
        """Run a function and return its microseconds."""
        if self._events:
            begin, end = self._events
            self._flushed.zero_()
            begin.record()
            run()
            end.record()
            end.synchronize()
            return float(begin.elapsed_time(end)) * 1000
        if self._wait is not None:
            self._wait()
        start = time.perf_counter_ns()
        run()
        if self._wait is not None:
            self._wait()
        return (time.perf_counter_ns() - start) / 1000
