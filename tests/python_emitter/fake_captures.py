"""Captures of the made-up driver, for blocks in Python.

Work that blocks give a stream is kernels of the driver (tests/cpp_emitter), which run on
the host's memory at once, or become nodes of a graph while the stream captures.
"""

import ctypes
import gc
import math
import struct
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any

import torch

from tests.python_emitter.fake_launches import Gpu, loaded
from wrapperir.text import parse_program

STEP = """\
wrapperir 1

program @main(%x: f32[s0]@cuda:0, %y: mutated f32[s0]@cuda:0) {
  symbol s0: int 1..64 = size(%x, 0)
  graph_region @step (%x, %y) @cuda:0 {
    body (%p: f32[s0]@cuda:0, %q: f32[s0]@cuda:0) {
      extern_kernel aten.add.out(%q, %p, alpha = 1, out = %q) writes(%q) @cuda:0
      return
    }
  }
  return
}
"""


@cache
def gpu() -> Gpu:
    """Return the driver that is made up, and what it is asked for."""
    found = Gpu()
    made = found.driver
    void, size = ctypes.c_void_p, ctypes.c_size_t
    for name, result, arguments in (
        ("fake_function", void, [ctypes.c_char_p, ctypes.c_int, void, ctypes.c_bool]),
        ("fake_launch", ctypes.c_int, [void, ctypes.c_uint, void, ctypes.c_bool, void]),
        (
            "fake_copy",
            ctypes.c_int,
            [*[ctypes.c_uint64] * 2, size, size, ctypes.c_int, void],
        ),
        ("fake_fill", ctypes.c_int, [ctypes.c_uint64, ctypes.c_uint, size, size, void]),
        ("fake_replayed", ctypes.c_char_p, []),
        ("fake_instantiated", ctypes.c_char_p, []),
        ("fake_graph_text", ctypes.c_char_p, [void]),
        ("fake_set_stream", None, [ctypes.c_uint64]),
        (
            "cuMemcpyDtoDAsync_v2",
            ctypes.c_int,
            [ctypes.c_uint64, ctypes.c_uint64, size, void],
        ),
        ("cuEventCreate", ctypes.c_int, [void, ctypes.c_uint]),
        ("cuEventRecord", ctypes.c_int, [void, void]),
        ("cuStreamWaitEvent", ctypes.c_int, [void, void, ctypes.c_uint]),
    ):
        bound = getattr(made, name)
        bound.restype, bound.argtypes = result, arguments
    made.fake_need_context()
    return found


def driver() -> Any:
    """Return the functions of the driver."""
    return gpu().driver


class _Stream:
    def __init__(self, _: int) -> None:
        self.cuda_stream = 0x1000 + len(POOLS.streams)
        POOLS.streams.append(self.cuda_stream)


class _Pools:
    """The allocator's pools: each capture has the same memory as the one before."""

    def __init__(self) -> None:
        self.uses: dict[Any, int] = {}
        self.streams: list[int] = []
        self.memory: dict[Any, list[torch.Tensor]] = {}
        self.entered: Any = None
        self.taken = 0
        self.skipped: Iterator[int] = iter(())
        self.has_workspace = False
        self.faults: dict[str, int] = {}

    def meet(self, name: str) -> None:
        """Raise an error in the call that a test has fail."""
        self.faults[name] = self.faults.get(name, 0) - 1
        if not self.faults[name]:
            raise RuntimeError(f"{name} failed")

    def begin(self, _: int, handle: Any) -> None:
        assert self.entered is None
        self.meet("begin")
        self.uses[handle] = self.uses.get(handle, 0) + 1
        self.entered = handle
        self.taken = next(self.skipped, 0)

    def end(self, _: int, handle: Any) -> None:
        assert self.entered == handle
        self.entered = None
        self.meet("end")

    def drop_workspaces(self) -> None:
        assert self.entered is None
        self.has_workspace = False

    def release(self, _: int, handle: Any) -> None:
        self.uses[handle] -= 1

    def take(self, count: int) -> torch.Tensor:
        self.meet("take")
        self.has_workspace = True
        memory = self.memory.setdefault(self.entered, [])
        while len(memory) <= self.taken:
            memory.append(floats(64))
        self.taken += 1
        return memory[self.taken - 1][:count]

    @property
    def live(self) -> int:
        return sum(self.uses.values())


POOLS = _Pools()


def current() -> int:
    stream = ctypes.c_void_p()
    driver().aoti_torch_get_current_cuda_stream(0, ctypes.byref(stream))
    return stream.value or 0


def wait(stream: int, other: int) -> None:
    """Have a stream wait for the work of another one."""
    event = ctypes.c_void_p()
    for error in (
        driver().cuEventCreate(ctypes.byref(event), 0),
        driver().cuEventRecord(event, ctypes.c_void_p(other)),
        driver().cuStreamWaitEvent(ctypes.c_void_p(stream), event, 0),
    ):
        if error:
            raise RuntimeError(f"error {error} of an event")


@contextmanager
def on(stream: int) -> Iterator[None]:
    before = current()
    driver().fake_set_stream(stream)
    try:
        yield
    finally:
        driver().fake_set_stream(before)


class _Torch:
    """PyTorch, with streams and pools; its tensors of a GPU are those of the host."""

    handles: Iterator[int] = iter(range(1 << 30))
    cuda = SimpleNamespace(
        Stream=_Stream,
        stream=lambda stream: on(stream.cuda_stream),
        graph_pool_handle=lambda: next(_Torch.handles),
    )

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def device(self, kind: str, index: int) -> torch.device:
        assert (kind, index) == ("cuda", 0)
        return torch.device("cpu")


def _copy(target: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    assert target.is_contiguous()
    assert source.is_contiguous()
    POOLS.meet("copy")
    addresses = target.data_ptr(), source.data_ptr(), source.numel() * source.itemsize
    assert driver().cuMemcpyDtoDAsync_v2(*addresses, ctypes.c_void_p(current())) == 0
    return target


def _copy_each(targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> None:
    for target, source in zip(targets, sources, strict=True):
        _copy(target, source)


@cache
def graphs() -> Any:
    """Return the module of regions that emitted programs have."""
    found = loaded(parse_program(STEP), {}).__globals__["graphs"]
    real: Any = torch._C
    found._captures.torch = _Torch()
    found._captures._torch = SimpleNamespace(
        _cuda_beginAllocateCurrentThreadToPool=POOLS.begin,
        _cuda_endAllocateToPool=POOLS.end,
        _cuda_releasePool=POOLS.release,
        _cuda_clearCublasWorkspaces=POOLS.drop_workspaces,
        _construct_storage_from_data_pointer=real._construct_storage_from_data_pointer,
    )
    guards = real._dynamo.guards
    guards._empty_strided_cuda = guards._empty_strided_cpu = _empty_strided
    torch.Tensor.copy_ = _copy  # type: ignore[method-assign,assignment]
    torch._foreach_copy_ = _copy_each  # type: ignore[assignment]
    assert found._native() is not None
    return found


def floats(count: int, shift: int = 0) -> torch.Tensor:
    """Return random numbers, ``shift`` items behind a multiple of 512 bytes."""
    buffer = (ctypes.c_byte * (4 * (count + shift) + 512))()
    skip = -ctypes.addressof(buffer) % 512
    made = torch.frombuffer(buffer, dtype=torch.float32, count=count + shift, offset=skip)
    made.uniform_()
    return made[shift:]


def fresh(count: int = 16) -> torch.Tensor:
    """Return memory that a block allocates."""
    return floats(count) if POOLS.entered is None else POOLS.take(count)


def _empty_strided(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
    assert dtype == torch.float32
    return floats(math.prod(size)).as_strided(size, stride)


# Work that blocks give the current stream.


@cache
def function(name: str, *sizes: int, is_kernel: bool = False) -> Any:
    """Return a kernel whose parameters have these sizes."""
    given = (ctypes.c_size_t * len(sizes))(*sizes)
    return ctypes.c_void_p(
        driver().fake_function(name.encode(), len(sizes), given, is_kernel)
    )


def launch(what: Any, values: bytes, packed: bool = False) -> None:
    """Launch one program of a kernel."""
    stream = ctypes.c_void_p(current())
    assert driver().fake_launch(what, 1, values, packed, stream) == 0


def add(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> None:
    """Add up to 16 floats."""
    addresses = (tensor.data_ptr() for tensor in (x, y, out))
    launch(function("add", 8, 8, 8, 4), struct.pack("<3Qi", *addresses, x.numel()))


def hidden_add(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> None:
    """Add, with half the first address, which no recording finds."""
    values = struct.pack("<3Qi", x.data_ptr() // 2, y.data_ptr(), out.data_ptr(), x.numel())
    launch(function("add_behind_halves", 8, 8, 8, 4), values)


def region(block: Callable[..., Any], tensors: int, **facts: Any) -> Any:
    """Return a region of a block."""
    layout: dict[str, Any] = {"numbers": 0, "written": (), "recordings": 8, **facts}
    return graphs().region(block, tensors=tensors, device=0, **layout)


def replays() -> list[str]:
    """Return the instances that were launched since the last log."""
    return [line.split()[1] for line in gpu().log() if line.startswith("replay")]


@contextmanager
def nothing_lives_after() -> Iterator[None]:
    """Check that handles and pools are given back."""
    gc.collect()
    driver().fake_number_instances_from_zero()
    before = driver().fake_live_graphs(), POOLS.live
    gpu().log()
    yield
    gc.collect()
    assert (driver().fake_live_graphs(), POOLS.live) == before
    assert POOLS.entered is None
    assert not POOLS.has_workspace


@contextmanager
def said(*wanted: str) -> Iterator[None]:
    """Check what is warned of."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        yield
    shown = [str(x.message) for x in seen if x.category is RuntimeWarning]
    assert len(shown) == len(wanted), shown
    assert all(text in line for text, line in zip(wanted, shown, strict=True)), shown
