"""Times kernels that do the same, on copies of a call's arguments."""

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch

logger = logging.getLogger("wrapperir.choices")

SECONDS = 0.05
"""How long a kernel is timed, about; one run may take longer."""

MOST_TURNS = 50
"""How often a kernel is timed at most."""

MOST_SECONDS = 2.0
"""A kernel whose first run takes longer has no other."""

TRIAL_TURNS = 2
TOO_SLOW = 3.0
"""A kernel that is so much slower than the fastest in the first turns has no more."""

ALIGNMENT = 1 << 16
"""Copies lie in blocks of so many bytes as their originals do: what a program aligns, to
a page even, kernels may rely on, and an address says which lines of a cache are used."""

FLUSHED_BYTES = 1 << 28
"""What is written before a launch on a GPU, as ``triton.testing.do_bench`` does: more
than its caches hold, and the host is done with the launch before the device is with it."""

Clock: TypeAlias = Callable[[Callable[[], object]], float]
"""Runs a function and returns the microseconds that it took."""


def time_kernels(
    kernels: Sequence[tuple[str, Callable[..., object]]],
    arguments: Sequence[Any],
    updated: Sequence[int],
    device: torch.device,
) -> list[float | None]:
    """Return the least microseconds of each kernel, ``None`` of one that raises.

    They run on copies of the arguments, which do not overlap and have the layout of their
    originals; those at the positions ``updated`` are copied anew before each run, untimed.
    Each kernel runs once, which may compile it, and then in turns with the others; only
    where that run takes longer than :data:`MOST_SECONDS` on the CPU, it counts.  Other
    streams of the device are done before.
    """
    try:
        with _current(device):
            clock = _clock(device)
            copies = Copies(arguments, updated)
            return _time_in_turns(kernels, copies, clock, device)
    except (RuntimeError, MemoryError) as error:  # no memory for the copies
        told = type(error).__name__, str(error)  # not the error: it holds the arguments
    logger.warning("no kernel could be timed: %s: %s", *told)
    return [None] * len(kernels)


def _time_in_turns(
    kernels: Sequence[tuple[str, Callable[..., object]]],
    copies: "Copies",
    clock: Clock,
    device: torch.device,
) -> list[float | None]:
    least: dict[int, float] = {}
    spent: dict[int, float] = {}

    def took(at: int) -> float | None:
        name, kernel = kernels[at]
        copies.restore()
        try:
            return clock(lambda: kernel(*copies.arguments))
        except Exception as error:  # whatever it is, the other kernels may run
            logger.info("%s fails: %s: %s", name, type(error).__name__, error)
            return None

    for at in range(len(kernels)):
        first = took(at)
        if first is None:
            continue
        # What a kernel sets up once takes no seconds on the CPU, where nothing is compiled.
        slow = device.type == "cpu" and first / 1e6 > MOST_SECONDS
        least[at] = first if slow else float("inf")
        spent[at] = first / 1e6 if slow else 0.0
    for turn in range(MOST_TURNS):
        running = [at for at in least if spent[at] < SECONDS]
        if turn >= TRIAL_TURNS:
            best = min(least.values(), default=0.0)
            running = [at for at in running if least[at] <= TOO_SLOW * best]
        if not running:
            break
        first_at = turn % len(running)
        for at in (*running[first_at:], *running[:first_at]):
            begin = time.perf_counter()
            found = took(at)
            if found is None:
                del least[at]
                continue
            least[at] = min(least[at], found)
            spent[at] += time.perf_counter() - begin
    return [least.get(at) for at in range(len(kernels))]


class Copies:
    """Arguments like others, in memory of their own."""

    def __init__(self, arguments: Sequence[Any], updated: Sequence[int]) -> None:
        """Copy the tensors; :meth:`restore` copies those at ``updated`` again."""
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


def _current(device: torch.device) -> "contextlib.AbstractContextManager[object]":
    """Return what makes a device the current one."""
    if device.type == "cpu":
        return contextlib.nullcontext()
    current: contextlib.AbstractContextManager[object]
    current = torch.get_device_module(device).device(device)
    return current


def _clock(device: torch.device) -> Clock:
    if device.type == "cpu":
        return _host_microseconds
    module = torch.get_device_module(device)
    wait: Callable[[], object] = module.synchronize
    wait()
    if device.type == "cuda":
        return _event_clock(device)

    def clock(run: Callable[[], object]) -> float:
        wait()
        return _host_microseconds(lambda: (run(), wait()))

    return clock


def _host_microseconds(run: Callable[[], object]) -> float:
    begin = time.perf_counter_ns()
    run()
    return (time.perf_counter_ns() - begin) / 1000


def _event_clock(device: torch.device) -> Clock:
    """Return a clock that reads the device's own, on its current stream."""
    flushed = torch.empty(FLUSHED_BYTES // 4, dtype=torch.int32, device=device)
    new_event: Callable[..., torch.Event] = torch.cuda.Event
    begin, end = (new_event(enable_timing=True) for _ in range(2))

    def clock(run: Callable[[], object]) -> float:
        flushed.zero_()
        begin.record()
        run()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1000

    return clock
