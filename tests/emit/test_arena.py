"""Which storages have a place in the arena, and that they do not overlap."""

import itertools
import time

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.cpp_emitter.moved import on_gpu
from tests.cpp_emitter.running import parsed
from tests.draws import draws
from wrapperir.analysis import (
    StorageKind,
    analyze_memory,
    find_storages,
    program_entry,
    storage_bytes,
)
from wrapperir.emit.arena import Region, plan_arena
from wrapperir.ir import CPU, Device, Program
from wrapperir.ir.line_effects import LineEffects
from wrapperir.passes import use_out_variants
from wrapperir.testing import programs
from wrapperir.testing.pass_check import behaviour


def placed(lines: str, outputs: str = "") -> dict[str, int]:
    """Return the names that have a place, with their offsets."""
    head = (
        "program @main(%x: f32[s0, 8], %m: f32[8, 8]) {\n  symbol s0: int = size(%x, 0)\n"
    )
    program = parsed(f"{head}{lines}\n  return {outputs}".rstrip() + "\n}\n")
    return dict(plan_arena(program, frozenset()).offsets)


def test_what_is_not_alive_together_shares_bytes() -> None:
    offsets = placed(
        """
        %a = allocate f32[64]
        extern_kernel aten.fill_.Scalar(%a, 1.0) writes(%a)
        %b = allocate f32[64]
        free %a
        %c = allocate f32[64]
        free %b
        free %c
        """
    )
    assert offsets["a"] == offsets["c"] != offsets["b"]


def test_what_outlives_the_call_or_has_no_fixed_size_is_elsewhere() -> None:
    offsets = placed(
        """
        %a = allocate f32[64]
        %v = reinterpret %a as f32[8]
        free %a
        %b = allocate f32[s0]
        free %b
        %p = allocate_pool pool[512]
        %q = place pool[256] in %p at 0
        free %p
        %c = place f32[8] in %q at 0
        free %q
        %d = allocate f32[8] {pinned}
        free %d
        %e = allocate f32[8]
        free %e
        """,
        "%v, %c",
    )
    assert set(offsets) == {"e"}


def test_a_pool_with_places_that_only_the_run_knows_is_elsewhere() -> None:
    offsets = placed(
        """
        %p = allocate_pool pool[4096]
        %a = place f32[8] in %p at s0 * 64
        free %a
        free %p
        %q = allocate_pool pool[4096]
        %r = subgraph_call @inner(%q, s0) : i64 {
          body (%b: pool[4096], %n: i64) {
            symbol_definition k: int = value(%n)
            %c = place f32[8] in %b at min(k, 2) * 64
            free %c
            return 1
          }
        }
        free %q
        """,
        "%r",
    )
    assert offsets == {}


def test_what_an_operator_looks_past_is_elsewhere() -> None:
    offsets = placed(
        """
        %a = allocate f32[64]
        extern_kernel aten.fill_.Scalar(%a, 1.0) writes(%a)
        %r = subgraph_call @inner(%a) : f32[2] {
          body (%b: f32[64]) {
            %c = extern_kernel aten.as_strided.default(%b, [2], [1], 4) aliases(%b) : f32[2]
            %d = extern_kernel aten.clone.default(%c) : f32[2]
            free %c
            return %d
          }
        }
        free %a
        """,
        "%r",
    )
    assert offsets == {}


def test_buffers_of_blocks_have_places_beside_those_around_them() -> None:
    offsets = placed(
        """
        %a = allocate f32[64]
        extern_kernel aten.fill_.Scalar(%a, 1.0) writes(%a)
        %r = conditional s0 > 3 (%a) : f32[64] {
          true (%b: f32[64]) {
            %c = allocate f32[64]
            extern_kernel aten.neg.out(%b, out = %c) writes(%c)
            %d = extern_kernel aten.clone.default(%c) : f32[64]
            free %c
            return %d
          }
          false (%e: f32[64]) {
            %f = allocate f32[64]
            extern_kernel aten.neg.out(%e, out = %f) writes(%f)
            return %f
          }
        }
        free %a
        """,
        "%r",
    )
    assert offsets["a"] != offsets["c"]
    assert "f" not in offsets


def test_places_are_aligned_and_workspaces_of_the_program_kept() -> None:
    head = "program @main() {\n"
    program = parsed(
        head
        + """
        %w = allocate i32[3] workspace(zero_per_program)
        %a = allocate f32[8] {align = 1024}
        free %a
        %b = allocate f32[8]
        free %b
        return
        }
        """
    )
    plan = plan_arena(program, frozenset())
    region = plan.regions[CPU]
    assert region.alignment == 1024
    assert plan.offsets["a"] % 1024 == 0
    assert region.zeroed == ((plan.offsets["w"], 12),)
    assert plan.offsets["w"] not in (plan.offsets["a"], plan.offsets["b"])


@given(programs())
def test_no_two_storages_that_live_together_share_a_byte(program: Program) -> None:
    effects = LineEffects.of_program(program)
    entry = program_entry(program)
    found = find_storages(program.lines, program.outputs, entry, effects)
    plan = plan_arena(program, frozenset())
    spans: list[tuple[int, int, int, int]] = []
    for storage in found.storages:
        offset = plan.offsets.get(storage.name)
        if offset is None:
            continue
        assert not storage.escapes
        bytes = storage_bytes(storage.type)
        assert isinstance(bytes, int)
        assert offset + bytes <= plan.regions[CPU].bytes
        kept = storage.kind is StorageKind.PROGRAM
        begin = 0 if kept else storage.begin
        spans.append((begin, storage.end, offset, offset + bytes))
    for index, (begin, end, low, high) in enumerate(spans):
        for other in spans[:index]:
            together = begin < other[1] and other[0] < end
            assert not (together and low < other[3] and other[2] < high)


def test_places_do_not_depend_on_how_long_planning_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The first order that is tried is not the best one here.
    live: list[int] = []
    lines: list[str] = []
    for number in range(60):
        lines.append(f"%b{number} = allocate f32[{16 * (number * 37 % 3 + 1)}]")
        live.append(number)
        if len(live) > 5:
            lines.append(f"free %b{live.pop(number * 7 % 5)}")
    lines += [f"free %b{number}" for number in live]
    at_once = placed("\n".join(lines))
    clock = itertools.count(step=1000.0)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    assert placed("\n".join(lines)) == at_once


def test_a_block_on_a_gpu_raises_no_peak() -> None:
    found = 0

    @settings(max_examples=draws(60, fuzz=300), phases=[Phase.generate], derandomize=True)
    @given(programs(streams=False, pools=False), st.integers(0, 9))
    def check(program: Program, seed: int) -> None:
        nonlocal found
        symbols = behaviour(program, seed=seed).symbols
        program = on_gpu(use_out_variants(program))
        memory = analyze_memory(program, symbols).top
        plan = plan_arena(program, frozenset({"cuda"}))
        region = plan.regions.get(Device("cuda"), Region(0, 1))
        live = list(memory.live)
        for storage, bytes in zip(memory.storages, memory.bytes, strict=True):
            is_kept = storage.name in plan.kept_names
            if storage.name in plan.offsets and not is_kept:
                assert region.begin <= storage.begin <= storage.end <= region.end
                for line in range(storage.begin, storage.end):
                    live[line] -= bytes
        for line in range(region.begin, region.end):
            live[line] += region.bytes
        assert max(live, default=0) <= memory.peak
        found += bool(region.bytes)

    check()
    assert found
