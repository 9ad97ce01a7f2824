"""Buffers are placed in pools, no peak is raised, and offsets hold for all sizes."""

import pytest
import torch
from attrs import evolve

from wrapperir.analysis import StorageKind, analyze_memory
from wrapperir.emit import compile_program
from wrapperir.ir import (
    CPU,
    AllocatePoolLine,
    BodyLine,
    ConditionalLine,
    Device,
    PlaceLine,
    PoolType,
    Program,
    SizeOf,
    Symbol,
    SymbolDefinitionLine,
    TensorType,
    VendorLayout,
    ZeroMode,
    evaluate_int,
    tensor,
)
from wrapperir.ir.builder import BlockBuilder, NamedValue, ProgramBuilder
from wrapperir.passes.plan_memory import OWN_BYTES, Planned, plan_memory, plan_pools
from wrapperir.text import parse_program
from wrapperir.verify import verify

SMALL, LARGE = tensor("f32", (16,)), tensor("f32", (64,))


def placements(lines: tuple[BodyLine, ...]) -> list[PlaceLine]:
    return [line for line in lines if isinstance(line, PlaceLine)]


def pools(lines: tuple[BodyLine, ...]) -> list[PoolType]:
    return [line.type for line in lines if isinstance(line, AllocatePoolLine)]


def with_headroom(
    b: ProgramBuilder, device: Device = CPU, elements: int = 999
) -> NamedValue:
    """Take more memory for a while than what comes after it."""
    type = tensor("f32", (elements,), device=device)
    return b.extern("aten.ones.default", [elements], type=type, device=device)


def chain(types: list[TensorType], out: TensorType, *, headroom: bool = True) -> Program:
    """Write buffers of these types, each from the one before, then an output."""
    b = ProgramBuilder()
    value = b.input(SMALL, name="x")
    if headroom:
        b.free(with_headroom(b))
    for type in types:
        after = b.allocate(type)
        b.extern_out("aten.sum.IntList_out", value, [], out=after)
        b.free(value)
        value = after
    result = b.allocate(out)
    b.extern_out("aten.sum.IntList_out", value, [], out=result)
    b.free(value)
    return b.build(result)


def peak(program: Program, **symbols: int) -> int:
    return analyze_memory(program, symbols).peak


def test_buffers_that_do_not_live_together_share_bytes() -> None:
    program = chain([SMALL, LARGE, LARGE, SMALL, SMALL], SMALL)
    planned = plan_pools(program)
    (pool,) = planned.pools
    assert pool.height == pool.lower_bound == 512
    assert len(placements(planned.program.lines)) == pool.buffers == 5
    assert peak(planned.program) == peak(program)


def test_an_output_beside_a_pool_counts() -> None:
    program = chain([LARGE, LARGE, LARGE], LARGE, headroom=False)
    planned = plan_memory(program)
    assert peak(planned) == peak(program) == 512
    assert placements(planned.lines) == [], "with the output, 512 bytes would be 768"


def test_outputs_are_placed_if_asked() -> None:
    program = chain([LARGE, LARGE, LARGE], LARGE)
    both = plan_pools(program, Planned.BOTH)
    assert [pool.buffers for pool in both.pools] == [4]
    assert peak(both.program) == peak(program)
    outputs = plan_pools(program, Planned.OUTPUTS)
    assert outputs.program == program, "one buffer needs no pool"


def test_offsets_are_multiples_of_a_symbolic_unit() -> None:
    program = chain_of_symbolic()
    assert verify(program) == ()
    planned = plan_memory(program)
    (pool,) = pools(planned.lines)
    assert not isinstance(pool.size, int)
    for value in (1, 7, 32):
        assert evaluate_int(pool.size, {"n": value}) == 2 * 64 * 4 * value
        assert peak(planned, n=value) == peak(program, n=value)
        offsets = [evaluate_int(p.offset, {"n": value}) for p in placements(planned.lines)]
        assert all(offset % 64 == 0 for offset in offsets)


def chain_of_symbolic() -> Program:
    b = ProgramBuilder()
    x = b.input(tensor("f32", (Symbol("n"), 64)), name="x")
    n = b.symbol("n", SizeOf("x", 0), lower=1, upper=64)
    type = tensor("f32", (n, 64))
    wide = tensor("f32", (n, 256))
    first = b.extern("aten.cat.default", [x, x, x, x], 1, type=wide)
    value = b.allocate(type)
    b.extern_out("aten.relu.out", x, out=value)
    for _ in range(4):
        after = b.allocate(type)
        b.extern_out("aten.relu.out", value, out=after)
        b.free(value)
        value = after
    b.free(first, x)
    last = b.extern("aten.relu.default", value, type=type)
    b.free(value)
    return b.build(last)


def test_sizes_that_are_no_multiples_of_each_other_have_pools_of_their_own() -> None:
    b = ProgramBuilder()
    x = b.input(tensor("f32", (Symbol("n"), Symbol("m"))), name="x")
    n = b.symbol("n", SizeOf("x", 0), lower=1)
    m = b.symbol("m", SizeOf("x", 1), lower=1)
    large = b.extern("aten.cat.default", [x] * 9, type=tensor("f32", (n * 512, m * 512)))
    for size in (n, m):
        for _ in range(3):
            buffer = b.allocate(tensor("f32", (size, 64)))
            b.extern_out("aten.ones.out", [size, 64], out=buffer)
            b.free(buffer)
    b.free(large, x)
    planned = plan_memory(b.build())
    kinds = {place.pool for place in placements(planned.lines)}
    units = {str(place.type) for place in placements(planned.lines)}
    assert len(kinds) == len(units)


def test_streams_share_bytes_only_where_they_have_met() -> None:
    assert len(set(offsets_on_streams(ordered=True))) == 1
    assert len(set(offsets_on_streams(ordered=False))) == 2


def offsets_on_streams(*, ordered: bool) -> list[int]:
    b = ProgramBuilder()
    keep = b.allocate(tensor("f32", (256,)))
    b.extern_out("aten.ones.out", [256], out=keep)
    b.free(keep)
    first = b.allocate(SMALL)
    b.extern_out("aten.ones.out", [16], out=first, stream=1)
    b.free(first)
    if ordered:
        event = b.record_event(stream=1)
        b.wait_event(event, stream=2)
    second = b.allocate(SMALL)
    b.extern_out("aten.ones.out", [16], out=second, stream=2)
    b.free(second)
    last = b.extern("aten.ones.default", [4], type=tensor("f32", (4,)))
    program = b.build(last)
    assert verify(program) == ()
    planned = plan_memory(program)
    assert verify(planned) == ()
    found = [place.offset for place in placements(planned.lines)][-2:]
    assert all(isinstance(offset, int) for offset in found)
    return [evaluate_int(offset, {}) for offset in found]


@pytest.mark.parametrize(
    "type",
    [
        evolve(SMALL, layout=VendorLayout("acme.tiled", (4, 4))),
        evolve(SMALL, size=(0,)),
    ],
)
def test_what_stays_allocated(type: TensorType) -> None:
    assert placements(plan_memory(chain([type, type, type], SMALL)).lines) == []


@pytest.mark.parametrize(
    ("device", "size", "is_placed"),
    [
        (Device("cuda", 0), OWN_BYTES, False),
        (Device("cuda", 0), OWN_BYTES - 64, True),
        (CPU, OWN_BYTES, True),
    ],
)
def test_a_large_buffer_on_a_gpu_has_an_allocation_of_its_own(
    device: Device, size: int, is_placed: bool
) -> None:
    small, large = (tensor("u8", (n,), device=device) for n in (16, size))
    b = ProgramBuilder()
    b.free(with_headroom(b, device, size))
    for type in (small, large, small):
        b.free(b.allocate(type))
    placed = [place.type for place in placements(plan_memory(b.build()).lines)]
    assert placed == [small, large, small] if is_placed else placed == [small, small]


def test_classes_have_pools_of_their_own() -> None:
    b = ProgramBuilder()
    types = [
        tensor("f32", (16,), space="comm"),
        tensor("f32", (16,), pinned=True),
        tensor("f32", (16,), device=Device("cuda", 0)),
        SMALL,
    ]
    b.free(with_headroom(b), with_headroom(b, Device("cuda", 0)))
    for type in types * 3:
        buffer = b.allocate(type)
        b.free(buffer)
    planned = plan_memory(b.build())
    found = pools(planned.lines)
    assert {(p.device, p.space, p.pinned) for p in found} == {
        (CPU, "comm", False),
        (CPU, "global", True),
        (Device("cuda", 0), "global", False),
        (CPU, "global", False),
    }
    assert len(found) == 4


def test_a_workspace_keeps_its_zero_mode_and_a_programs_is_not_placed() -> None:
    b = ProgramBuilder()
    b.free(with_headroom(b))
    for mode in (ZeroMode.ZERO_ON_CALL, ZeroMode.UNINITIALIZED, None):
        buffer = b.allocate(SMALL, workspace=mode)
        b.free(buffer)
    b.allocate(SMALL, workspace=ZeroMode.ZERO_PER_PROGRAM)
    planned = plan_memory(b.build())
    modes = [place.workspace for place in placements(planned.lines)]
    assert modes == [ZeroMode.ZERO_ON_CALL, ZeroMode.UNINITIALIZED, None]
    kinds = [storage.kind for storage in analyze_memory(planned, {}).top.storages]
    assert StorageKind.PROGRAM in kinds


def test_an_alignment_beyond_64_is_kept() -> None:
    aligned = tensor("f32", (16,), alignment=256)
    b = ProgramBuilder()
    b.free(with_headroom(b))
    held = b.allocate(SMALL)
    buffer = b.allocate(aligned)
    b.free(held, buffer)
    planned = plan_memory(b.build())
    assert verify(planned) == ()
    (pool,) = pools(planned.lines)
    assert pool.alignment == 256


def test_blocks_have_pools_of_their_own() -> None:
    program = parse_program(
        """wrapperir 1
program @main(%c: bool[1], %x: f32[64]) {
  %y = conditional %c (%x) : f32[64] {
    true (%a: f32[64]) {
      %b0 = allocate f32[64]
      extern_kernel aten.relu.out(%a, out = %b0) writes(%b0)
      %b1 = allocate f32[64]
      extern_kernel aten.relu.out(%b0, out = %b1) writes(%b1)
      free %b0
      %b2 = allocate f32[256]
      free %b2
      %r = extern_kernel aten.relu.default(%b1) : f32[64]
      free %b1
      return %r
    }
    false (%d: f32[64]) {
      %r1 = extern_kernel aten.relu.default(%d) : f32[64]
      return %r1
    }
  }
  free %x
  free %c
  return %y
}
"""
    )
    planned = plan_memory(program)
    (line,) = (line for line in planned.lines if isinstance(line, ConditionalLine))
    assert len(pools(line.on_true.lines)) == 1
    assert peak(planned) == peak(program)


def test_a_pool_of_a_size_that_data_decides_begins_once_it_is_known() -> None:
    program = parse_program(
        """wrapperir 1
program @main(%x: f32[16]) {
  %static0 = allocate f32[512]
  extern_kernel aten.ones.out([512], out = %static0) writes(%static0)
  %found = extern_kernel aten.nonzero.default(%x) : i64[u0, 1]
  symbol_definition u0: int 2..16 = size(%found, 0)
  free %static0
  %large = extern_kernel aten.ones.default([u0, 512]) : f32[u0, 512]
  free %large
  %b0 = allocate f32[u0, 64]
  extern_kernel aten.ones.out([u0, 64], out = %b0) writes(%b0)
  %b1 = allocate f32[u0, 128]
  extern_kernel aten.ones.out([u0, 128], out = %b1) writes(%b1)
  free %b0
  free %b1
  free %x
  return %found
}
"""
    )
    assert verify(program) == ()
    planned = plan_memory(program)
    assert verify(planned) == ()
    (pool,) = pools(planned.lines)
    assert evaluate_int(pool.size, {"u0": 3}) == 3 * (64 + 128) * 4
    known = [isinstance(line, SymbolDefinitionLine) for line in planned.lines].index(True)
    begins = [isinstance(line, AllocatePoolLine) for line in planned.lines].index(True)
    assert begins > known
    assert peak(planned, u0=3) == peak(program, u0=3)


@pytest.mark.parametrize("nested", [False, True])
def test_what_an_operator_counts_from_stays_allocated(nested: bool) -> None:
    b = ProgramBuilder()
    b.free(with_headroom(b))
    held = b.allocate(SMALL)
    b.extern_out("aten.ones.out", [16], out=held)
    buffer = b.allocate(LARGE)
    b.extern_out("aten.ones.out", [64], out=buffer)
    part = tensor("f32", (4,))

    def strided(block: BlockBuilder, x: NamedValue) -> NamedValue:
        view = block.extern(
            "aten.as_strided.default", x, [4], [1], 8, type=part, aliases=[x], name="view"
        )
        copy = block.extern("aten.clone.default", view, type=part)
        block.free(view)
        return copy

    if nested:
        (copy,) = b.subgraph_call("inner", [buffer], strided, results=[part])
    else:
        copy = strided(b, buffer)
    other = b.allocate(LARGE)
    b.free(held, buffer, other)
    planned = plan_memory(b.build(copy))
    names = [line.result for line in placements(planned.lines)]
    assert names == [held.name, other.name]


def test_what_an_operator_compares_by_storage_stays_allocated() -> None:
    b = ProgramBuilder()
    b.free(with_headroom(b))
    square = tensor("f32", (4, 4))
    a, q, r, total = (b.allocate(square) for _ in range(4))
    b.extern_out("aten.ones.out", [4, 4], out=a)
    b.extern_out("aten.linalg_qr.out", a, Q=q, R=r, writes=(q, r))
    b.extern_out("aten.mm.out", q, r, out=total)
    b.free(a, q, r)
    copy = b.extern("aten.clone.default", total, type=square)
    b.free(total)
    program = b.build(copy)
    planned = plan_memory(program)
    assert placements(planned.lines) == [], "one buffer needs no pool"
    (found,) = compile_program(planned)([])
    assert isinstance(found, torch.Tensor)
    torch.testing.assert_close(found, torch.ones(4, 4))


def backward_like(word: str) -> Program:
    """Free a large input where buffers begin that are never alive with it."""
    return parse_program(f"""\
wrapperir 1

program @main(%x: {word} f32[64]) {{
  %a = allocate f32[16]
  extern_kernel aten.sum.IntList_out(%x, [0], true, out = %a) writes(%a)
  free %x
  %b = allocate f32[64]
  extern_kernel aten.fill_.Scalar(%b, 1) writes(%b)
  %c = extern_kernel aten.add.Tensor(%a, %b) : f32[64]
  free %a
  free %b
  %d = extern_kernel aten.neg.default(%c) : f32[64]
  free %c
  return %d
}}
""")


def test_a_pool_does_not_begin_beside_a_donated_input_that_is_freed_later() -> None:
    program = backward_like("donated")
    assert peak(program) == 256 + 64 + 256
    assert peak(plan_memory(program)) == peak(program)
    # Of another input it is not known whether anything is released.
    assert placements(plan_memory(backward_like("")).lines)
