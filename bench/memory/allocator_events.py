"""Bytes that one call allocates from the CPU allocator, by the profiler's events.

Every allocation and free of PyTorch's CPU allocator is an event, including those inside an
operator, such as the scratch memory of a convolution or of attention.  Memory that C++
kernels or libraries ``malloc`` does not count, nor does memory from before the call, even
if the call frees it.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from attrs import frozen
from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile

from bench.memory.lower_bound import round_up

Result = TypeVar("Result")

_ALLOCATION = _EventType.Allocation


@frozen
class CallMemory:
    """``peak`` is the most bytes alive at once, ``kept`` those alive at the end.

    Each allocation is rounded up as in :mod:`bench.memory.lower_bound`.
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
    roots = events.profiler.kineto_results.experimental_event_tree()
    found = [event for event in _with_children(roots) if event.typed[0] == _ALLOCATION]
    found.sort(key=lambda event: event.start_time_ns)
    fields = [event.typed[1] for event in found]
    return result, call_memory([(one.ptr, one.alloc_size) for one in fields])


def _with_children(events: Iterable[Any]) -> Iterator[Any]:
    waiting = list(events)
    while waiting:
        event = waiting.pop()
        yield event
        waiting.extend(event.children)


def call_memory(events: Iterable[tuple[int, int]]) -> CallMemory:
    """Return the sum of events, each an address and a size, which is negative for a free.

    A free of what was allocated before the first event does not count.
    """
    sizes: dict[int, int] = {}
    alive = peak = allocations = 0
    for address, size in events:
        if size > 0:
            sizes[address] = round_up(size)
            alive += sizes[address]
            allocations += 1
        else:
            alive -= sizes.pop(address, 0)
        peak = max(peak, alive)
    return CallMemory(peak, alive, allocations)
