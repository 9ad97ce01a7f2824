"""Regions of blocks in Python on a GPU: what is replayed is what would have run."""

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from tests.emit.test_region_replays_cuda import ROUND, loaded, same
from wrapperir_python.emitter import PythonEmitter

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.skipif(torch.version.hip is not None, reason="needs the CUDA driver"),
]


@triton.jit  # type: ignore[untyped-decorator]
def double(half, out, n, block: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.arange(0, block)
    address = (half * 2).to(tl.pointer_type(tl.float32))
    tl.store(out + i, tl.load(address + i, i < n) * 2, i < n)


def recorded(block: Callable[..., None], tensors: int) -> Any:
    """Return a region of a block in Python, which writes its last tensor."""
    graphs = loaded(PythonEmitter(), ROUND).__globals__["graphs"]
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

    graphs = loaded(PythonEmitter(), ROUND).__globals__["graphs"]
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
