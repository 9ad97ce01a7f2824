"""C++ kernels of drawn graphs compute what the graphs say, with lanes of every kind."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from unittest.mock import patch

import torch
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.lowering.cpp_kernels import build_kernels
from tests.lowering.loop_graphs import loop_graphs
from tests.lowering.schedule_runs import SYMBOLS, VALUES, add_one, drawn_inputs
from wrapperir.lowering.c import lanes
from wrapperir.lowering.cpp import nests, strips
from wrapperir.lowering.interpreter import SymbolValues
from wrapperir.lowering.kernel import KernelLaunch
from wrapperir.lowering.loops import LoopGraph
from wrapperir.lowering.schedule import Schedule, SchedulingOptions, plan_kernels
from wrapperir.lowering.schedule_interpreter import (
    BufferMemory,
    RunLaunch,
    run_graph,
    run_schedule,
)


@contextmanager
def small_lanes() -> Iterator[None]:
    """Have short axes take what long axes take: lanes, strips, chunks and threads."""
    with ExitStack() as stack:
        for module, name, value in (
            *((lanes, "_FEWEST", 2), (lanes, "_ENOUGH_WORK", 0), (strips, "STRIP", 4)),
            *((nests, "_CHUNK", 4), (nests, "_PARALLEL_WORK", 1)),
        ):
            stack.enter_context(patch.object(module, name, value))
        yield


def launches_of(schedule: Schedule, *, has_small_lanes: bool) -> RunLaunch:
    """Return what runs the kernels of a schedule, compiled, in order."""
    kernels = [
        evolve(item.kernel, name=f"kernel_{place}")
        for place, item in enumerate(schedule.items)
        if isinstance(item, KernelLaunch)
    ]
    with small_lanes() if has_small_lanes else nullcontext():
        built = iter(build_kernels(kernels) if kernels else [])

    def run(item: KernelLaunch, memory: BufferMemory, symbols: SymbolValues) -> None:
        buffers = [memory[name] for name in item.buffers]
        fault = [torch.zeros(1, dtype=torch.int32)] if item.kernel.fault else []
        sizes = [int(symbols[symbol]) for symbol in item.symbols]
        next(built).launch([*buffers, *sizes, *fault])
        assert not fault or not fault[0].item()

    return run


@settings(suppress_health_check=[*HealthCheck], max_examples=8, deadline=None)
@given(loop_graphs(), st.booleans(), st.booleans())
def test_kernels_of_graphs_compute_them(
    graph: LoopGraph, has_small_lanes: bool, fuses: bool
) -> None:
    options = SchedulingOptions(symbols=SYMBOLS, fuse=fuses)
    schedule = plan_kernels(graph, options)
    inputs = drawn_inputs(graph)
    wanted = run_graph(graph, inputs, VALUES, call=add_one)
    launches = launches_of(schedule, has_small_lanes=has_small_lanes)
    got = run_schedule(schedule, inputs, VALUES, call=add_one, launch=launches)
    for name, memory in wanted.items():
        assert torch.equal(memory, got[name]), name
