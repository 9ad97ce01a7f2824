"""Drawn nests: scheduling and renderers keep what the interpreter gives."""

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.lowering.test_cpp_schedules import launches_of
from tests.lowering.test_triton_schedules import tiled_launches
from wrapperir.ir import DType
from wrapperir.lowering.loops import (
    Check,
    IndexValue,
    InnerLoop,
    Literal,
    Load,
    Nest,
    Reduce,
    Scan,
    Store,
    StoreMode,
)
from wrapperir.lowering.renderer import ReductionForm
from wrapperir.lowering.scalar_op import SCANS, ReduceOp
from wrapperir.lowering.schedule import (
    Rounding,
    Schedule,
    SchedulingOptions,
    plan_kernels,
)
from wrapperir.lowering.schedule_checks import check_graph, check_schedule
from wrapperir.lowering.schedule_interpreter import (
    RunLaunch,
    run_graph,
    run_launch,
    run_schedule,
)
from wrapperir.lowering.substitution import instructions
from wrapperir.lowering.text import format_graph
from wrapperir.testing import SIZE_VALUES, SIZES, DrawnNest, nest_inputs, nests

_TOLERANCES = {
    torch.float64: 1e-10,
    torch.float32: 2e-5,
    torch.float16: 2e-2,
    torch.bfloat16: 8e-2,
}
"""Differences of rough results, as parts of the greatest."""

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


def _schedule(drawn: DrawnNest, fuse: bool) -> Schedule:
    options = SchedulingOptions(symbols=SIZES, fuse=fuse, rounding=Rounding.EAGER)
    return plan_kernels(drawn.graph, options)


def _compare(drawn: DrawnNest, schedule: Schedule, launch: RunLaunch) -> None:
    """Compare kernels that ``launch`` runs with the nest that they are of."""
    note(format_graph(drawn.graph).text)
    inputs = nest_inputs(drawn)
    wanted = run_graph(drawn.graph, inputs, SIZE_VALUES)
    found = run_schedule(schedule, inputs, SIZE_VALUES, launch=launch)
    for name, memory in wanted.items():
        allowed = _TOLERANCES.get(memory.dtype, 0) * drawn.rough.get(name, 0)
        torch.testing.assert_close(
            found[name], memory, rtol=0, atol=allowed, equal_nan=True, msg=name
        )


def _scheduling_keeps_nests(drawn: DrawnNest, fuse: bool) -> None:
    assert check_graph(drawn.graph, SIZES) == ()
    schedule = _schedule(drawn, fuse)
    assert check_schedule(schedule, SIZES) == ()
    _compare(drawn, schedule, run_launch)


def _cpp_kernels_compute_nests(drawn: DrawnNest, fuse: bool, lanes: bool) -> None:
    schedule = _schedule(drawn, fuse)
    _compare(drawn, schedule, launches_of(schedule, has_small_lanes=lanes))


def _triton_kernels_compute_nests(
    drawn: DrawnNest, fuse: bool, form: ReductionForm, count: int
) -> None:
    _compare(drawn, _schedule(drawn, fuse), tiled_launches(form, count))


_FORMS = (st.sampled_from(ReductionForm), st.integers(1, 3))


@settings(suppress_health_check=_SLOW, max_examples=draws(40, 1000))
@given(nests(), st.booleans())
def test_scheduling_keeps_what_a_nest_computes(drawn: DrawnNest, fuse: bool) -> None:
    _scheduling_keeps_nests(drawn, fuse)


@settings(suppress_health_check=_SLOW, max_examples=draws(3, 200))
@given(nests(), st.booleans(), st.booleans())
def test_cpp_kernels_compute_nests(drawn: DrawnNest, fuse: bool, lanes: bool) -> None:
    _cpp_kernels_compute_nests(drawn, fuse, lanes)


@settings(suppress_health_check=_SLOW, max_examples=draws(20, 500))
@given(nests(), st.booleans(), *_FORMS)
def test_triton_kernels_compute_nests(
    drawn: DrawnNest, fuse: bool, form: ReductionForm, count: int
) -> None:
    _triton_kernels_compute_nests(drawn, fuse, form, count)


@pytest.mark.sweep
@settings(suppress_health_check=_SLOW, max_examples=150)
@given(nests(), st.booleans(), st.booleans())
def test_more_cpp_kernels(drawn: DrawnNest, fuse: bool, lanes: bool) -> None:
    _cpp_kernels_compute_nests(drawn, fuse, lanes)


@pytest.mark.sweep
@settings(suppress_health_check=_SLOW, max_examples=400)
@given(nests(), st.booleans(), *_FORMS)
def test_more_triton_kernels(
    drawn: DrawnNest, fuse: bool, form: ReductionForm, count: int
) -> None:
    _triton_kernels_compute_nests(drawn, fuse, form, count)


def test_nests_of_every_kind_are_drawn() -> None:
    found: set[object] = set()

    @settings(
        max_examples=draws(150, 1500),
        database=None,
        phases=[Phase.generate],
        suppress_health_check=_SLOW,
    )
    @given(nests())
    def look(drawn: DrawnNest) -> None:
        (nest,) = drawn.graph.items
        assert isinstance(nest, Nest)
        found.update(type(step) for step in nest.body if isinstance(step, InnerLoop))
        for each in instructions(nest.body):
            op = getattr(each, "op", getattr(each, "mode", None))
            found.add((type(each), op) if op else type(each))
            found.add(getattr(each, "dtype", None))

    look()
    assert len({(Reduce, op) for op in ReduceOp} - found) <= 1
    assert len({(Scan, op) for op in SCANS} - found) <= 1
    assert len({(Store, mode) for mode in StoreMode} - found) <= 1
    assert {InnerLoop, IndexValue, Load, Literal, Check} <= found
    assert {DType.BF16, DType.U8, DType.BOOL, DType.F64} <= found
