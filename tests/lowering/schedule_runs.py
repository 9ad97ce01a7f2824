"""Inputs and operator calls of drawn graphs."""

from collections.abc import Mapping

import torch

from wrapperir.ir import evaluate_int, storage_extent
from wrapperir.lowering.kernel import SizeSymbol
from wrapperir.lowering.loops import ExternCall, LoopGraph

SYMBOLS = {"s0": SizeSymbol(low=1)}
VALUES = {"s0": 4}


def add_one(call: ExternCall, memory: Mapping[str, torch.Tensor]) -> None:
    """Run a call of a drawn graph: it copies its argument plus 1."""
    ((_, view),) = call.arguments
    (result,) = call.writes
    memory[result].copy_(memory[view.buffer] + 1)


def drawn_inputs(graph: LoopGraph) -> dict[str, torch.Tensor]:
    """Return small whole numbers for the inputs of a graph, so that sums are exact."""
    found: dict[str, torch.Tensor] = {}
    for seed, name in enumerate(graph.inputs):
        extent = evaluate_int(storage_extent(graph.buffers[name]), VALUES)
        generator = torch.Generator().manual_seed(seed)
        found[name] = torch.randint(-9, 10, (extent,), generator=generator).double()
    return found
