"""The checker of memory, the interpreter and the verifier agree on generated programs.

Each shares no code with the others; a program that is damaged on purpose must not look
sound to one that should have seen it.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping

import pytest
from attrs import evolve
from hypothesis import HealthCheck, Phase, assume, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from tests.draws import draws
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.interp import interpret
from wrapperir.interp.storage import Owner, ShadowStorage
from wrapperir.ir import (
    LINES,
    AllocateLine,
    AllocatePoolLine,
    BodyLine,
    BufferRef,
    Expr,
    ExternKernelLine,
    KernelCallLine,
    Language,
    MultiKernelLine,
    Number,
    PlaceLine,
    PoolType,
    Program,
    ReinterpretLine,
    WaitEventLine,
    ZeroMode,
    keyword,
)
from wrapperir.ir.blocks import blocks_of
from wrapperir.ir.selection import SELECTIONS
from wrapperir.testing import (
    example_constants,
    example_inputs,
    example_symbols,
    memory_conflicts,
    peak_bytes,
    programs,
)
from wrapperir.verify import verify

CPP = (Language.CPP,)
SEEDS = st.integers(0, 2**16)
PLACEMENT_FAULTS = {Code.RUN_PLACEMENT_OUT_OF_BOUNDS, Code.RUN_PLACEMENT_OVERLAP}
slow = settings(max_examples=draws(30, fuzz=60), suppress_health_check=list(HealthCheck))


def fault_of(program: Program, seed: int) -> Code | None:
    inputs, constants = example_inputs(program, seed), example_constants(program, seed)
    try:
        interpret(program, inputs, constants)
    except DiagnosticError as error:
        return error.diagnostics[0].code
    return None


def all_lines(lines: tuple[BodyLine, ...]) -> Iterator[BodyLine]:
    for line in lines:
        yield line
        for block in blocks_of(line):
            yield from all_lines(block.lines)


def features(program: Program) -> Iterator[str]:
    """Yield what tests of memory passes need programs to have."""
    for definition in program.definitions:
        yield keyword(definition)
        if isinstance(definition, MultiKernelLine):
            yield type(definition.selection).__name__
            if definition.sizes:
                yield "named sizes"
            for choice in definition.choices:
                if len(choice.arguments) < len(definition.parameters):
                    yield "subset of arguments"
                yield from (f"choice needs {need.mode.value}" for need in choice.workspaces)
    names = {output.name for output in program.outputs if isinstance(output, BufferRef)}
    for line in program.lines:
        if blocks_of(line):
            for inner in all_lines(tuple(i for b in blocks_of(line) for i in b.lines)):
                yield f"nested {keyword(inner)}"
        if getattr(line, "result", None) in names:
            yield f"output of {keyword(line)}"
    for line in all_lines(program.lines):
        yield keyword(line)
        match line:
            case AllocateLine():
                if line.workspace is not None:
                    yield line.workspace.value
                if line.type.pinned:
                    yield "pinned"
                if line.type.layout is not None:
                    yield "vendor layout"
                yield line.type.space
            case AllocatePoolLine():
                yield "constant pool" if isinstance(line.type.size, int) else "any pool"
            case PlaceLine():
                if isinstance(line.type, PoolType):
                    yield "pool in a pool"
                elif not isinstance(line.offset, int):
                    yield "symbolic offset"
                if line.workspace is not None:
                    yield f"placed {line.workspace.value}"
            case KernelCallLine() | ExternKernelLine():
                yield f"stream {line.stream}"
            case _:
                pass


def test_programs_have_what_memory_passes_have_to_deal_with() -> None:
    seen: set[str] = set()

    wanted = {keyword(line) for line in LINES} | {
        *("nested allocate", "nested place"),
        *("output of reinterpret", "output of place", "output of extern_kernel"),
        *("uninitialized", "zero_on_call", "zero_per_program"),
        "placed zero_on_call",
        *("pinned", "vendor layout", "comm"),
        *("constant pool", "any pool", "pool in a pool", "symbolic offset"),
        *("stream 0", "stream 1", "stream 2"),
        *(kind.__name__ for kind in SELECTIONS),
        *("named sizes", "subset of arguments"),
        *(f"choice needs {mode.value}" for mode in ZeroMode),
    }

    def is_last(program: Program) -> bool:
        seen.update(features(program))
        return wanted <= seen

    generate = settings(
        max_examples=600,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    drawn = programs(max_steps=30, special_memory=True, collectives=True)
    with contextlib.suppress(NoSuchExample):
        find(drawn, is_last, settings=generate)
    assert wanted <= seen, wanted - seen


@slow
@given(programs(languages=CPP, special_memory=True, collectives=True), SEEDS)
def test_what_is_drawn_is_sound_to_all(program: Program, seed: int) -> None:
    assert verify(program) == ()
    assert memory_conflicts(program, example_symbols(program, seed)) == ()


def test_pools_and_streams_are_left_out_where_they_are_not_wanted() -> None:
    @settings(max_examples=draws(25, fuzz=50), phases=[Phase.generate], database=None)
    @given(programs(languages=CPP, pools=False, streams=False, max_steps=30))
    def check(program: Program) -> None:
        found = set(features(program))
        assert not found & {"allocate_pool", "record_event", "stream 1", "pinned"}

    check()


@slow
@given(programs(languages=CPP, max_steps=24), SEEDS, st.data())
def test_a_wait_that_is_left_out_is_missed_by_none(
    program: Program, seed: int, data: st.DataObject
) -> None:
    waits = [i for i, line in enumerate(program.lines) if isinstance(line, WaitEventLine)]
    assume(waits)
    left_out = data.draw(st.sampled_from(waits))
    lines = program.lines[:left_out] + program.lines[left_out + 1 :]
    damaged = evolve(program, lines=lines)
    symbols = example_symbols(program, seed)
    conflicts = memory_conflicts(damaged, symbols)
    assert {conflict.kind for conflict in conflicts} <= {"unordered"}
    fault = fault_of(damaged, seed)
    assert fault in (None, Code.RUN_RACE)
    if fault is not None:  # a run sees one way through the program, the checker all
        assert conflicts
    if conflicts:
        assert verify(damaged)


@slow
@given(programs(languages=CPP, streams=False, max_steps=24), SEEDS, st.data())
def test_a_placement_that_is_moved_is_missed_by_none(
    program: Program, seed: int, data: st.DataObject
) -> None:
    places = [i for i, line in enumerate(program.lines) if isinstance(line, PlaceLine)]
    assume(places)
    index = data.draw(st.sampled_from(places))
    line = program.lines[index]
    assert isinstance(line, PlaceLine)
    # A tenth of what the pool may be: sometimes free, sometimes not, sometimes outside.
    offset: Expr = line.offset + 64 * data.draw(st.integers(-3, 9))
    moved = evolve(line, offset=offset)
    lines = (*program.lines[:index], moved, *program.lines[index + 1 :])
    damaged = evolve(program, lines=lines)
    symbols = example_symbols(program, seed)
    conflicts = memory_conflicts(damaged, symbols)
    fault = fault_of(damaged, seed)
    assert fault is None or fault in PLACEMENT_FAULTS
    if fault is not None:
        assert conflicts
    found = {d.code for d in verify(damaged)}
    # The verifier takes sizes that are symbols to be at least one.
    if found & {Code.PLACEMENT_OVERLAP, Code.OUTSIDE_POOL} and 0 not in symbols.values():
        assert conflicts  # a certain fault is one for these symbols, too


class Meter:
    """What a run allocates, as the storages of the interpreter tell."""

    def __init__(self) -> None:
        self.live = self.peak = 0

    def count(self, storage: ShadowStorage, sign: int) -> None:
        if storage.owner in (Owner.BLOCK, Owner.DONATED) and storage.pool is None:
            self.live += sign * -(-storage.nbytes // 64) * 64
            self.peak = max(self.peak, self.live)


def measured_peak(
    program: Program, seed: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[int, Mapping[str, Number]]:
    """Return the most bytes of a run, and the symbols it had."""
    symbols = example_symbols(program, seed)
    meter = Meter()
    keep, drop = ShadowStorage.keep, ShadowStorage.drop

    def counted_keep(storage: ShadowStorage) -> None:
        keep(storage)
        if storage.names == 1:
            meter.count(storage, 1)

    def counted_drop(storage: ShadowStorage) -> None:
        if storage.names == 1:
            meter.count(storage, -1)
        drop(storage)

    with monkeypatch.context() as patch:
        patch.setattr(ShadowStorage, "keep", counted_keep)
        patch.setattr(ShadowStorage, "drop", counted_drop)
        assert fault_of(program, seed) is None
    return meter.peak, symbols


def kept_bytes(program: Program) -> int:
    """Return the bytes of workspaces that stay between calls; their sizes are constant."""
    return sum(
        -(-line.type.size[0] * line.type.dtype.itemsize // 64) * 64
        for line in program.lines
        if isinstance(line, AllocateLine)
        and line.workspace == "zero_per_program"
        and isinstance(line.type.size[0], int)
    )


@settings(
    max_examples=draws(30, fuzz=60),
    suppress_health_check=list(HealthCheck),
)
@given(programs(languages=CPP), SEEDS)
def test_the_peak_is_what_a_run_allocates(program: Program, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        measured, symbols = measured_peak(program, seed, patch)
    peak = peak_bytes(program, symbols) - kept_bytes(program)
    branches = any(blocks_of(line) for line in program.lines)
    assert measured <= peak
    assert measured == peak or branches


def test_views_of_one_buffer_are_each_mutated() -> None:
    found = 0

    @settings(max_examples=150, phases=[Phase.generate], database=None, derandomize=True)
    @given(programs(languages=(), max_steps=24))
    def check(program: Program) -> None:
        nonlocal found
        views = {
            line.result: line.source
            for line in program.lines
            if isinstance(line, ReinterpretLine)
        }
        written = Counter(
            views[name]
            for line in program.lines
            if isinstance(line, ExternKernelLine)
            for name in line.writes
            if name in views
        )
        found += any(count > 1 for count in written.values())

    check()
    assert found
