"""Run what Inductor generates in Triton for CPU tensors through ``interpreted_triton``."""

import itertools
import linecache
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import torch._inductor.config as inductor_config
import triton
from torch._inductor.async_compile import AsyncCompile
from triton.backends.compiler import GPUTarget

from wrapperir.kernels.triton_cpu import InterpretedKernel, interpreted_triton

_NUMBER = itertools.count()
_HEURISTICS = re.compile(r"^@triton_heuristics\.\w+\(.*?^\)$", re.MULTILINE | re.DOTALL)
_SET_DRIVER = re.compile(r"^triton_helpers\.set_driver_to_\w+\(\)$", re.MULTILINE)
_BLOCKS = {"XBLOCK": 8, "YBLOCK": 4, "ZBLOCK": 2, "R0_BLOCK": 16, "R1_BLOCK": 4}


class _Kernel:
    """Stands in for Inductor's autotuner: fixed blocks, and a grid over them."""

    launches = 0

    def __init__(self, name: str, source: str) -> None:
        filename = f"<inductor {next(_NUMBER)} {name}>"
        source = _SET_DRIVER.sub("", _HEURISTICS.sub("", source))
        lines = source.splitlines(keepends=True)
        linecache.cache[filename] = (len(source), None, lines, filename)
        namespace: dict[str, Any] = {}
        with interpreted_triton():
            exec(compile(source, filename, "exec"), namespace)
        kernel = namespace[name]
        assert isinstance(kernel, InterpretedKernel)
        self._kernel = kernel

    def run(self, *args: Any, stream: object = None) -> None:
        _Kernel.launches += 1
        names = self._kernel.arg_names
        numels = dict(zip(names, args, strict=False))
        blocks = {name: size for name, size in _BLOCKS.items() if name in names}
        extents = (
            -(-numels[f"{axis}numel"] // blocks[f"{axis.upper()}BLOCK"])
            for axis in ("x", "y", "z")
            if f"{axis}numel" in numels
        )
        self._kernel[tuple(extents)](*args, **blocks, num_warps=4)


@contextmanager
def _generating() -> Generator[None]:
    """Let Inductor think that CPU tensors are for a GPU that Triton compiles for."""
    driver = triton.runtime.driver
    active = vars(driver).get("_active")
    driver.set_active(
        SimpleNamespace(
            get_current_target=lambda: GPUTarget("cuda", 90, 32),
            get_current_device=lambda: 0,
            get_active_torch_device=lambda: torch.device("cpu"),
            get_device_interface=lambda: torch.cpu,
        )
    )
    settings = {"cpu_backend": "triton", "force_disable_caches": True}
    try:
        with (
            inductor_config.patch(settings),
            mock.patch.object(
                AsyncCompile,
                "triton",
                lambda self, name, source, device_str=None: _Kernel(name, source),
            ),
        ):
            yield
    finally:
        driver._active = active


def run_compiled(
    function: Callable[..., Any], *args: torch.Tensor, **settings: object
) -> Any:
    """Return what Inductor's Triton kernels compute, interpreted."""
    torch._dynamo.reset()
    before = _Kernel.launches
    with _generating(), inductor_config.patch(settings):
        result = torch.compile(function, backend="inductor")(*args)
    assert _Kernel.launches > before
    return result
