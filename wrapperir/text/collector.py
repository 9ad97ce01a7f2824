"""Pauses the cyclic garbage collector while a program is read.

Reading allocates millions of objects that all stay, and no cycles.  The collector would
walk them again and again for nothing, for two thirds of the time.
"""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def paused_collector() -> Generator[None]:
    """Leave the collector as it was found, whatever happens in between."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
