"""Drawn graphs of operators: loops, C++ and Triton kernels compute what eager does."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from torch.fx.experimental.proxy_tensor import make_fx

from tests.draws import draws
from tests.frontend_lowering.graph_maker import OperatorGraph
from tests.frontend_lowering.operator_graphs import operator_graphs
from wrapperir.emit import compile_program
from wrapperir.frontend.lowering.decompositions import table
from wrapperir.frontend.lowering.lower import LoweringStages, lower_to_program
from wrapperir.ir import Symbol, evaluate_int
from wrapperir.lowering.loops import ExternCall, LoopGraph, Nest
from wrapperir.lowering.renderer import Renderer
from wrapperir.lowering.schedule import Rounding
from wrapperir.lowering.schedule_interpreter import run_graph, run_schedule, strided
from wrapperir.lowering.triton import TritonRenderer
from wrapperir.plugin import PluginManager
from wrapperir.verify import verify

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
ROUNDINGS = st.sampled_from(Rounding)


def _lowered(
    graph: OperatorGraph, symbolic: bool, rounding: Rounding
) -> tuple[LoweringStages, list[str]]:
    """Return the stages of a graph, and the names of its results."""
    note(str(graph))
    trace: Any = make_fx(
        graph.run,
        decomposition_table=dict(table()),
        tracing_mode="symbolic" if symbolic else "fake",
    )
    module = trace(*graph.inputs)
    module.graph.eliminate_dead_code()
    stages = lower_to_program(module, rounding)
    assert verify(stages.lowered.program) == ()
    results: Any = module.graph.output_node().args[0]
    return stages, [result.name for result in results]


def _check(graph: OperatorGraph, found: Sequence[torch.Tensor]) -> None:
    for ours, value in zip(found, graph.expected, strict=True):
        theirs = value.tensor
        assert ours.dtype is theirs.dtype
        torch.testing.assert_close(ours, theirs, rtol=0, atol=value.allowed, equal_nan=True)
        if theirs.dtype.is_floating_point and value.has_signs:
            zeros = theirs == 0
            assert torch.equal(ours[zeros].signbit(), theirs[zeros].signbit())


def _loops(
    stages: LoweringStages, names: Sequence[str], inputs: Sequence[torch.Tensor]
) -> list[list[torch.Tensor]]:
    """Return what the interpreter computes by nests, and by the kernels made of them."""
    loops = stages.loops
    sizes = _sizes(loops, inputs)
    memory = {
        name: x.as_strided((_extent(x),), (1,), x.storage_offset())
        for name, x in zip(loops.inputs, inputs, strict=True)
    }
    found: list[list[torch.Tensor]] = []
    for written in (
        run_graph(loops, memory, sizes),
        run_schedule(stages.schedule, memory, sizes),
    ):
        results: dict[str, torch.Tensor] = {}
        for name, view in loops.outputs:
            offset = evaluate_int(view.type.offset, sizes)
            results[name] = strided(written[view.buffer][offset:], view.type, sizes)
        found.append([results[name] for name in names])
    return found


def _sizes(loops: LoopGraph, inputs: Sequence[torch.Tensor]) -> dict[str, int]:
    """Return the values of symbols that are sizes and strides of inputs."""
    found: dict[str, int] = {}
    for name, x in zip(loops.inputs, inputs, strict=True):
        type = loops.buffers[name]
        parts = zip((*type.size, *type.stride), (*x.shape, *x.stride()), strict=True)
        found |= {part.name: n for part, n in parts if isinstance(part, Symbol)}
    return found


def _extent(x: torch.Tensor) -> int:
    if x.numel() == 0:
        return 0
    steps = zip(x.shape, x.stride(), strict=True)
    return 1 + sum((extent - 1) * step for extent, step in steps)


def _kernels(stages: LoweringStages, inputs: Sequence[torch.Tensor]) -> Any:
    lowered = stages.lowered
    return compile_program(lowered.program, constants=lowered.constants)(list(inputs))


@settings(max_examples=draws(60, 1500), suppress_health_check=SLOW, deadline=None)
@given(operator_graphs(), st.booleans(), ROUNDINGS)
def test_loops_compute_what_eager_does(
    graph: OperatorGraph, symbolic: bool, rounding: Rounding
) -> None:
    stages, names = _lowered(graph, symbolic, rounding)
    if any(isinstance(item, ExternCall) for item in stages.loops.items):
        return
    for found in _loops(stages, names, graph.inputs):
        _check(graph, found)


@settings(max_examples=draws(12, 400), suppress_health_check=SLOW, deadline=None)
@given(operator_graphs(), st.booleans(), ROUNDINGS)
def test_cpp_kernels_compute_what_eager_does(
    graph: OperatorGraph, symbolic: bool, rounding: Rounding
) -> None:
    stages, _ = _lowered(graph, symbolic, rounding)
    _check(graph, _kernels(stages, graph.inputs))


@settings(max_examples=draws(15, 400), suppress_health_check=SLOW, deadline=None)
@given(operator_graphs(), st.booleans(), ROUNDINGS)
def test_triton_kernels_compute_what_eager_does(
    graph: OperatorGraph, symbolic: bool, rounding: Rounding
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PluginManager, "renderer", _triton)
        stages, _ = _lowered(graph, symbolic, rounding)
        found = _kernels(stages, graph.inputs)
    _check(graph, found)


def _triton(manager: PluginManager, nest: Nest, device_kind: str) -> Renderer | None:
    renderer = TritonRenderer()
    return renderer if renderer.refusal(nest) is None else None
