"""Hypothesis strategies for valid programs, of every line kind.

A program grows by steps.  Each adds a few lines that belong together, and is left out where
a value that it needs is missing.  The generator of a block knows which values may be read,
written and dropped.  The verifier accepts every program, and it runs without a fault on the
inputs of :func:`wrapperir.testing.inputs.example_inputs`.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from hypothesis import strategies as st

from wrapperir import ir as wir
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.testing import block_steps, buffer_steps, call_steps, metadata_steps
from wrapperir.testing.choice_steps import copy_with_choices
from wrapperir.testing.generator import (
    BOOLEANS,
    BlockGenerator,
    NothingToUseError,
    Tracked,
    World,
    indices,
)
from wrapperir.testing.pool_space import TrackedMemory
from wrapperir.testing.stream_assignment import assign_streams

_NAMES = st.sampled_from(["main", "forward"])
_COLUMNS, _ROWS = st.integers(1, 8), st.integers(1, 6)
_FURTHER_DTYPES = st.lists(
    st.sampled_from([wir.DType.F32, wir.DType.I64, wir.DType.F64]), max_size=2
)
_NESTED = (
    block_steps.conditional,
    block_steps.while_loop,
    block_steps.subgraph_call,
    block_steps.graph_region,
)
_STEPS: tuple[Callable[[BlockGenerator], object], ...] = (
    *call_steps.STEPS,
    copy_with_choices,
    *buffer_steps.STEPS,
    *metadata_steps.STEPS,
    *(partial(step, grow=lambda inner, most: _grow(inner, most)) for step in _NESTED),
)


def _grow(generator: BlockGenerator, most: int) -> None:
    """Add at most so many steps."""
    for _ in range(generator.draw(indices(most + 1))):
        with suppress(NothingToUseError):
            generator.choose(_STEPS)(generator)


@st.composite
def programs(
    draw: st.DrawFn,
    *,
    languages: tuple[wir.Language, ...] = (wir.Language.TRITON, wir.Language.CPP),
    max_steps: int = 16,
    pools: bool = True,
    streams: bool = True,
    special_memory: bool = False,
) -> wir.Program:
    """Draw a valid program for the CPU.

    Sizes are small, and values small enough for exact arithmetic, so that results do not
    depend on the order of sums.

    Args:
        draw: Given by Hypothesis.
        languages: The languages of its kernels; without one it has no kernels.
        max_steps: The largest number of steps in its own block.
        pools: Whether it may have pools.
        streams: Whether it may have several streams, and the events that order them.
        special_memory: Whether it may have buffers that are pinned, in another memory
            space or of a vendor layout, which few emitters have for the CPU.
    """
    builder = ProgramBuilder(draw(_NAMES))
    columns = draw(_COLUMNS)
    dynamic = draw(BOOLEANS)
    rows: wir.Expr = wir.Symbol("s0") if dynamic else draw(_ROWS)
    world = World(builder, languages, rows, columns, pools, special_memory)
    generator = BlockGenerator(draw, world, builder)
    _add_entry(generator, dynamic)
    for _ in range(generator.choose((0, 1, 2))):
        buffer_steps.allocate_pool(generator)
    _grow(generator, max_steps)
    outputs = _draw_outputs(generator)
    generator.free_all_but([t.value for t in outputs])
    for tracked in generator.tensors:
        if tracked.is_input and tracked not in outputs and generator.flip():
            builder.free(tracked.value)
    others: list[wir.Expr | None] = [None, 3, *generator.symbols]
    rest = [generator.choose(others) for _ in range(draw(indices(3)))]
    program = builder.build(*(t.value for t in outputs), *rest)
    return assign_streams(draw, program) if streams else program


def _add_entry(generator: BlockGenerator, dynamic: bool) -> None:
    """Add inputs, the symbols read from them, and constants."""
    world, builder, draw = generator.world, generator.world.builder, generator.draw
    for index, dtype in enumerate([wir.DType.F32, *draw(_FURTHER_DTYPES)]):
        mutated = generator.flip()
        donated = not mutated and generator.flip()
        value = builder.input(world.matrix(dtype), mutated=mutated, donated=donated)
        if donated:
            generator.add(value, TrackedMemory(world.numel, aligned=False))
        else:
            memory = TrackedMemory(world.numel, lent=True, writable=mutated)
            generator.add(value, memory, owned=False).is_input = True
        if dynamic and index == 0:
            generator.symbols.append(
                builder.symbol("s0", wir.SizeOf(value.name, 0), lower=2, upper=6)
            )
            world.largest["s0"] = 6
    for dtype in (wir.DType.I64, wir.DType.BOOL):
        if generator.flip():
            value = builder.input(wir.tensor(dtype, ()))
            memory = TrackedMemory(1, lent=True, writable=False)
            generator.add(value, memory, owned=False).is_input = True
    if generator.flip():
        value = builder.input(wir.ScalarType(wir.DType.I64), name="n")
        generator.symbols.append(builder.symbol("n", wir.ValueOf("n"), lower=0, upper=9))
    if generator.flip():
        value = builder.input(wir.ScalarType(wir.DType.F64), name="scale")
        generator.symbols.append(
            builder.symbol("scale", wir.ValueOf(value.name), kind=wir.SymbolKind.FLOAT)
        )
    for index in range(draw(indices(3))):
        mutated = generator.flip()
        type = wir.tensor("f32", (world.columns, world.columns))
        value = builder.constant(type, f"layers.{index}.weight", mutated=mutated)
        memory = TrackedMemory(world.columns**2, lent=True, writable=mutated)
        generator.add(value, memory, owned=False)


def _draw_outputs(generator: BlockGenerator) -> list[Tracked]:
    return generator.choose_several([t for t in generator.tensors if t.memory.written], 3)
