"""Hypothesis strategies for valid programs, of every line kind.

A program is grown line by line: each step adds the lines of one idea where the values it
needs are there, and the block knows which values may be read, written and dropped.  What
comes out has no fault that the verifier knows, and runs without one on the inputs of
:func:`wrapperir.testing.inputs.example_inputs`.
"""

from collections.abc import Callable

from hypothesis import strategies as st

from wrapperir.ir import (
    DType,
    Expr,
    Language,
    Program,
    ScalarType,
    SizeOf,
    Symbol,
    SymbolKind,
    ValueOf,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.testing import (
    block_steps,
    buffer_steps,
    call_steps,
    choice_steps,
    metadata_steps,
    pool_steps,
    size_steps,
)
from wrapperir.testing.generator import BlockGenerator, Tracked, World
from wrapperir.testing.pool_space import TrackedMemory
from wrapperir.testing.stream_assignment import assign_streams

_PLAIN: tuple[Callable[[BlockGenerator], object], ...] = (
    *call_steps.STEPS,
    *choice_steps.STEPS,
    *size_steps.STEPS,
    *buffer_steps.STEPS,
    *pool_steps.STEPS,
    *metadata_steps.STEPS,
)
_NESTED: tuple[Callable[[BlockGenerator, block_steps.Grow], None], ...] = (
    block_steps.conditional,
    block_steps.while_loop,
    block_steps.subgraph_call,
)
_STEPS = range(len(_PLAIN) + len(_NESTED))


def _grow(generator: BlockGenerator, most: int) -> None:
    """Add at most so many steps; each may add no line, where it has nothing to use."""
    for _ in range(generator.draw(st.integers(0, most))):
        number = generator.choose(_STEPS)
        if number < len(_PLAIN):
            _PLAIN[number](generator)
        else:
            _NESTED[number - len(_PLAIN)](generator, _grow)


@st.composite
def programs(
    draw: st.DrawFn,
    *,
    languages: tuple[Language, ...] = (Language.TRITON, Language.CPP),
    max_steps: int = 16,
    pools: bool = True,
    streams: bool = True,
    special_memory: bool = False,
) -> Program:
    """Draw a valid program for the CPU.

    ``languages`` are those of its kernels (with none it launches none), ``max_steps``
    bounds its length.  ``pools`` and ``streams`` say whether it may have pools, and more
    streams than one with the events that order them; ``special_memory`` whether it may
    have buffers that are pinned, of another space or of a vendor's layout, which few
    emitters have for the CPU.  Sizes are small; values stay small enough for exact
    arithmetic, so that results do not depend on the order of sums.
    """
    builder = ProgramBuilder(draw(st.sampled_from(["main", "forward"])))
    columns = draw(st.integers(1, 8))
    dynamic = draw(st.booleans())
    rows: Expr = Symbol("s0") if dynamic else draw(st.integers(1, 6))
    world = World(builder, languages, rows, columns, pools, special_memory)
    generator = BlockGenerator(draw, world, builder)
    _add_entry(generator, dynamic)
    for _ in range(generator.choose((0, 1, 2))):
        pool_steps.allocate_pool(generator)
    _grow(generator, max_steps)
    outputs = _draw_outputs(generator)
    generator.free_all_but([t.value for t in outputs])
    for tracked in generator.tensors:
        if tracked.is_input and tracked not in outputs and generator.flip():
            builder.free(tracked.value)
    rest = generator.draw(
        st.lists(st.sampled_from([None, 3, *generator.symbols]), max_size=2)
    )
    program = builder.build(*(t.value for t in outputs), *rest)
    return assign_streams(draw, program) if streams else program


def _add_entry(generator: BlockGenerator, dynamic: bool) -> None:
    """Add inputs, the symbols read from them, and constants."""
    world, builder, draw = generator.world, generator.world.builder, generator.draw
    dtypes = draw(st.lists(st.sampled_from([DType.F32, DType.I64, DType.F64]), max_size=2))
    for index, dtype in enumerate([DType.F32, *dtypes]):
        mutated = generator.flip()
        value = builder.input(world.matrix(dtype), mutated=mutated)
        memory = TrackedMemory(world.numel, lent=True, writable=mutated)
        generator.add(value, memory, owned=False).is_input = True
        if dynamic and index == 0:
            generator.symbols.append(
                builder.symbol("s0", SizeOf(value.name, 0), lower=2, upper=6)
            )
            world.largest["s0"] = 6
    for dtype in (DType.I64, DType.BOOL):
        if generator.flip():
            value = builder.input(tensor(dtype, ()))
            memory = TrackedMemory(1, lent=True, writable=False)
            generator.add(value, memory, owned=False).is_input = True
    if generator.flip():
        value = builder.input(ScalarType(DType.I64), name="n")
        generator.symbols.append(builder.symbol("n", ValueOf("n"), lower=0, upper=9))
    if generator.flip():
        value = builder.input(ScalarType(DType.F64), name="scale")
        generator.symbols.append(
            builder.symbol("scale", ValueOf(value.name), kind=SymbolKind.FLOAT)
        )
    for index in range(draw(st.integers(0, 2))):
        mutated = generator.flip()
        type = tensor("f32", (world.columns, world.columns))
        value = builder.constant(type, f"layers.{index}.weight", mutated=mutated)
        numel = world.columns * world.columns
        generator.add(value, TrackedMemory(numel, lent=True, writable=mutated), owned=False)


def _draw_outputs(generator: BlockGenerator) -> list[Tracked]:
    options = [t for t in generator.tensors if t.memory.written]
    if not options:
        return []
    return generator.draw(
        st.lists(st.sampled_from(options), max_size=3, unique_by=lambda t: t.value.name)
    )
