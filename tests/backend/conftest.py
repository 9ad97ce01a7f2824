"""Kernels of the CPU that take no time to build, and counts of programs that are built."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters
from torch._inductor import config

from tests.backend.program_calls import Calls
from wrapperir.frontend.inductor.session import Session
from wrapperir.frontend.kept_programs import SETTING, KeptProgram
from wrapperir.frontend.lowering.compile import _TracedGraph


@pytest.fixture
def quick_kernels(emitter: str) -> Iterator[None]:
    """Have Inductor write Triton for the CPU, but for C++, which takes C++ kernels only."""
    with config.patch(cpu_backend="cpp" if emitter == "cpp" else "triton"):
        yield


@pytest.fixture
def calls(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Calls]:
    """Keep programs, in entries of this test alone; count those that are built."""
    monkeypatch.delenv(SETTING)
    made = Calls()
    monkeypatch.setattr(Calls, "frontend", getattr(request, "param", "inductor"))
    finish, lower, load = Session.finish, _TracedGraph._lower, KeptProgram.load

    def counted(function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            made.built += 1
            return function(*arguments)

        return call

    def counted_load(*arguments: Any) -> Any:
        made.loads += 1
        return load(*arguments)

    monkeypatch.setattr(Session, "finish", counted(finish))
    monkeypatch.setattr(_TracedGraph, "_lower", counted(lower))
    monkeypatch.setattr(KeptProgram, "load", counted_load)
    compiler_config: Any = torch.compiler.config
    with compiler_config.patch(cache_key_tag=uuid.uuid4().hex):
        torch._dynamo.reset()
        counters.clear()
        yield made
        torch._dynamo.reset()
