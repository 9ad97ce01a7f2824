"""Counts of programs that are built, and of graphs that are loaded, in one process."""

from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.utils import counters


class Calls:
    """What happened in compilations: programs built, graphs loaded in the last."""

    frontend = "inductor"

    def __init__(self) -> None:
        self.built = self.loads = 0

    @property
    def loaded(self) -> int:
        if self.frontend == "lowering":
            return self.loads
        return counters["inductor"]["fxgraph_cache_hit"]


def compiled_anew(
    called: Callable[..., Any], *, dynamic: bool | None = None, **options: Any
) -> Any:
    """Return a compiled function as a new process would compile it."""
    torch._dynamo.reset()
    counters.clear()
    chosen: Any = {"frontend": Calls.frontend, **options}
    return torch.compile(called, backend="wrapperir", dynamic=dynamic, options=chosen)
