"""Graph regions of emitted Python on a GPU: what is replayed is what would have run."""

import gc
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from tests.python_emitter.test_regions import LAYER
from tests.python_emitter.test_streams import REGION
from wrapperir.ir import Device, Language, SizeOf, Symbol, tensor
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.testing.kernels import KernelKind, library_kernel
from wrapperir.text import format_program, parse_program
from wrapperir_python.emitter import PythonEmitter

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.skipif(torch.version.hip is not None, reason="needs the CUDA driver"),
]


def loaded(text: str, device: int = 0, **constants: torch.Tensor) -> Any:
    emitter = PythonEmitter()
    program = parse_program(text.replace("cuda:0", f"cuda:{device}"))
    return emitter.load(emitter.emit(program), constants)


def layer(device: int = 0) -> tuple[Any, Callable[..., Any]]:
    """Return the program of a layer, and its meaning."""
    c = torch.randn(64, device=f"cuda:{device}")

    def wanted(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        sum = torch.mm(x, w) + c
        return torch.relu(sum), sum

    return loaded(LAYER, device, c=c), wanted


def region_of(call: Any, name: str = "layer") -> Any:
    return call.__globals__[name]


def given(size: int, device: int = 0) -> list[torch.Tensor]:
    return [torch.randn(n, 64, device=f"cuda:{device}") for n in (size, 64)]


def same(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


def test_replays_of_moved_operands_of_many_sizes_over_a_thousand_calls() -> None:
    call, wanted = layer()
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
    assert region_of(call).count() == 3


def test_the_recordings_used_last_are_kept() -> None:
    call, wanted = layer()
    for size in (1, 2, 3, 4, 5, 6, 5, 6, 1):
        for _ in range(3):
            inputs = given(size)
            same(call(list(inputs)), wanted(*inputs))
    assert region_of(call).count() == 4


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
    assert region_of(call).count() == 4


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
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        for _ in range(3):
            use()
    gc.collect()
    torch.cuda.empty_cache()
    assert (torch.cuda.memory_allocated(), torch.cuda.memory_reserved()) == before


def test_a_capture_that_fails_is_said_once_and_loses_nothing() -> None:
    text = LAYER.replace(
        "      return %u",
        "      %n = extern_kernel aten.nonzero.default(%u) @cuda:0 : i64[s0, 2]@cuda:0\n"
        "      free %n\n      return %u",
    )
    c = torch.randn(64, device="cuda")
    call = loaded(text, c=c)
    before = torch.randn(4, device="cuda")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(4):
            x, w = given(16)
            same(call([x, w]), (torch.relu(x @ w + c), x @ w + c))
    (said,) = [str(x.message) for x in seen if "replayed" in str(x.message)]
    assert said.startswith("layer is not replayed as a graph: ")
    # PyTorch's generator and allocator work on, and another region is recorded.
    assert torch.randn_like(before).shape == before.shape
    other, wanted = layer()
    for _ in range(4):
        inputs = given(16)
        same(other(list(inputs)), wanted(*inputs))
    assert region_of(other).count() == 1


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


def test_mutated_inputs_are_written_where_they_are() -> None:
    call = loaded(ROUND)
    for _ in range(10):
        x, y = (torch.randn(64, device="cuda") for _ in range(2))
        wanted = x + y
        assert call([x, y]) == ()
        same(y, wanted)


@triton.jit  # type: ignore[untyped-decorator]
def double(half, out, n, block: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.arange(0, block)
    address = (half * 2).to(tl.pointer_type(tl.float32))
    tl.store(out + i, tl.load(address + i, i < n) * 2, i < n)


def recorded(block: Callable[..., None], tensors: int) -> Any:
    """Return a region of a block in Python, which writes its last tensor."""
    graphs = loaded(ROUND).__globals__["graphs"]
    layout = {"tensors": tensors, "numbers": 0, "written": (tensors - 1,)}
    return graphs.region(block, **layout, device=0, recordings=2)


def test_operands_that_cannot_be_patched_are_copied() -> None:
    def block(x: torch.Tensor, out: torch.Tensor) -> None:
        double[(1,)](x.data_ptr() // 2, out, 64, 64)

    region = recorded(block, 2)
    for _ in range(10):
        x, out = (torch.randn(64, device="cuda") for _ in range(2))
        region(x, out)
        same(out, x * 2)
    assert region.count() == 1


def test_an_operand_of_many_nodes_is_copied_after_it_moved_often() -> None:
    def block(x: torch.Tensor, m: torch.Tensor, out: torch.Tensor) -> None:
        for _ in range(20):
            x = torch.sin(x) + m
        out.copy_(x)

    region = recorded(block, 3)
    for _ in range(60):
        x, m, out, wanted = (torch.randn(64, device="cuda") for _ in range(4))
        region(x, m, out)
        block(x, m, wanted)
        same(out, wanted)
    assert region.count() == 1


def test_many_results_of_several_dtypes() -> None:
    def block(x: torch.Tensor, m: torch.Tensor) -> tuple[torch.Tensor, ...]:
        halves = [(x + number).half() for number in range(40)]
        return *halves, *(m + number for number in range(40)), x * 2

    graphs = loaded(ROUND).__globals__["graphs"]
    region = graphs.region(block, tensors=2, numbers=0, written=(), device=0, recordings=2)
    kept = []
    for _ in range(20):
        x, m = torch.randn(700, 1000, device="cuda"), torch.randn(33, device="cuda")
        kept.append((region(x, m), block(x, m)))
    for found, wanted in kept:
        same(found, wanted)
    assert region.count() == 1


def test_memory_is_as_before_after_a_capture_that_fails() -> None:
    def block(x: torch.Tensor, out: torch.Tensor) -> None:
        torch.mm(x, x, out=out)
        if torch.cuda.is_current_stream_capturing():
            torch.cuda.synchronize()  # no capture allows this

    region = recorded(block, 2)
    x, out = (torch.randn(512, 512, device="cuda") for _ in range(2))
    region(x, out)
    torch.cuda.synchronize()
    torch._C._cuda_clearCublasWorkspaces()
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    with pytest.warns(RuntimeWarning, match="is not replayed as a graph"):
        region(x, out)
    torch.cuda.synchronize()
    torch._C._cuda_clearCublasWorkspaces()
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() == before[0]
    assert torch.cuda.memory_reserved() <= before[1]
    for _ in range(100):  # memory that is given back is used again
        torch.empty(8 << 20, dtype=torch.uint8, device="cuda")
    segment = 20 << 20  # the allocator reserves as much for 8 MiB
    assert torch.cuda.memory_reserved() <= before[1] + segment


def test_weights_may_move() -> None:
    call, wanted = layer()
    x, w = given(16)
    for _ in range(4):
        same(call([x, w]), wanted(x, w))
    w = w.clone() * 2
    for _ in range(4):
        same(call([x, w]), wanted(x, w))


def test_views_and_empty_tensors() -> None:
    call, wanted = layer()
    base = torch.randn(100, 64, device="cuda")
    w = torch.randn(64, 64, device="cuda")
    for begin in (0, 3, 7, 50, 1, 2):
        for _ in range(2):
            x = base[begin : begin + 8]
            same(call([x, w]), wanted(x, w))


def test_triton_kernels_of_any_alignment() -> None:
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
    call = loaded(text.replace(line, region))
    for size in (64, 33):
        for shift in (0, 1, 4, 0, 1, 4, 0, 1):
            given = torch.randn(size + shift).cuda()[shift:], torch.randn(size).cuda()
            same(call(list(given)), (given[0] + given[1],))


def test_streams_that_fork_and_join_are_replayed() -> None:
    call = loaded(REGION.replace("f32[8]", "f32[1000, 1000]"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(50):
            x = torch.randn(1000, 1000, device="cuda")
            (found,) = call([x])
            torch.full_like(x, torch.nan)
            same(found, x.neg().abs() + x.neg())
    assert region_of(call, "region").count() == 1


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_regions_on_two_gpus() -> None:
    text = LAYER.replace("cuda:0", "cuda:1").replace("%x:", "%first: f32[8]@cuda:0, %x:", 1)
    neg = "  %f = extern_kernel aten.neg.default(%first) @cuda:0 : f32[8]@cuda:0\n"
    text = text.replace("\n  %out = ", f"\n{neg}  %out = ").replace(
        "return %o", "return %f, %o"
    )
    c = torch.randn(64, device="cuda:1")
    call = loaded(text, c=c)
    for _ in range(20):
        first, (x, w) = torch.randn(8, device="cuda:0"), given(16, 1)
        assert torch.cuda.current_device() == 0
        found = call([first, x, w])
        assert torch.cuda.current_device() == 0
        same(found, (-first, torch.relu(x @ w + c), x @ w + c))
    assert region_of(call).count() == 1


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_on_another_gpu() -> None:
    call, wanted = layer(1)
    for _ in range(6):
        inputs = given(16, 1)
        same(call(list(inputs)), wanted(*inputs))
    assert region_of(call).count() == 1
