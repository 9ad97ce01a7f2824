"""The copies that launches make are found in their loops."""

from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.lowering.loop_graphs import loop_graphs
from tests.lowering.schedule_runs import SYMBOLS
from wrapperir.ir import CopyAxis, DType, Expr, KernelCopy, Symbol, TensorType
from wrapperir.lowering.copies import kernel_copies, launch_copies
from wrapperir.lowering.cpp import CppRenderer
from wrapperir.lowering.kernel import kernel_of
from wrapperir.lowering.loops import (
    Apply,
    Axis,
    ExternCall,
    Instruction,
    Literal,
    Load,
    LoopGraph,
    Nest,
    Store,
)
from wrapperir.lowering.renderer import Tiling
from wrapperir.lowering.scalar_op import ScalarOp
from wrapperir.lowering.schedule import SchedulingOptions, plan_kernels
from wrapperir.lowering.sequences import join_launches

F32 = TensorType(dtype=DType.F32, size=(8,), stride=(1,))
I64 = TensorType(dtype=DType.I64, size=(8,), stride=(1,))
AXIS = Symbol("i")


def load(result: str, buffer: str, index: Expr = AXIS) -> Load:
    dtype = DType.I64 if buffer == "at" else DType.F32
    return Load(result=result, dtype=dtype, buffer=buffer, index=(index,))


def store(buffer: str, value: str, index: Expr = AXIS) -> Store:
    return Store(buffer=buffer, index=(index,), value=value)


def copies(*body: Instruction, extent: Expr = 8) -> list[KernelCopy]:
    """Return the copies of loops over buffers, by the names of these."""
    nest = Nest(name="n", axes=(Axis("i", extent),), body=body)
    buffers = {**dict.fromkeys("abcde", F32), "at": I64}
    launch = kernel_of(nest, Tiling(blocks=(("i",),)), buffers, SYMBOLS)
    names = zip((x.name for x in launch.kernel.buffers), launch.buffers, strict=True)
    given = dict(names)
    return [
        evolve(each, target=given[each.target], source=given[each.source], axes=None)
        for each in kernel_copies(launch.kernel)
    ]


EXP = Apply(result="e", dtype=DType.F32, op=ScalarOp.EXP, operands=("v",))


def test_what_is_loaded_and_stored_is_a_copy() -> None:
    assert copies(load("v", "a"), store("b", "v"), EXP, store("c", "e")) == [
        KernelCopy("b", "a", 8)
    ]


def test_what_is_computed_and_stored_twice_is_not_read_again() -> None:
    assert copies(load("v", "a"), EXP, store("b", "e"), store("c", "e")) == [
        KernelCopy("c", "b", 8, computed=True)
    ]


def test_elements_of_one_buffer_count_together() -> None:
    body = load("v", "a"), store("b", "v"), load("w", "a"), store("b", "w", AXIS + 4)
    assert copies(*body, extent=4) == [KernelCopy("b", "a", 8)]
    unknown = Symbol(next(iter(SYMBOLS)))
    assert copies(*body, extent=unknown) == [KernelCopy("b", "a")]


def test_what_may_be_written_over_has_no_count() -> None:
    body = load("v", "a"), store("b", "v"), load("w", "c"), store("b", "w", AXIS + 2)
    assert copies(*body, extent=4) == [KernelCopy("b", "a"), KernelCopy("b", "c", 4)]
    parts = load("v", "a"), store("b", "v", AXIS * 2), load("w", "c")
    filled = copies(*parts, store("b", "w", AXIS * 2 + 1), extent=4)
    assert filled == [KernelCopy("b", "a", 4), KernelCopy("b", "c", 4)]


def test_the_loops_of_a_copy_have_their_steps_in_both_buffers() -> None:
    nest = Nest(
        name="n",
        axes=(Axis("i", 2), Axis("j", 4)),
        body=(
            load("v", "a", Symbol("j") * 2 + AXIS),
            store("b", "v", AXIS * 4 + Symbol("j")),
        ),
    )
    tiling = Tiling(blocks=(("i",), ("j",)))
    (copy,) = kernel_copies(kernel_of(nest, tiling, {"a": F32, "b": F32}, {}).kernel)
    assert copy.axes == (CopyAxis(2, 4, 1), CopyAxis(4, 1, 2))
    assert KernelCopy.of(copy.metadata) == (copy,)
    (rolled,) = kernel_copies(
        kernel_of(
            evolve(nest, body=(load("v", "a", (AXIS + 1) % 2), *nest.body[1:])),
            tiling,
            {"a": F32, "b": F32},
            {},
        ).kernel
    )
    assert rolled.axes is None


def test_what_is_gathered_constant_or_replaced_in_place_is_not_a_copy() -> None:
    at = load("n", "at"), load("v", "a", Symbol("n"))
    assert copies(*at, store("b", "v")) == []
    one = Literal(result="o", dtype=DType.F32, value=1.0)
    assert copies(one, store("b", "o"), store("c", "o")) == []
    assert copies(load("v", "a"), store("b", "v"), EXP, store("a", "e")) == []


@settings(suppress_health_check=[*HealthCheck], max_examples=30, deadline=None)
@given(loop_graphs(), st.booleans())
def test_each_pair_of_parameters_is_named_once(graph: LoopGraph, fuses: bool) -> None:
    schedule = plan_kernels(graph, SchedulingOptions(symbols=SYMBOLS, fuse=fuses))
    renderer = CppRenderer()
    for item in join_launches(schedule, graph.inputs, lambda _: renderer):
        if not isinstance(item, ExternCall):
            found = launch_copies(item)
            pairs = [(each.target, each.source) for each in found]
            assert len(pairs) == len({*pairs})
            written = {x.name for x in item.kernel.buffers if x.access.writes}
            assert {target for target, _ in pairs} <= written
