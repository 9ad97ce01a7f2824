"""The bytes that one call takes from the CPU allocator, from the profiler's events.

Every allocation and free of PyTorch's CPU allocator is an event, also those inside an
operator: the scratch of a convolution or of attention counts while it lives.  What C++
kernels or libraries take by ``malloc`` does not.  Memory from before the call counts
neither when it is alive nor when the call frees it.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from attrs import frozen
from torch.profiler import ProfilerActivity, profile

from bench.memory_bound import round_up

Result = TypeVar("Result")


@frozen
class CallMemory:
    """``peak`` is the most bytes alive at once, ``kept`` those alive at the end.

    Each allocation is rounded up as in :mod:`bench.memory_bound`.
    """

    peak: int
    kept: int
    allocations: int


def measure(call: Callable[[], Result]) -> tuple[Result, CallMemory]:
    """Return a call's result and the memory it allocated beyond what was alive before."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it logs each start and stop
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        result = call()
    events: Any = profiled
    memory = [
        (event.start_ns(), event.nbytes())
        for event in events.profiler.kineto_results.events()
        if event.name() == "[memory]"
    ]
    memory.sort(key=lambda event: event[0])
    return result, call_memory([size for _, size in memory])


def call_memory(sizes: Sequence[int]) -> CallMemory:
    """Return what events of these sizes, a free's negative, add up to."""
    alive = peak = 0
    for size in sizes:
        alive += round_up(size) if size > 0 else -round_up(-size)
        peak = max(peak, alive)
    return CallMemory(peak, alive, sum(size > 0 for size in sizes))
