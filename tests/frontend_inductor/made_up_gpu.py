"""Captures functions as if there were a GPU, in a process of its own.

``python -m tests.frontend_inductor.made_up_gpu LIBRARY`` reads one name of a case from each
line, after ``lowering: `` for a program of our own lowering, and answers with a line of
JSON: the captured programs, or the error.  The library is that of ``made_up_gpu.cpp``; it
is loaded before PyTorch.  Tensors are fake, the properties of the device are an H100's,
autotuning picks the first Triton template, and all kernels are equally fast.
"""

import contextlib
import ctypes
import importlib.util
import json
import logging
import sys
import warnings
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

if TYPE_CHECKING:
    import torch

    from wrapperir.frontend import Lowered

LOWERING = "lowering: "

_PROPERTIES = SimpleNamespace(
    name="H100",
    major=9,
    minor=0,
    multi_processor_count=132,
    regs_per_multiprocessor=65536,
    max_threads_per_multi_processor=2048,
    max_threads_per_block=1024,
    warp_size=32,
    total_memory=80 << 30,
    shared_memory_per_block_optin=232448,
    shared_memory_per_multiprocessor=233472,
    L2_cache_size=50 << 20,
    gcnArchName="",
)


def load_device(library: str) -> None:
    """Register the device; PyTorch asks for it once, when it is imported."""
    assert "torch" not in sys.modules
    found = importlib.util.find_spec("torch")
    assert found is not None
    assert found.origin is not None
    for name in ("libc10.so", "libtorch_cpu.so", "libtorch_cuda.so"):
        path = Path(found.origin).parent / "lib" / name
        if path.exists():
            ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
    ctypes.CDLL(library)


@contextlib.contextmanager
def made_up_gpu() -> Generator[None]:
    """Have PyTorch and Inductor see an H100; tensors that are made are fake."""
    import torch
    from torch._dynamo import device_interface
    from torch._inductor import config
    from torch._inductor.codegen.triton import TritonScheduling
    from torch._inductor.fx_passes import joint_graph
    from torch._inductor.scheduler import Scheduler
    from torch._inductor.select_algorithm import AlgorithmSelectorCache, ExternKernelCaller
    from torch._subclasses import fake_tensor
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    def timings(*args: Any, **_: Any) -> dict[Any, float]:
        return {
            choice: 9.0 if isinstance(choice, ExternKernelCaller) else 1 + place / 1000
            for place, choice in enumerate(args[6])
        }

    def compile_kernel(scheduler: Any, nodes: Any, hint_override: int | None = None) -> Any:
        options = {"benchmark_kernel": True, "hint_override": hint_override}
        assert scheduler.generate_kernel_code_from_nodes(nodes, **options)
        return None, SimpleNamespace(triton_=SimpleNamespace(precompile=lambda: None))

    def properties(device: Any = None) -> Any:
        return _PROPERTIES

    cuda, interface = torch.cuda, device_interface.CudaInterface
    replaced: list[tuple[Any, str, Any]] = [
        (cuda, "_lazy_init", lambda: None),
        (cuda, "is_available", lambda: True),
        (cuda, "device_count", lambda: 1),
        (cuda, "current_device", lambda: 0),
        (cuda, "get_device_properties", properties),
        (cuda, "get_device_capability", lambda device=None: (9, 0)),
        (cuda, "is_bf16_supported", lambda *_: True),
        (cuda, "is_tf32_supported", lambda: True),
        (cuda, "get_rng_state", lambda *_: torch.zeros(16, dtype=torch.uint8)),
        (cuda, "set_rng_state", lambda *_: None),
        (cuda, "_exchange_device", lambda device: 0),
        (cuda, "_maybe_exchange_device", lambda device: 0),
        (interface, "current_device", staticmethod(lambda: 0)),
        (interface, "device_count", staticmethod(lambda: 1)),
        (interface, "get_device_properties", staticmethod(properties)),
        (fake_tensor, "init_gpu_context", lambda *_: None),
        # Its patterns are traced with tensors that are not fake.
        (joint_graph, "lazy_init", lambda *_: None),
        (AlgorithmSelectorCache, "do_autotuning", timings),
        (Scheduler, "compile_kernel", compile_kernel),
        (Scheduler, "benchmark_fused_nodes", lambda *_: (1.0, "")),
        (TritonScheduling, "benchmark_codegened_module", lambda *_: (1.0, "")),
    ]
    active = driver._active
    stand_in: Any = SimpleNamespace(
        get_current_target=lambda: GPUTarget("cuda", 90, 32),
        get_current_device=lambda: 0,
        get_active_torch_device=lambda: torch.device("cuda", 0),
        get_device_interface=lambda: cuda,
        utils=SimpleNamespace(get_device_properties=lambda _: {"max_shared_mem": 232448}),
    )
    driver.set_active(stand_in)
    try:
        with contextlib.ExitStack() as stack:
            for owner, name, value in replaced:
                stack.enter_context(patch.object(owner, name, value))
            # Constants are computed for real.
            settings = {"joint_graph_constant_folding": False}
            stack.enter_context(config.patch(settings))
            stack.enter_context(fake_tensor.FakeTensorMode(allow_non_fake_inputs=True))
            yield
    finally:
        driver._active = active


def captured(name: str) -> dict[str, Any]:
    """Return the texts of a case's programs, and the kernels that are compiled early."""
    import torch
    from torch._inductor import config

    from tests.frontend_inductor import gpu_cases, user_stream_cases
    from wrapperir.emit.early_kernels import early_tasks
    from wrapperir.emit.python.kernels import format_kernel_file
    from wrapperir.frontend.inductor import capture, early_kernels
    from wrapperir.kernels import Target
    from wrapperir.text import format_program

    early: list[dict[str, Any]] = []

    def keep(line: Any, multiples: Any) -> None:
        for task in early_tasks(line, multiples, Target("sm_90")):
            early.append({"text": format_kernel_file(line), **task})

    is_own = name.startswith(LOWERING)
    case = {**gpu_cases.CASES, **user_stream_cases.CASES}[name.removeprefix(LOWERING)]
    torch._dynamo.reset()
    kept = patch.object(early_kernels, "compile_early", keep)
    with made_up_gpu(), config.patch(case.known_settings()), kept:
        inputs = case.example()
        if is_own:
            return {"programs": [lowered(case.function, inputs)], "early": early}
        found = capture(case.function, inputs, training=case.is_training)
    return {"programs": [format_program(one.program) for one in found], "early": early}


class _LoweredError(Exception):
    """A program is there; it is not compiled."""


def lowered(function: Callable[..., Any], inputs: Sequence[Any]) -> str:
    """Return the text of a function's program with kernels of our own."""
    import torch
    from torch._dynamo.exc import BackendCompilerFailed

    from wrapperir.frontend.lowering.compile import LoweringSettings, compile_graph
    from wrapperir.text import format_program

    def keep(made: "Lowered", backward: bool, show: object) -> Any:
        raise _LoweredError(format_program(made.program))

    def backend(graph: "torch.fx.GraphModule", given: Sequence[Any]) -> Any:
        return compile_graph(graph, given, keep, LoweringSettings())

    try:
        with torch.no_grad():
            torch.compile(function, backend=backend)(*inputs)
    except BackendCompilerFailed as error:
        if not isinstance(error.inner_exception, _LoweredError):
            raise
        return str(error.inner_exception)
    raise AssertionError("nothing was lowered")


def main() -> None:
    """Answer requests until standard input ends."""
    load_device(sys.argv[1])
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    for line in sys.stdin:
        try:
            answer = captured(line.strip())
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
