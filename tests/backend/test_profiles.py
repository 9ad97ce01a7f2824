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
def _inductors_names() -> list[str]:
    return _names(backend="inductor")


@functools.cache
def _inductors_kernels() -> list[str]:
    with config.patch({"cpp.enable_kernel_profile": True}):
        return _kernels(_names(backend="inductor"))


def _kernels(names: list[str]) -> list[str]:
    """Return the names of kernels without the number of the graph in this process."""
    return sorted(GRAPH.sub("", name) for name in names if GRAPH.match(name))


def _names(**kwargs: Any) -> list[str]:
    torch._dynamo.reset()
    compiled = torch.compile(_function, **kwargs)
    x = torch.randn(8, 8)
    torch.testing.assert_close(compiled(x), _function(x))
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        compiled(x)
    return [str(event.name) for event in profiled.events()]


@pytest.mark.parametrize("emitter", EMITTERS)
def test_a_profile_has_the_mark_of_a_call(emitter: str) -> None:
    theirs = [name for name in _inductors_names() if MARK.fullmatch(name)]
    ours = _names(backend="wrapperir", options={"emitter": emitter})
    assert len([name for name in ours if MARK.fullmatch(name)]) == len(theirs) == 1


@pytest.mark.parametrize("emitter", EMITTERS)
def test_a_profile_has_the_operators_that_inductors_has(emitter: str) -> None:
    theirs = {name for name in _inductors_names() if name.startswith("aten::")}
    ours = set(_names(backend="wrapperir", options={"emitter": emitter}))
    assert {"aten::mm", "aten::cumsum"} <= theirs
    products = set[str]() if emitter == "cpp" else {"aten::mm"}  # C++ calls BLAS itself
    assert {*products, "aten::cumsum"} <= ours


@pytest.mark.parametrize("emitter", EMITTERS)
def test_a_profile_has_the_names_of_kernels(emitter: str) -> None:
    with config.patch({"cpp.enable_kernel_profile": True}):
        ours = _kernels(_names(backend="wrapperir", options={"emitter": emitter}))
    assert ours == _inductors_kernels() == ["cpp_fused_add_relu_1", "cpp_fused_sin_0"]
