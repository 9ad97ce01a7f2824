"""Reads and writes at drawn positions, by all points of a nest at once, beside eager."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.fx.experimental.proxy_tensor import make_fx

from wrapperir.frontend.lowering.decompositions import table
from wrapperir.frontend.lowering.graph import lower_graph
from wrapperir.lowering.schedule import SchedulingOptions, plan_kernels
from wrapperir.lowering.schedule_interpreter import run_schedule

aten: Any = torch.ops.aten
Indices: TypeAlias = list[torch.Tensor | None]


def _results(
    function: Callable[..., torch.Tensor], inputs: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """Return what the kernels of a function compute, without and with fusion."""
    trace: Any = make_fx(function, decomposition_table=dict(table()), tracing_mode="fake")
    graph: torch.fx.Graph = trace(*inputs).graph
    loops = lower_graph(graph, {}).loops
    memory = {
        name: torch.as_strided(tensor, (tensor.untyped_storage().nbytes() // 4,), (1,))
        if tensor.dtype is torch.float32
        else tensor.reshape(-1)
        for name, tensor in zip(loops.inputs, inputs, strict=True)
    }
    found: list[torch.Tensor] = []
    for fuse in (False, True):
        schedule = plan_kernels(loops, SchedulingOptions(fuse=fuse))
        written = run_schedule(schedule, memory)
        ((_, view),) = schedule.outputs
        found.append(
            torch.as_strided(
                written[view.buffer],
                [int(str(extent)) for extent in view.type.size],
                [int(str(step)) for step in view.type.stride],
            )
        )
    return found


@st.composite
def _indexed(draw: st.DrawFn) -> tuple[torch.Tensor, Indices]:
    """Draw a tensor, perhaps transposed, and an index or none for each dimension."""
    size = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    order = draw(st.permutations(range(len(size))))
    x = torch.randn(size).permute(order)
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    indices: Indices = [None] * len(size)
    for dim in draw(st.sets(st.integers(0, len(size) - 1), min_size=1)):
        own = [1 if draw(st.booleans()) else extent for extent in shape]
        own = own[draw(st.integers(0, max(len(own) - 1, 0))) :]
        indices[dim] = torch.randint(-x.shape[dim], x.shape[dim], own)
    return x, indices


@settings(max_examples=15, deadline=None)
@given(_indexed())
def test_elements_at_several_positions(
    drawn: tuple[torch.Tensor, Indices],
) -> None:
    x, indices = drawn
    chosen = [index for index in indices if index is not None]

    def unpacked(given: Sequence[torch.Tensor]) -> Indices:
        rest = iter(given)
        return [None if index is None else next(rest) for index in indices]

    def read(x: torch.Tensor, *given: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = aten.index(x, unpacked(given))
        return found

    expected = read(x, *chosen)
    for result in _results(read, [x, *chosen]):
        assert torch.equal(result, expected)
    values = torch.ones(expected.shape[-1:]) * 3

    def write(x: torch.Tensor, values: torch.Tensor, *given: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = aten.index_put(x, unpacked(given), values, True)
        return found

    expected = write(x, values, *chosen)
    for result in _results(write, [x, values, *chosen]):
        torch.testing.assert_close(result, expected)
