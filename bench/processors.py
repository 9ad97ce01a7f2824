"""Work that is measured at once, each on processors of its own."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def processors_each(at_once: int) -> int:
    """Return how many processors each of some threads has of its own."""
    return len(os.sched_getaffinity(0)) // at_once


def on_own_processors(
    function: Callable[[T], R], items: Sequence[T], at_once: int
) -> list[R]:
    """Return ``function`` of each item, in threads with equal shares of the processors.

    Processes that a thread starts run on its share too.
    """
    processors, share = sorted(os.sched_getaffinity(0)), processors_each(at_once)
    places: SimpleQueue[int] = SimpleQueue()
    for place in range(at_once):
        places.put(place)

    def begin() -> None:
        # Of this thread alone, and of the processes that it starts.
        os.sched_setaffinity(0, processors[places.get() * share :][:share])

    with ThreadPoolExecutor(at_once, initializer=begin) as pool:
        return list(pool.map(function, items))
