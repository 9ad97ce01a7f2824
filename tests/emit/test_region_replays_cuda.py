"""Graph regions on a GPU: replays of each emitter compute what the block would have."""

import gc
import threading
import warnings
from collections.abc import Callable, Generator
from typing import Any

import pytest
import torch

from tests.python_emitter.test_regions import LAYER
from tests.python_emitter.test_streams import REGION
from wrapperir.emit import Emitter
from wrapperir.ir import Device, Language, SizeOf, Symbol, tensor
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.testing.kernels import KernelKind, library_kernel
from wrapperir.text import format_program, parse_program
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_python.emitter import PythonEmitter

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.skipif(torch.version.hip is not None, reason="needs the CUDA driver"),
    pytest.mark.parametrize(
        "emitter", [PythonEmitter(), CppEmitter()], ids=lambda emitter: emitter.name
    ),
]


@pytest.fixture(autouse=True)
def take_reports(capfd: pytest.CaptureFixture[str]) -> Generator[Callable[[], list[str]]]:
    """Return a function that takes the reports of regions that could not be recorded.

    A test fails that leaves one: each region is recorded.
    """
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")

        def take() -> list[str]:
            found = [str(warning.message) for warning in seen]
            found += capfd.readouterr().err.splitlines()
            seen.clear()
            return [
                line.removeprefix("wrapperir: ")
                for line in found
                if "is not replayed as a graph" in line
            ]

        yield take
        assert take() == []


def loaded(emitter: Emitter, text: str, device: int = 0, **constants: torch.Tensor) -> Any:
    program = parse_program(text.replace("cuda:0", f"cuda:{device}"))
    return emitter.load(emitter.emit(program), constants)


def layer(emitter: Emitter, device: int = 0) -> tuple[Any, Callable[..., Any]]:
    """Return the program of a layer, and its meaning."""
    c = torch.randn(64, device=f"cuda:{device}")

    def wanted(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        sum = torch.mm(x, w) + c
        return torch.relu(sum), sum

    return loaded(emitter, LAYER, device, c=c), wanted


def has_recordings(call: Any, count: int, region: str = "layer") -> bool:
    """Return whether a region keeps so many recordings; emitted C++ does not tell."""
    scope = getattr(call, "__globals__", {})
    return region not in scope or scope[region].count() == count


def given(size: int, device: int = 0) -> list[torch.Tensor]:
    return [torch.randn(n, 64, device=f"cuda:{device}") for n in (size, 64)]


def same(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


def test_replays_of_moved_operands_of_many_sizes_over_a_thousand_calls(
    emitter: Emitter,
) -> None:
    call, wanted = layer(emitter)
    kept: list[Any] = []
    for number in range(1000):
        inputs = given((8, 64, 33, 8)[number % 4])
        copies = [x.clone() for x in inputs]
        found = call(list(inputs))
        kept.append((found, wanted(*copies)))
        if number % 7 == 0:
            kept.append(torch.empty(number * 100 + 1, device="cuda"))
        if number % 50 == 49:  # what a caller keeps stays as it is
            for pair in kept:
                if isinstance(pair, tuple):
                    same(*pair)
            kept.clear()
    assert has_recordings(call, 3)


def test_a_replay_is_one_launch(emitter: Emitter) -> None:
    call, _ = layer(emitter)
    inputs = given(16)
    for _ in range(4):
        call(list(inputs))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as found:
        call(list(inputs))
    names = [event.name for event in found.events()]
    assert not any("mm" in name or "relu" in name for name in names), names


def test_the_recordings_used_last_are_kept(emitter: Emitter) -> None:
    call, wanted = layer(emitter)
    for size in (8, 16, 24, 32, 40, 48, 40, 48, 8):
        for _ in range(3):
            inputs = given(size)
            same(call(list(inputs)), wanted(*inputs))
    assert has_recordings(call, 4)


def test_threads_on_streams_of_their_own(emitter: Emitter) -> None:
    call, wanted = layer(emitter)
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
    assert has_recordings(call, 4)


def test_a_region_in_a_graph_of_the_caller_s_is_captured_there(emitter: Emitter) -> None:
    call, wanted = layer(emitter)
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


def settle(emitter: Emitter) -> tuple[int, int]:
    """Return the bytes that are allocated and reserved when all work has ended."""
    gc.collect()
    torch.cuda.synchronize()
    if isinstance(emitter, CppEmitter):  # emitted Python does so after a capture
        torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    return torch.cuda.memory_allocated(), torch.cuda.memory_reserved()


def test_nothing_leaks(emitter: Emitter) -> None:
    def use() -> None:
        call, _ = layer(emitter)
        for size in (8, 8, 16, 16, 8, 16):
            call(given(size))

    use()
    for _ in range(2):
        before = settle(emitter)
        for _ in range(3):
            use()
    assert settle(emitter) == before


def test_a_capture_that_fails_is_said_once_and_loses_nothing(
    emitter: Emitter, take_reports: Callable[[], list[str]]
) -> None:
    text = LAYER.replace(
        "      return %u",
        "      %n = extern_kernel aten.nonzero.default(%u) @cuda:0 : i64[64*s0, 2]@cuda:0\n"
        "      free %n\n      return %u",
    )
    c = torch.randn(64, device="cuda")
    call = loaded(emitter, text, c=c)
    before = torch.randn(4, device="cuda")
    for _ in range(4):
        x, w = given(16)
        same(call([x, w]), (torch.relu(x @ w + c), x @ w + c))
    (said,) = take_reports()
    assert said.startswith("layer is not replayed as a graph: ")
    # PyTorch's generator and allocator work on, and another region is recorded.
    assert torch.randn_like(before).shape == before.shape
    other, wanted = layer(emitter)
    for _ in range(4):
        inputs = given(16)
        same(other(list(inputs)), wanted(*inputs))
    assert has_recordings(other, 1)


ROUND = """\
wrapperir 1

program @main(%x: f32[64]@cuda:0, %y: mutated f32[64]@cuda:0) {
  graph_region @step (%x, %y) @cuda:0 {
    body (%p: f32[64]@cuda:0, %q: f32[64]@cuda:0) {
      extern_kernel aten.add.out(%q, %p, alpha = 1, out = %q) writes(%q) @cuda:0
      return
    }
  }
  return
}
"""


def test_mutated_inputs_are_written_where_they_are(emitter: Emitter) -> None:
    call = loaded(emitter, ROUND)
    for _ in range(10):
        x, y = (torch.randn(64, device="cuda") for _ in range(2))
        wanted = x + y
        assert tuple(call([x, y])) == ()
        same(y, wanted)


def test_weights_may_move(emitter: Emitter) -> None:
    call, wanted = layer(emitter)
    x, w = given(16)
    for _ in range(4):
        same(call([x, w]), wanted(x, w))
    w = w.clone() * 2
    for _ in range(4):
        same(call([x, w]), wanted(x, w))


def test_views_and_empty_tensors(emitter: Emitter) -> None:
    call, wanted = layer(emitter)
    base = torch.randn(100, 64, device="cuda")
    w = torch.randn(64, 64, device="cuda")
    for begin in (0, 3, 7, 50, 1, 2):
        for _ in range(2):
            x = base[begin : begin + 8]
            same(call([x, w]), wanted(x, w))


def test_triton_kernels_of_any_alignment(emitter: Emitter) -> None:
    on = Device("cuda", 0)
    x = tensor("f32", (Symbol("s0"),), device=on)
    b = ProgramBuilder()
    inputs = [b.input(x), b.input(x)]
    b.symbol("s0", SizeOf(inputs[0].name, 0), lower=1, upper=1 << 20)
    add = b.kernel(library_kernel(KernelKind.ADD, Language.TRITON))
    out = b.allocate(x)
    b.call(add, *inputs, out, Symbol("s0"), device=on)
    text = format_program(b.build(out))
    (line,) = [line for line in text.splitlines() if "kernel_call" in line]
    names = ", ".join(f"%{value.name}" for value in (*inputs, out))
    block = ", ".join(f"%{value.name}_: f32[s0]@cuda:0" for value in (*inputs, out))
    inner = line
    for value in (*inputs, out):
        inner = inner.replace(f"%{value.name}", f"%{value.name}_")
    region = (
        f"  graph_region @adding ({names}) @cuda:0 {{\n    body ({block}) {{\n"
        f"    {inner}\n      return\n    }}\n  }}"
    )
    call = loaded(emitter, text.replace(line, region))
    for size in (64, 33):
        for shift in (0, 1, 4, 0, 1, 4, 0, 1):
            given = torch.randn(size + shift).cuda()[shift:], torch.randn(size).cuda()
            same(call(list(given)), (given[0] + given[1],))


@pytest.mark.parametrize("own", [1, 0])
def test_streams_that_fork_and_join_are_replayed(emitter: Emitter, own: int) -> None:
    text = REGION.replace("stream(1)", f"stream({own})")
    call = loaded(emitter, text.replace("f32[8]", "f32[1000, 1000]"))
    for _ in range(50):
        x = torch.randn(1000, 1000, device="cuda")
        (found,) = call([x])
        torch.full_like(x, torch.nan)
        same(found, x.neg().abs() + x.neg())
    assert has_recordings(call, 1, "region")


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


def test_programs_share_the_memory_of_captures(emitter: Emitter) -> None:
    x = torch.randn(4194304, device="cuda")
    calls = [loaded(emitter, MIDDLE.replace("NAME", name)) for name in ("first", "second")]
    reserved: list[int] = []
    for call in calls:
        for _ in range(4):
            same(call([x]), (x * x + x,))
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        reserved.append(torch.cuda.memory_reserved())
    assert reserved[0] == reserved[1]


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_regions_on_two_gpus(emitter: Emitter) -> None:
    text = LAYER.replace("cuda:0", "cuda:1").replace("%x:", "%first: f32[8]@cuda:0, %x:", 1)
    neg = "  %f = extern_kernel aten.neg.default(%first) @cuda:0 : f32[8]@cuda:0\n"
    text = text.replace("\n  %out = ", f"\n{neg}  %out = ").replace(
        "return %o", "return %f, %o"
    )
    c = torch.randn(64, device="cuda:1")
    call = loaded(emitter, text, c=c)
    for _ in range(20):
        first, (x, w) = torch.randn(8, device="cuda:0"), given(16, 1)
        assert torch.cuda.current_device() == 0
        found = call([first, x, w])
        assert torch.cuda.current_device() == 0
        same(found, (-first, torch.relu(x @ w + c), x @ w + c))
    assert has_recordings(call, 1)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_on_another_gpu(emitter: Emitter) -> None:
    call, wanted = layer(emitter, 1)
    for size in (8, 8, 16, 8, 16, 16):
        inputs = given(size, 1)
        same(call(list(inputs)), wanted(*inputs))
    assert has_recordings(call, 2)
