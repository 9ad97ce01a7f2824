"""Names in profiles of compiled functions, beside Inductor's."""

import functools
import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._inductor import config
from torch.profiler import ProfilerActivity, profile

EMITTERS = ("python", "cpp", "fx")
MARK = re.compile(r"## Call CompiledFxGraph \w{20,} ##")

GRAPH = re.compile(r"graph_\d+_")


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def _function(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() @ x).relu() + x.cumsum(0)


@functools.cache
def _names(emitter: str) -> list[str]:
    """Return the names in a profile of a call, which has its kernels; or Inductor's."""
    kwargs: dict[str, Any] = {"backend": "wrapperir", "options": {"emitter": emitter}}
    with config.patch({"cpp.enable_kernel_profile": True}):
        compiled = torch.compile(_function, **({} if emitter == "inductor" else kwargs))
        x = torch.randn(8, 8)
        torch.testing.assert_close(compiled(x), _function(x))
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        compiled(x)
    torch._dynamo.reset()
    return [str(event.name) for event in profiled.events()]


@pytest.mark.parametrize("emitter", EMITTERS)
def test_a_profile_has_the_mark_of_a_call(emitter: str) -> None:
    for names in (_names(emitter), _names("inductor")):
        assert len([name for name in names if MARK.fullmatch(name)]) == 1


@pytest.mark.parametrize("emitter", EMITTERS)
def test_a_profile_has_the_operators_that_inductors_has(emitter: str) -> None:
    products = set[str]() if emitter == "cpp" else {"aten::mm"}  # C++ calls BLAS itself
    assert {"aten::mm", "aten::cumsum"} <= set(_names("inductor"))
    assert {*products, "aten::cumsum"} <= set(_names(emitter))


@pytest.mark.parametrize("emitter", EMITTERS)
def test_a_profile_has_the_names_of_kernels(emitter: str) -> None:
    for names in (_names(emitter), _names("inductor")):
        # The number is that of the graph in this process.
        kernels = sorted(GRAPH.sub("", name) for name in names if GRAPH.match(name))
        assert kernels == ["cpp_fused_add_relu_1", "cpp_fused_sin_0"]
