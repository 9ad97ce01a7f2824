"""Functions that are compiled with a frontend, and the programs that this makes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._inductor import config

from bench.demo.recording import RecordingEmitter
from wrapperir.plugin import plugin_manager

FRONTENDS = ("triton", "lowering")
"""Inductor with Triton kernels, which take no time to build, and our own lowering."""


@contextmanager
def recorded_calls(
    function: Callable[..., Any], frontend: str
) -> Iterator[tuple[Callable[..., Any], RecordingEmitter]]:
    """Yield a compiled function, to be called here, and what records its programs.

    ``frontend`` is one of :data:`FRONTENDS`, or "cpp" for Inductor with C++ kernels.
    """
    torch._dynamo.reset()
    recorder = RecordingEmitter(plugin_manager().emitter("python"))
    name = "lowering" if frontend == "lowering" else "inductor"
    options: dict[str, Any] = {"emitter": recorder, "frontend": name}
    call = torch.compile(function, backend="wrapperir", options=options)
    with config.patch(cpu_backend="triton" if frontend == "triton" else "cpp"):
        yield call, recorder
