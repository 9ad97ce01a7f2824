"""Kernels of the renderer compute what nests say, on the OpenCL device."""

from collections.abc import Mapping

import pytest
import torch
from attrs import evolve
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from wrapperir import ir as wir
from wrapperir.emit import compile_program
from wrapperir.lowering.c import lanes
from wrapperir.lowering.kernel import KernelLaunch
from wrapperir.lowering.loops import LoopGraph
from wrapperir.lowering.schedule import Rounding, SchedulingOptions, plan_kernels
from wrapperir.lowering.schedule_interpreter import run_graph, run_schedule
from wrapperir.lowering.text import format_graph
from wrapperir.testing import SIZE_VALUES, SIZES, DrawnNest, nest_inputs, nests
from wrapperir_opencl.emitter import OpenclEmitter
from wrapperir_opencl.renderer import OpenclRenderer, renderer
from wrapperir_opencl.renderer.language import OpenclVectors

DEVICE = wir.Device("opencl", 0)
RENDERER = OpenclRenderer()
TOLERANCES = {
    torch.float64: 1e-10,
    torch.float32: 2e-5,
    torch.float16: 2e-2,
    torch.bfloat16: 8e-2,
}
"""Differences of rough results, as parts of the greatest."""


def on_device(graph: LoopGraph) -> LoopGraph:
    """Return a graph with all of its buffers on the OpenCL device."""
    buffers = {name: evolve(type, device=DEVICE) for name, type in graph.buffers.items()}
    return evolve(graph, buffers=buffers)


def launch(
    item: KernelLaunch, memory: Mapping[str, torch.Tensor], symbols: Mapping[str, int]
) -> None:
    """Run a kernel by a program whose inputs are the kernel's arguments."""
    definition = evolve(RENDERER.render_kernel(item.kernel), name="kernel_of_nest")
    tensors = [memory[name] for name in item.buffers]
    names = [f"b{n}" for n in range(len(tensors))]
    sizes = [f"n{n}" for n in range(len(item.symbols))]
    inputs = [
        wir.Input(
            name=name,
            type=wir.tensor(buffer.type.dtype, (tensor.numel(),), device=DEVICE),
            mutated=buffer.access.writes,
        )
        for name, buffer, tensor in zip(names, item.kernel.buffers, tensors, strict=True)
    ]
    program = wir.Program(
        inputs=(
            *inputs,
            *(wir.Input(name=n, type=wir.ScalarType(wir.DType.I64)) for n in sizes),
        ),
        symbols=tuple(
            wir.SymbolDefinitionLine(symbol=n, source=wir.ValueOf(n)) for n in sizes
        ),
        definitions=(definition,),
        lines=(
            wir.KernelCallLine(
                kernel=definition.name,
                arguments=(*map(wir.BufferRef, names), *map(wir.Symbol, sizes)),
                device=DEVICE,
            ),
        ),
    )
    run = compile_program(program, emitter=OpenclEmitter())
    run([*tensors, *(symbols[name] for name in item.symbols)])


@pytest.mark.device
@settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    max_examples=25,
    deadline=None,
    database=None,  # new ones in each run
)
@given(nests(), st.booleans(), st.booleans())
def test_kernels_compute_drawn_nests(
    drawn: DrawnNest, fuse: bool, has_vectors: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if has_vectors:  # axes of drawn nests are short
            patch.setattr(renderer, "VECTORS", OpenclVectors(2))
            patch.setattr(lanes, "_FEWEST", 2)
        check_nest(drawn, fuse)


def check_nest(drawn: DrawnNest, fuse: bool) -> None:
    """Run the kernels of a nest, and compare what they write."""
    graph = on_device(drawn.graph)
    options = SchedulingOptions(symbols=SIZES, fuse=fuse, rounding=Rounding.EAGER)
    schedule = plan_kernels(graph, options)
    for item in schedule.items:
        assert isinstance(item, KernelLaunch)
        if RENDERER.refusal(item.kernel.nest) is not None:
            return
    note(format_graph(graph).text)
    inputs = nest_inputs(drawn)
    wanted = run_graph(drawn.graph, inputs, SIZE_VALUES)
    found = run_schedule(schedule, inputs, SIZE_VALUES, launch=launch)
    for name, memory in wanted.items():
        allowed = TOLERANCES.get(memory.dtype, 0) * drawn.rough.get(name, 0)
        torch.testing.assert_close(
            found[name], memory, rtol=0, atol=allowed, equal_nan=True, msg=name
        )
