"""Graph regions of emitted C++ on a GPU: what is replayed is what would have run."""

import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.python_emitter.test_regions import LAYER
from tests.python_emitter.test_streams import REGION
from wrapperir.text import parse_program
from wrapperir_cpp.emitter import CppEmitter

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.skipif(torch.version.hip is not None, reason="needs the CUDA driver"),
]


def loaded(text: str, device: int = 0, **constants: torch.Tensor) -> Any:
    emitter = CppEmitter()
    program = parse_program(text.replace("cuda:0", f"cuda:{device}"))
    return emitter.load(emitter.emit(program), constants)


def layer(device: int = 0) -> tuple[Any, Callable[..., Any]]:
    """Return the program of a layer, and its meaning."""
    c = torch.randn(64, device=f"cuda:{device}")

    def wanted(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        sum = torch.mm(x, w) + c
        return torch.relu(sum), sum

    return loaded(LAYER, device, c=c), wanted


def given(size: int, device: int = 0) -> list[torch.Tensor]:
    return [torch.randn(n, 64, device=f"cuda:{device}") for n in (size, 64)]


def same(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


@pytest.fixture(autouse=True)
def _is_silent(capfd: pytest.CaptureFixture[str]) -> Any:
    """Nothing is said: each region is recorded."""
    yield
    assert "is not replayed" not in capfd.readouterr().err


def test_replays_of_moved_operands_of_many_sizes_over_a_thousand_calls() -> None:
    call, wanted = layer()
    kept: list[Any] = []
    for number in range(1000):
        inputs = given((8, 64, 33, 8)[number % 4])
        copies = [x.clone() for x in inputs]
        kept.append((call(list(inputs)), wanted(*copies)))
        if number % 7 == 0:
            kept.append(torch.empty(number * 100 + 1, device="cuda"))
        if number % 50 == 49:  # what a caller keeps stays as it is
            for pair in kept:
                if isinstance(pair, tuple):
                    same(*pair)
            kept.clear()


def test_a_replay_is_one_launch() -> None:
    call, _ = layer()
    inputs = given(16)
    for _ in range(4):
        call(list(inputs))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as found:
        call(list(inputs))
    names = [event.name for event in found.events()]
    assert not any("mm" in name or "relu" in name for name in names), names


def test_threads_on_streams_of_their_own() -> None:
    call, wanted = layer()
    faults: list[BaseException] = []

    def work() -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
                for _ in range(100):
                    inputs = given(16)
                    same(call(list(inputs)), wanted(*inputs))
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


def test_a_region_in_a_graph_of_the_caller_s_is_captured_there() -> None:
    call, wanted = layer()
    inputs = given(16)
    for _ in range(3):
        call(list(inputs))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = call(list(inputs))
    for x in inputs:
        x.copy_(torch.randn_like(x))
    graph.replay()
    same(found, wanted(*inputs))


def test_nothing_leaks() -> None:
    def use() -> None:
        call, _ = layer()
        for size in (8, 8, 16, 16, 8, 16):
            call(given(size))

    use()
    for _ in range(2):
        gc.collect()
        torch.cuda.synchronize()
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        for _ in range(3):
            use()
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    assert (torch.cuda.memory_allocated(), torch.cuda.memory_reserved()) == before


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_a_program_of_the_second_gpu() -> None:
    call, wanted = layer(1)
    for size in (8, 8, 16, 8, 16, 16):
        inputs = given(size, 1)
        same(call(list(inputs)), wanted(*inputs))


@pytest.mark.parametrize("own", [1, 0])
def test_streams_that_fork_and_join_are_replayed(own: int) -> None:
    text = REGION.replace("stream(1)", f"stream({own})")
    call = loaded(text.replace("f32[8]", "f32[1000, 1000]"))
    for _ in range(50):
        x = torch.randn(1000, 1000, device="cuda")
        (found,) = call([x])
        torch.full_like(x, torch.nan)
        same(found, x.neg().abs() + x.neg())


MIDDLE = """\
wrapperir 1

program @NAME(%x: f32[4194304]@cuda:0) {
  %out = allocate f32[4194304]@cuda:0
  graph_region @squares (%x, %out) @cuda:0 {
    body (%p: f32[4194304]@cuda:0, %o: f32[4194304]@cuda:0) {
      %t = allocate f32[4194304]@cuda:0
      extern_kernel aten.mul.out(%p, %p, out = %t) writes(%t) @cuda:0
      extern_kernel aten.add.out(%t, %p, alpha = 1, out = %o) writes(%o) @cuda:0
      free %t
      return
    }
  }
  return %out
}
"""


def test_libraries_share_the_memory_of_captures() -> None:
    x = torch.randn(4194304, device="cuda")
    calls = [loaded(MIDDLE.replace("NAME", name)) for name in ("first", "second")]
    reserved: list[int] = []
    for call in calls:
        for _ in range(4):
            same(call([x]), (x * x + x,))
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        reserved.append(torch.cuda.memory_reserved())
    assert reserved[0] == reserved[1]
