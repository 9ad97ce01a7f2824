"""The leak probe: memory in use after each call is as before it."""

import ctypes
import gc
import time
from collections.abc import Callable
from pathlib import Path

from wrapperir.emit import Emitter, Loaded
from wrapperir.ir import Program
from wrapperir.testing.inputs import example_inputs

_BATCHES = 4
_SECONDS = 0.05
"""The length of a batch of calls."""
_LEAST_BYTES = 24
"""A call that keeps more than this leaks: no allocator gives out less."""


class _Mallinfo(ctypes.Structure):
    """The counts of glibc's allocator."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks"),
            *("fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def memory_meter(emitter: Emitter, device: str) -> Callable[[], int] | None:
    """Return a function that counts bytes in use on a kind of device, if there is one.

    The emitter's own count is used where it has one.  Otherwise the CPU's bytes are those
    of the C library's allocator, or the pages of the process; a GPU's are PyTorch's.
    """
    if emitter.live_bytes(device) is not None:
        return lambda: emitter.live_bytes(device) or 0
    if device == "cuda":
        import torch

        return torch.cuda.memory_allocated
    if device != "cpu":
        return None
    count = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if count is not None:
        count.restype = _Mallinfo
        return lambda: count().uordblks + count().hblkhd
    pages = Path("/proc/self/statm")
    if pages.exists():
        return lambda: int(pages.read_text().split()[1]) * 4096
    return None


def leaked_bytes(loaded: Loaded, program: Program, meter: Callable[[], int]) -> int:
    """Return the bytes that each call keeps, 0 if it keeps none.

    The program is called many times with new inputs of one seed, after some calls that
    fill caches.  Calls that raise an error must keep nothing either.
    """

    def call() -> None:
        try:
            loaded(example_inputs(program, 0))
        except Exception:  # a case that faults
            return

    begin = time.perf_counter()
    for _ in range(3):
        call()
    count = max(4, min(64, int(_SECONDS / ((time.perf_counter() - begin) / 3 + 1e-9))))
    found = 0
    for times in (1, 4, 8):  # what grows once, such as a table of Python, is no leak
        found = _growth(call, count * times, meter)
        if found <= _LEAST_BYTES:
            return 0
    return found


def _growth(call: Callable[[], None], count: int, meter: Callable[[], int]) -> int:
    """Return the bytes that each of ``count`` calls keeps, in the best of some batches."""
    growths: list[int] = []
    for _ in range(_BATCHES):
        gc.collect()
        before = meter()
        for _ in range(count):
            call()
        gc.collect()
        growths.append((meter() - before) // count)
        if growths[-1] <= _LEAST_BYTES:
            break
    return min(growths)
