"""Many calls, and calls from several threads, keep their memory and their results."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.cpp_emitter.running import assert_same, load, parsed
from wrapperir.emit import Loaded
from wrapperir.interp import interpret
from wrapperir_cpp.emitter import CppEmitter

# Slots, views of slots, tensors that frames have ready, operators by every way of calling
# them, tuples, blocks, and memory that is zero.
EVERYTHING = """
program @main(%x: f32[8, 8], %n: i64) {
  symbol n: int 0..9 = value(%n)
  constant %w: f32[8, 8] = "w"
  %a = allocate f32[8, 8]
  extern_kernel aten.mm.out(%x, %w, out = %a) writes(%a)
  %zeros = allocate f32[8] workspace(zero_on_call)
  %semaphores = allocate f32[8] workspace(zero_per_program)
  %sized = allocate f32[n + 1, 8] workspace(zero_on_call)
  %added = extern_kernel aten.add.Tensor(%a, %zeros) : f32[8, 8]
  %both = extern_kernel aten.max.dim(%added, 1) : (f32[8], i64[8])
  %most = multi_output %both[0] : f32[8]
  free %both
  %row = reinterpret %added as f32[8; offset 8]
  %total = extern_kernel aten.add.Tensor(%row, %semaphores) : f32[8]
  free %row
  free %zeros
  %reused = reuse %added as f32[64]
  %flat = extern_kernel aten.relu.default(%reused) : f32[64]
  free %reused
  free %a
  %chosen = conditional n > 4 (%flat) : f32[64] {
    true (%p: f32[64]) {
      %c = extern_kernel aten.neg.default(%p) : f32[64]
      return %c
    }
    false (%q: f32[64]) {
      %d = extern_kernel aten.abs.default(%q) : f32[64]
      return %d
    }
  }
  free %flat
  %looped, %count = while_loop (%most, 0) (%total) : f32[8], i64 {
    condition (%s: f32[8], %i: i64, %t: f32[8]) {
      symbol_definition i: int = value(%i)
      return i < n
    }
    body (%u: f32[8], %j: i64, %v: f32[8]) {
      symbol_definition j: int = value(%j)
      %z = extern_kernel aten.add.Tensor(%u, %v) : f32[8]
      return %z, j + 1
    }
  }
  free %most
  assert_scalar n != 9 "it is nine"
  return %chosen, %looped, %sized, %total, %count
}
"""
CALLS = 100_000


def resident_bytes() -> int:
    """Return how much memory this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def least_growth(call: Callable[[], object], count: int) -> float:
    """Return by how many bytes a call grows the process, in the best of some batches.

    What leaks does so in each batch; caches that fill and memory that an allocator keeps
    do not.
    """
    growths: list[float] = []
    for _ in range(4):
        before = resident_bytes()
        for _ in range(count):
            call()
        growths.append((resident_bytes() - before) / count)
    return min(growths)


def constants() -> dict[str, torch.Tensor]:
    return {"w": torch.arange(64.0).reshape(8, 8) % 5 - 2}


@pytest.fixture(scope="module")
def everything() -> Loaded:
    return load(parsed(EVERYTHING), constants())


def test_memory_stays_as_it_is_over_many_calls(everything: Loaded) -> None:
    x = torch.arange(64.0).reshape(8, 8) % 7
    for n in (0, 2, 6):
        outputs = everything([x, n])
        assert_same(outputs, interpret(parsed(EVERYTHING), [x, n], constants()))
    # Not even eight bytes a call.
    assert least_growth(lambda: everything([x, 2]), CALLS // 4) < 8


@pytest.mark.slow
@pytest.mark.parametrize(("n", "message"), [(9, "it is nine"), (10, "but received 10")])
def test_failing_calls_keep_nothing(everything: Loaded, n: int, message: str) -> None:
    x = torch.zeros(8, 8)

    def fail() -> None:
        found = ""
        try:  # so often, pytest.raises would take longer than the calls
            everything([x, n])
        except RuntimeError as error:
            found = str(error)
        if message not in found:
            pytest.fail(found)

    for _ in range(2000):
        fail()
    assert least_growth(fail, 5000) < 8


def test_programs_that_are_dropped_keep_nothing() -> None:
    emitter = CppEmitter()
    artifact = emitter.build(emitter.emit(parsed(EVERYTHING)), {})
    x = torch.ones(8, 8)

    def open_and_drop() -> None:
        emitter.load(artifact, constants())([x, 2])

    for _ in range(20):
        open_and_drop()
    assert least_growth(open_and_drop, 60) < 2**13


FRAME = 2**24
OF_THREADS = f"""
program @main(%x: f32[16, 16]) {{
  %a = allocate f32[16, 16]
  extern_kernel aten.mm.out(%x, %x, out = %a) writes(%a)
  %large = allocate u8[{FRAME}] workspace(zero_on_call)
  %b = allocate f32[16, 16]
  extern_kernel aten.mm.out(%a, %x, out = %b) writes(%b)
  extern_kernel aten.mul.out(%a, %b, out = %a) writes(%a)
  free %large
  free %b
  %r = extern_kernel aten.neg.default(%a) : f32[16, 16]
  free %a
  return %r
}}
"""


def test_threads_have_right_results_and_a_frame_each_at_most() -> None:
    count, calls = 4, 100
    call = load(parsed(OF_THREADS), {})
    inputs = [torch.arange(256.0).reshape(16, 16) % (3 + n) for n in range(count)]
    wanted = [-((x @ x) * (x @ x @ x)) for x in inputs]
    assert_same(call([inputs[0]]), [wanted[0]])
    before = resident_bytes()
    wrong: list[int] = []
    together = threading.Barrier(count)

    def run(number: int) -> None:
        together.wait()
        for _ in range(calls):
            (result,) = call([inputs[number]])
            assert isinstance(result, torch.Tensor)
            if not torch.equal(result, wanted[number]):
                wrong.append(number)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    # One frame was there before.
    assert resident_bytes() - before < (count - 1) * FRAME + FRAME // 2
