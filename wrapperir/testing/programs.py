"""Hypothesis strategies for valid programs, of every line kind.

A program grows by steps.  Each adds a few lines that belong together, and is left out where
a value that it needs is missing.  The generator of a block knows which values may be read,
written and dropped.  The verifier accepts every program, and it runs without a fault on the
inputs of :func:`wrapperir.testing.inputs.example_inputs`.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import Protocol

from attrs import evolve
from hypothesis import assume
from hypothesis import strategies as st

from wrapperir import ir as wir
from wrapperir.emit import Support, check_support
from wrapperir.emit.support import fit_program
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.testing import (
    block_steps,
    buffer_steps,
    call_steps,
    collective_steps,
    metadata_steps,
)
from wrapperir.testing.choice_steps import copy_with_choices
from wrapperir.testing.generator import (
    BOOLEANS,
    BlockGenerator,
    NothingToUseError,
    Tracked,
    indices,
)
from wrapperir.testing.pool_space import TrackedMemory
from wrapperir.testing.stream_assignment import assign_streams
from wrapperir.testing.world import World

_NAMES = st.sampled_from(["main", "forward"])
_COLUMNS, _ROWS = st.integers(1, 8), st.integers(1, 6)
_FURTHER_DTYPES = st.lists(
    st.sampled_from([wir.DType.F32, wir.DType.I64, wir.DType.F64]), max_size=2
)
_Step = Callable[[BlockGenerator], object]


class _NestedStep(Protocol):
    """A step that adds a block, and has ``grow`` add steps to it."""

    def __call__(self, generator: BlockGenerator, grow: block_steps.Grow) -> None: ...


_ALLOCATES = frozenset({wir.AllocateLine})
_OPERATES = frozenset({wir.AllocateLine, wir.ExternKernelLine})
_LAUNCHES = _ALLOCATES | frozenset({wir.KernelDefinitionLine, wir.KernelCallLine})
_POOLS = frozenset({wir.AllocatePoolLine, wir.PlaceLine})
_COLLECTIVES = frozenset({wir.CollectiveLine, wir.WaitCollectiveLine})
_DEFINES = frozenset({wir.SymbolDefinitionLine})
_VIEWS = frozenset({wir.ReinterpretLine})

_NEEDS: Mapping[_Step, frozenset[type[wir.Line]]] = {
    call_steps.operator: _OPERATES,
    call_steps.operator_out: _OPERATES,
    call_steps.kernel_add: _LAUNCHES,
    call_steps.kernel_add_blocks: _LAUNCHES,
    call_steps.kernel_in_place: _LAUNCHES,
    call_steps.kernel_row_sum: _LAUNCHES,
    call_steps.operator_in_place: _OPERATES,
    call_steps.transposed: _OPERATES,
    call_steps.several_results: _OPERATES | {wir.MultiOutputLine},
    call_steps.matrix_product: _OPERATES,
    call_steps.widen: _OPERATES,
    call_steps.elementwise: _OPERATES,
    call_steps.sized_by_item: _OPERATES | _DEFINES,
    call_steps.nonzero: _OPERATES | _DEFINES,
    copy_with_choices: _LAUNCHES | {wir.MultiKernelLine},
    buffer_steps.allocate: _ALLOCATES,
    buffer_steps.allocate_special: _ALLOCATES,
    buffer_steps.write_halves: _OPERATES | _VIEWS,
    buffer_steps.change_view: _OPERATES,
    buffer_steps.reinterpret: _VIEWS,
    buffer_steps.reuse: frozenset({wir.ReuseLine}),
    buffer_steps.free: frozenset(),
    buffer_steps.free_tuple: frozenset(),
    buffer_steps.use_workspaces: _LAUNCHES,
    buffer_steps.allocate_pool: _POOLS,
    buffer_steps.place_pool: _POOLS,
    buffer_steps.free_pool: _POOLS,
    metadata_steps.symbol_of_tensor: _DEFINES,
    metadata_steps.symbol_computed: _DEFINES,
    metadata_steps.symbol_of_item: _DEFINES,
    metadata_steps.assert_layout: frozenset({wir.AssertSizeStrideLine}),
    metadata_steps.assert_aligned: frozenset({wir.AssertAlignmentLine}),
    metadata_steps.assert_condition: frozenset({wir.AssertScalarLine}),
    metadata_steps.assert_finite: frozenset({wir.AssertNotNanLine}),
    metadata_steps.comment: frozenset({wir.CommentLine}),
    metadata_steps.provenance: frozenset(),
    collective_steps.collective: _ALLOCATES | _COLLECTIVES,
}
"""The line kinds that each step may add, beside ``free``."""

_OPERATORS: Mapping[_Step, tuple[str, ...]] = {
    call_steps.operator: call_steps.WITH_RESULT,
    call_steps.operator_out: call_steps.WITH_OUT,
    call_steps.operator_in_place: call_steps.IN_PLACE,
    call_steps.transposed: call_steps.TRANSPOSING,
    call_steps.several_results: call_steps.WITH_PARTS,
    call_steps.matrix_product: call_steps.PRODUCTS,
    call_steps.widen: call_steps.JOINING,
    call_steps.elementwise: call_steps.ELEMENTWISE,
    call_steps.sized_by_item: call_steps.FILLING,
    call_steps.nonzero: call_steps.FINDING,
    buffer_steps.write_halves: buffer_steps.FILLING,
    buffer_steps.change_view: buffer_steps.CHANGING,
}
"""The operators that each step calls one of."""

_NESTED: Mapping[_NestedStep, type[wir.Line]] = {
    block_steps.conditional: wir.ConditionalLine,
    block_steps.while_loop: wir.WhileLoopLine,
    block_steps.subgraph_call: wir.SubgraphCallLine,
    block_steps.graph_region: wir.GraphRegionLine,
}
_LISTED: tuple[_Step, ...] = (
    *call_steps.STEPS,
    copy_with_choices,
    *buffer_steps.STEPS,
    collective_steps.collective,
    *metadata_steps.STEPS,
)


@cache
def _steps(
    lines: frozenset[type[wir.Line]],
    has_languages: bool,
    operators: frozenset[str] | None,
) -> tuple[_Step, ...]:
    """Return the steps that add lines of these kinds and call these operators only."""
    if not has_languages:
        lines -= {wir.KernelCallLine}
    steps = [
        step
        for step in _LISTED
        if _NEEDS[step] <= lines
        and (
            operators is None
            or step not in _OPERATORS
            or not operators.isdisjoint(_OPERATORS[step])
        )
    ]
    can_fill = lines >= _LAUNCHES or (operators is None and lines >= _OPERATES)
    for step, kind in _NESTED.items():
        if kind in lines and can_fill:
            steps.append(partial(step, grow=_grow))
    return tuple(steps)


def drawn_lines(support: Support) -> frozenset[type[wir.Line]]:
    """Return the line kinds of programs that an emitter takes, or that are replaced for it.

    These are multi-kernels for emitters that do not choose, and graph regions.
    """
    lines = support.lines
    if not support.choosing:
        lines |= {wir.MultiKernelLine}
    if wir.SubgraphCallLine in lines:
        lines |= {wir.GraphRegionLine}
    return lines


def undrawable(support: Support) -> str | None:
    """Return why no programs can be drawn for an emitter, ``None`` if they can."""
    lacking = {wir.AllocateLine, wir.FreeLine} - support.lines
    if lacking:
        names = " and ".join(sorted(wir.keyword(kind) for kind in lacking))
        return f"every drawn program has {names} lines"
    return None


def _grow(generator: BlockGenerator, most: int) -> None:
    """Add at most so many steps."""
    for _ in range(generator.draw(indices(most + 1))):
        with suppress(NothingToUseError):
            generator.choose(generator.world.steps)(generator)


@st.composite
def programs(
    draw: st.DrawFn,
    *,
    support: Support | None = None,
    languages: tuple[wir.Language, ...] = (wir.Language.TRITON, wir.Language.CPP),
    max_steps: int = 16,
    pools: bool = True,
    streams: bool = True,
    special_memory: bool = False,
    collectives: bool = False,
) -> wir.Program:
    """Draw a valid program for the CPU.

    Sizes are small, and values small enough for exact arithmetic, so that results do not
    depend on the order of sums.

    Args:
        draw: Given by Hypothesis.
        support: The support of an emitter, whose programs are drawn; ``None`` is any.  The
            other arguments restrict it.  Its devices are not looked at.
        languages: The languages of its kernels; without one it has no kernels.
        max_steps: The largest number of steps in its own block.
        pools: Whether it may have pools.
        streams: Whether it may have several streams, and the events that order them.
        special_memory: Whether it may have buffers that are pinned, in another memory
            space or of a vendor layout, which few emitters have for the CPU.
        collectives: Whether it may have collectives, of a group with one rank that is
            called ``one``.
    """
    lines = frozenset(wir.LINES) if support is None else drawn_lines(support)
    if support is not None:
        languages = tuple(x for x in languages if x in support.languages)
        pools = pools and lines >= _POOLS
        streams = streams and wir.RecordEventLine in lines and wir.WaitEventLine in lines
        streams = streams and "cpu" in support.streams
    if collectives:
        lines |= _COLLECTIVES
    else:
        lines -= _COLLECTIVES
    builder = ProgramBuilder(draw(_NAMES))
    columns = draw(_COLUMNS)
    dynamic = draw(BOOLEANS)
    rows: wir.Expr = wir.Symbol("s0") if dynamic else draw(_ROWS)
    operators = None if support is None else support.operators
    steps = _steps(lines, bool(languages), operators)
    world = World(builder, languages, rows, columns, pools, special_memory, lines, steps)
    if support is not None:
        world.operator_names = operators
        world.descriptors = support.descriptors
        world.zero_modes = support.zero_modes
        world.greatest_alignment = support.greatest_alignment
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
    listed = evolve(program, places=metadata_steps.PLACES, origins=metadata_steps.ORIGINS)
    program = wir.trim_origins(listed)
    if collectives:
        program = evolve(program, groups=(collective_steps.GROUP,))
    if streams:
        program = assign_streams(draw, program)
    if support is not None:
        fitted = fit_program(program, support)
        assume(not check_support(fitted, "drawn", evolve(support, devices=None)))
    return program


def _add_entry(generator: BlockGenerator, dynamic: bool) -> None:
    """Add inputs, the symbols read from them, and constants."""
    world, builder, draw = generator.world, generator.world.builder, generator.draw
    for index, dtype in enumerate([wir.DType.F32, *draw(_FURTHER_DTYPES)]):
        mutated = generator.flip()
        donated = not mutated and generator.flip()
        path = draw(metadata_steps.PATHS)
        value = builder.input(
            world.matrix(dtype), mutated=mutated, donated=donated, path=path
        )
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
