"""The measures of the memory table, and a small model held to them."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.memory.allocator_events import call_memory, measure
from bench.memory.lower_bound import buffer_lifetimes, lower_bound, round_up
from bench.memory.model_calls import measure_ours
from bench.memory.planned import planned_memory
from bench.model_run import ModelTask, max_error, run_step
from wrapperir.passes import MEMORY_PASSES
from wrapperir.text import parse_program

PROGRAM = """\
wrapperir 1

program @main(%x: f32[16, 16], %w: f32[16, 16]) {
  %a = allocate f32[16, 16]
  extern_kernel aten.mm.out(%x, %w, out = %a) writes(%a)
  %b = allocate f32[16, 16]
  extern_kernel aten.mm.out(%a, %w, out = %b) writes(%b)
  %c = reuse %a as f32[8, 16]
  %head = reinterpret %b as f32[8, 16]
  extern_kernel aten.mm.out(%head, %w, out = %c) writes(%c)
  free %head
  free %b
  %d = extern_kernel aten.relu.default(%c) : f32[8, 16]
  free %c
  return %d
}
"""
POOLED = """\
wrapperir 1

program @main(%x: f32[16, 16], %w: f32[16, 16]) {
  %pool = allocate_pool pool[2048]
  %a = place f32[16, 16] in %pool at 0
  extern_kernel aten.mm.out(%x, %w, out = %a) writes(%a)
  %b = place f32[16, 16] in %pool at 1024
  free %pool
  extern_kernel aten.mm.out(%a, %w, out = %b) writes(%b)
  free %a
  %c = extern_kernel aten.relu.default(%b) : f32[16, 16]
  free %b
  %d = extern_kernel aten.relu.default(%c) : f32[16, 16]
  free %c
  return %d
}
"""


def test_lower_bound_counts_what_is_alive_together() -> None:
    program = parse_program(PROGRAM)
    bound = lower_bound(program)
    assert bound.bytes == 2048
    assert {life.name for life in bound.alive} == {"a", "b"}


def test_reuse_that_is_only_written_begins_a_buffer_of_its_own_size() -> None:
    lives = {life.name: life for life in buffer_lifetimes(parse_program(PROGRAM))}
    assert lives["c"].bytes == 512
    assert lives["a"].end < lives["c"].begin
    assert lives["d"].output


def test_pools_are_held_whole_until_their_last_placement_is_dropped() -> None:
    memory = planned_memory(parse_program(POOLED))
    assert memory.height == 2048 + 1024
    assert (memory.placed, memory.outside) == (2048, 2048)


def test_a_donated_input_is_held_until_it_is_freed() -> None:
    text = PROGRAM.replace("%x: f32", "%x: donated f32")
    assert planned_memory(parse_program(text)).height == 3 * 1024
    text = text.replace("  %b = allocate", "  free %x\n  %b = allocate")
    assert planned_memory(parse_program(text)).height == 2 * 1024


def test_a_reused_buffer_is_held_as_large_as_it_was() -> None:
    memory = planned_memory(parse_program(PROGRAM))
    assert memory.height == 2 * 1024
    assert (memory.placed, memory.outside) == (0, 2 * 1024 + 2 * 512)


@given(st.lists(st.integers(1, 1000)))
def test_call_memory_of_nested_allocations(sizes: list[int]) -> None:
    blocks = list(enumerate(sizes))
    frees = [(address, -size) for address, size in reversed(blocks)]
    memory = call_memory([*blocks, *frees])
    assert memory.peak == sum(round_up(size) for size in sizes)
    assert memory.kept == 0
    assert memory.allocations == len(sizes)


def test_a_call_that_frees_what_an_earlier_one_allocated() -> None:
    kept, _ = measure(lambda: [torch.empty(1000)])

    def call() -> torch.Tensor:
        kept.clear()
        return torch.empty(500)

    _, memory = measure(call)
    assert memory.peak == memory.kept == round_up(2000)


def test_measure_sees_what_a_call_frees_again() -> None:
    before = torch.zeros(1000)

    def call() -> torch.Tensor:
        scratch = torch.empty(256)
        del scratch
        return torch.empty(16) + before[0]

    result, memory = measure(call)
    assert memory.kept == round_up(result.untyped_storage().nbytes())
    assert memory.peak >= 1024
    assert memory.allocations >= 3


def _layers() -> torch.nn.Module:
    widths = [(64, 256), (256, 64), (64, 128), (128, 32)]
    layers = [
        torch.nn.Sequential(torch.nn.Linear(a, b), torch.nn.GELU(), torch.nn.LayerNorm(b))
        for a, b in widths
    ]
    return torch.nn.Sequential(*layers)


def test_a_planned_model_takes_its_lower_bound() -> None:
    task = ModelTask(
        name="layers", model=_layers, inputs=lambda: {"input": torch.ones(32, 64)}
    )
    run = measure_ours(task, MEMORY_PASSES)
    (program,) = run.programs
    bound = lower_bound(program.captured).bytes
    assert program.memory.peak <= 1.02 * bound
    planned = planned_memory(program.planned)
    assert planned.height == bound
    assert planned.placed > 0
    torch.manual_seed(0)
    model = task.model()
    expected = run_step(model, model, task.inputs(), training=False)
    assert max_error(expected, run.outputs) < 1e-5
