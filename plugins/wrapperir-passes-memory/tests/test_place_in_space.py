"""The pass ``place_in_space``: buffers of kernels in a memory space of limited size."""

from collections.abc import Callable
from importlib import import_module

import pytest
import torch
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

import scratchpad_emitter
from kernel_programs import kernel_programs
from scratchpad_emitter import CAPACITY, SPACE, ScratchpadEmitter
from wrapperir import ir, run_passes
from wrapperir.analysis import Storage, StreamOrder
from wrapperir.emit import compile_program
from wrapperir.frontend.inductor import capture
from wrapperir.interp import interpret
from wrapperir.ir.line_effects import uses, value_types
from wrapperir.planning import Buffer
from wrapperir.testing import programs
from wrapperir.testing.inputs import difference
from wrapperir.testing.pass_check import behaviour
from wrapperir.text import parse_program
from wrapperir.verify import verify
from wrapperir_memory_passes import place_in_space

MODULE = import_module("wrapperir_memory_passes.place_in_space")
PARTS = (ir.FreeLine, ir.KernelCallLine, ir.PlaceLine, ir.ReinterpretLine, ir.ReuseLine)


def placed(program: ir.Program, capacity: int) -> ir.Program:
    return place_in_space(program, device="cpu", space=SPACE, capacity=capacity)


def faults(before: ir.Program, after: ir.Program, capacity: int) -> list[str]:
    """Return what is wrong with the result of the pass."""
    old = behaviour(before)
    new = behaviour(after, old.symbols)
    found = [*new.faults]
    values = zip(old.values, new.values, strict=not found)
    found += [wrong for a, b in values if (wrong := difference(b, a)) is not None]
    pools = [line.type for line in after.lines if isinstance(line, ir.AllocatePoolLine)]
    if len(pools) > 1 or any(pool.size > capacity for pool in pools):
        found.append(f"pools of {[pool.size for pool in pools]} bytes in {capacity}")
    types = value_types(after)
    for line in after.lines:
        if not isinstance(line, PARTS):
            inside = [n for n in uses(line) if getattr(types[n], "space", "") == SPACE]
            found += [f"%{name} is used by {ir.keyword(line)}" for name in inside]
    return found


CAPACITIES = st.integers(0, 10).map(lambda units: units * 128)


@settings(max_examples=50, deadline=None)
@given(kernel_programs(), CAPACITIES)
def test_programs_of_kernels(program: ir.Program, capacity: int) -> None:
    after = placed(program, capacity)
    assert faults(program, after, capacity) == []
    assert placed(after, capacity) == after or after == program


@settings(max_examples=25, deadline=None)
@given(programs(languages=(ir.Language.CPP,), pools=False), CAPACITIES)
def test_programs_of_every_line_kind(program: ir.Program, capacity: int) -> None:
    assert faults(program, placed(program, capacity), capacity) == []


def too_short(storage: Storage, order: StreamOrder) -> Buffer:
    """Forget all uses of a buffer."""
    return Buffer(128, storage.begin, storage.begin + 1, 128)


def without_streams(storage: Storage, order: StreamOrder) -> Buffer:
    """Forget that other streams may still use a buffer that is freed."""
    size = -(-ir.storage_extent(storage.type) * 4 // 128) * 128
    return Buffer(size, storage.begin, storage.end, 128)


@pytest.mark.parametrize("planted", [too_short, without_streams])
def test_a_wrong_live_range_is_found(
    planted: Callable[[Storage, StreamOrder], Buffer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MODULE, "_live_range", planted)
    find(
        kernel_programs(),
        lambda program: bool(faults(program, placed(program, 512), 512)),
        settings=settings(max_examples=500, deadline=None, phases=[Phase.generate]),
    )


SPILLED = """\
wrapperir 1

kernel_definition @f opaque(x: read f32*, y: write f32*) {
  entry = f
  source {
    | copies 64 elements
  }
}

program @main(%x: f32[64]) {
  %long = allocate f32[64]
  kernel_call @f(%x, %long)
  %short = allocate f32[64]
  kernel_call @f(%x, %short)
  free %x
  %next = allocate f32[64]
  kernel_call @f(%short, %next)
  free %short
  %y = allocate f32[64]
  kernel_call @f(%next, %y)
  free %next
  kernel_call @f(%long, %y)
  free %long
  return %y
}
"""


def test_the_buffer_that_lives_longest_stays_outside() -> None:
    program = parse_program(SPILLED)
    for capacity, wanted in [
        (255, set()),
        (256, {"short"}),
        (512, {"short", "next"}),
        (768, {"long", "short", "next"}),
    ]:
        after = placed(program, capacity)
        lines = [line for line in after.lines if isinstance(line, ir.PlaceLine)]
        assert {line.result for line in lines} == wanted
        assert verify(after) == ()


def test_only_the_device_that_is_named_has_a_pool() -> None:
    program = parse_program(SPILLED)
    other = place_in_space(program, device="cuda:0", space=SPACE, capacity=1024)
    assert other == program


def normalized(x: torch.Tensor) -> torch.Tensor:
    by_column = torch.softmax(x, 0)
    shares = torch.softmax(by_column, 1)
    sums = (shares / shares.sum(0)).cumsum(0)
    mixed = torch.softmax(sums + by_column, 0)
    return torch.layer_norm(mixed @ x.T, (64,))


@pytest.fixture(scope="module")
def captured() -> ir.Program:
    (lowered,) = capture(normalized, (torch.rand(64, 64),))
    return run_passes(lowered.program, ["insert_frees", "free_early", "use_out_variants"])


def test_a_captured_function(captured: ir.Program) -> None:
    after = placed(captured, CAPACITY)
    assert verify(after) == ()
    given = torch.rand(64, 64)
    (wanted,) = interpret(captured, [given], {})
    (got,) = interpret(after, [given], {})
    assert difference(got, wanted) is None
    torch.testing.assert_close(got, normalized(given))
    found = [line for line in after.lines if isinstance(line, ir.PlaceLine)]
    assert len(found) > len({line.offset for line in found}) > 5
    assert any(isinstance(line, ir.AllocateLine) for line in after.lines)


def test_an_emitter_puts_the_pool_in_its_scratchpad(captured: ir.Program) -> None:
    after = placed(captured, CAPACITY)
    scratchpad_emitter.sizes.clear()
    given = torch.rand(64, 64)
    run = compile_program(after, emitter=ScratchpadEmitter())
    for _ in range(2):
        (got,) = run([given])
        torch.testing.assert_close(got, normalized(given))
    (pool,) = [line.type for line in after.lines if isinstance(line, ir.AllocatePoolLine)]
    assert scratchpad_emitter.sizes == [pool.size, pool.size]
    assert not scratchpad_emitter.live
