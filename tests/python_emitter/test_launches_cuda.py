"""Launches of Triton kernels from emitted Python on a GPU, beside those of Triton."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import triton

from tests.cpp_emitter.moved import on_gpu
from tests.python_emitter.fake_launches import ON_GPU
from wrapperir.emit import Value
from wrapperir.ir import Device, Language, Program, SizeOf, Symbol, tensor
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.testing import Case, example_constants, example_inputs
from wrapperir.testing.kernels import KernelKind, library_kernel
from wrapperir_python.emitter import PythonEmitter

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.skipif(torch.version.hip is not None, reason="needs the CUDA driver"),
]


def loaded(program: Program) -> Any:
    emitter = PythonEmitter()
    constants = {key: value.cuda() for key, value in example_constants(program, 0).items()}
    return emitter.load(emitter.emit(program), constants)


def moved(values: list[Value]) -> list[Value]:
    return [x.cuda() if isinstance(x, torch.Tensor) else x for x in values]


def kernels_of(call: Any) -> list[Any]:
    return [value for value in call.__globals__.values() if hasattr(value, "slow")]


@contextmanager
def launched_by_triton() -> Generator[list[Any]]:
    """Have Triton launch for a while; yield the list of its launches."""
    seen: list[Any] = []
    hook = seen.append
    triton.knobs.runtime.launch_enter_hook.add(hook)
    try:
        yield seen
    finally:
        triton.knobs.runtime.launch_enter_hook.remove(hook)


@pytest.mark.parametrize("case", ON_GPU, ids=lambda case: case.name)
def test_results_are_those_of_triton_s_launches(case: Case) -> None:
    program = on_gpu(case.program, is_there=True)
    mine, theirs = loaded(program), loaded(program)
    assert kernels_of(mine)
    for seed in case.seeds:
        ours = mine(moved(example_inputs(case.program, seed)))
        with launched_by_triton() as seen:
            wanted = theirs(moved(example_inputs(case.program, seed)))
        assert seen
        torch.testing.assert_close(ours, wanted, rtol=0, atol=0, equal_nan=True)


def adding(device: int = 0) -> Any:
    on = Device("cuda", device)
    x = tensor("f32", (Symbol("s0"),), device=on)
    b = ProgramBuilder()
    inputs = [b.input(x), b.input(x)]
    b.symbol("s0", SizeOf(inputs[0].name, 0), lower=1, upper=1 << 20)
    add = b.kernel(library_kernel(KernelKind.ADD, Language.TRITON))
    out = b.allocate(x)
    b.call(add, *inputs, out, Symbol("s0"), device=on)
    return loaded(b.build(out))


@pytest.mark.parametrize("size", [1, 16, 33, 4096])
@pytest.mark.parametrize("shift", [0, 1, 3])
def test_addresses_and_sizes_of_any_alignment(size: int, shift: int) -> None:
    x, y = torch.randn(size + shift, device="cuda")[shift:], torch.randn(size).cuda()
    call = adding()
    for _ in range(2):
        (out,) = call([x, y])
        assert torch.equal(out, x + y)


def test_hooks_of_launches_are_called_while_they_are_set() -> None:
    call = adding()
    x, y = (torch.randn(64, device="cuda") for _ in range(2))
    call([x, y])
    with launched_by_triton() as seen:
        call([x, y])
    assert len(seen) == 1
    (out,) = call([x, y])
    assert len(seen) == 1
    assert torch.equal(out, x + y)


def test_pytorch_s_profiler_sees_launches() -> None:
    call = adding()
    x, y = (torch.randn(64, device="cuda") for _ in range(2))
    call([x, y])
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        call([x, y])
        torch.cuda.synchronize()
    assert any(event.key == "add" for event in profile.key_averages())


def test_launches_are_on_the_current_stream_and_are_captured() -> None:
    call = adding()
    x, y = (torch.zeros(4096, device="cuda") for _ in range(2))
    call([x, y])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (out,) = call([x, y])
    x.fill_(3)
    y.fill_(4)
    graph.replay()
    assert torch.equal(out, x + y)


def test_threads_that_have_used_no_gpu() -> None:
    call = adding()
    x, y = (torch.randn(4096, device="cuda") for _ in range(2))
    failures: list[BaseException] = []

    def run() -> None:
        try:
            for _ in range(200):
                (out,) = call([x, y])
            assert torch.equal(out, x + y)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_two_gpus() -> None:
    calls = [adding(device) for device in range(2)]
    for device in (1, 0, 1):
        x, y = (torch.randn(64, device=f"cuda:{device}") for _ in range(2))
        (out,) = calls[device]([x, y])
        assert torch.equal(out, x + y)
    kernel = kernels_of(calls[0])[0]
    for device in (0, 1):
        x, y = (torch.randn(32, device=f"cuda:{device}") for _ in range(2))
        out = torch.empty_like(x)
        with torch.cuda.device(device):
            kernel(4, 1, 1, x, y, out, 32)
        assert torch.equal(out, x + y)


def test_a_tensor_on_the_cpu_is_refused() -> None:
    kernel = kernels_of(adding())[0]
    x = torch.randn(32, device="cuda")
    with pytest.raises(ValueError, match="cpu tensor"):
        kernel(4, 1, 1, x, x.cpu(), x, 32)
