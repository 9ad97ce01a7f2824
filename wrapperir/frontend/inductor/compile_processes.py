"""Inductor's processes that compile Triton kernels, of no use to captured programs.

Inductor starts a process for each processor once a graph has a tensor on a GPU, and has
them compile each kernel that it writes, in all configs.  What is captured is compiled by
the emitter, from a source of its own.
"""

import functools
from collections.abc import Callable
from types import SimpleNamespace

from torch._inductor import config
from torch._inductor.async_compile import AsyncCompile

from wrapperir.frontend.inductor.shared_patch import SharedPatch


def _start_later(stock: Callable[[], None]) -> "staticmethod[[], None]":
    """Return a method that starts the processes early only for autotuning."""

    def wakeup() -> None:
        if config.max_autotune or config.max_autotune_gemm or config.benchmark_fusion:
            stock()

    return staticmethod(wakeup)


def expect_imports() -> None:
    """Say what the kernels import that Inductor writes; importing it takes two seconds."""
    from wrapperir.kernels.triton_compile import WORKERS

    WORKERS.expect(["torch._inductor.runtime.triton_helpers"])


processes_started_late = SharedPatch(AsyncCompile, "wakeup", _start_later)
"""The context in which Inductor starts its processes only where it uses them."""


@functools.cache
def kernels_not_compiled() -> SharedPatch:
    """Return the context in which Inductor compiles no kernel that it has written."""
    from torch._inductor.codegen import triton

    compiles_nothing = SimpleNamespace(use_process_pool=lambda: False)
    return SharedPatch(triton, "async_compile", lambda _: compiles_nothing)
