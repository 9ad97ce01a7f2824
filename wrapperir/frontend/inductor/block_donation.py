"""Nested graphs of a backward write to none of their inputs."""

from collections.abc import Callable
from typing import Any

from torch._inductor.graph import GraphLowering

from wrapperir.frontend.inductor.shared_patch import SharedPatch


def _donate_nothing_to_blocks(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Have nested graphs write to none of their inputs.

    Inductor takes the positions of a backward's donated inputs for those of nested graphs
    too, and writes over operands that are used again: weights, or what a loop reads.
    """

    def make_subgraph(*args: Any, **kwargs: Any) -> Any:
        made = stock(*args, **kwargs)
        made.bw_donated_idxs = None
        return made

    return make_subgraph


donating_nothing_to_blocks = SharedPatch(
    GraphLowering, "make_subgraph", _donate_nothing_to_blocks
)
