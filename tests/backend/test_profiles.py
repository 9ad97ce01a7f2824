"""Names in profiles of compiled functions, beside Inductor's."""

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor import config
from torch.profiler import ProfilerActivity, profile

from tests.cli.files import invoke
from wrapperir.frontend.kept_programs import SETTING

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


def test_a_profile_marks_the_programs_of_our_own_lowering(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(SETTING)
    for _ in range(2):  # the second one is loaded
        torch._dynamo.reset()
        options: Any = {"frontend": "lowering"}
        compiled: Any = torch.compile(_function, backend="wrapperir", options=options)
        x = torch.randn(8, 8, requires_grad=True)
        compiled(x).sum().backward()
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            compiled(x).sum().backward()
        names = [str(event.name) for event in profiled.events()]
        assert len([name for name in names if MARK.fullmatch(name)]) == 2


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


class _Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.fc(x.sin())
        return y.relu() + x.cumsum(0)


@pytest.mark.parametrize(
    ("frontend", "emitter"),
    [("inductor", "cpp"), ("inductor", "fx"), ("lowering", "python")],
)
def test_the_kernels_of_a_trace_have_their_lines(
    frontend: str, emitter: str, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"frontend": frontend, "emitter": emitter}
    options["dump_dir"] = tmp_path / "dumped"
    x = torch.randn(8, 8)
    with config.patch({"cpp.enable_kernel_profile": True}), torch.no_grad():
        compiled: Any = torch.compile(_Model(), backend="wrapperir", options=options)
        compiled(x)
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            for _ in range(3):
                compiled(x)
    profiled.export_chrome_trace(str(tmp_path / "trace.json.gz"))
    found = invoke(
        *("explain", str(tmp_path / "dumped" / "forward-0")),
        *("--trace", str(tmp_path / "trace.json.gz"), "--format", "json"),
    )
    document = json.loads(found.stdout)
    assert document["absent"] == []
    assert len(document["kernels"]) >= 2
    for kernel in document["kernels"]:
        assert kernel["events"] == 3 * len(kernel["lines"])
        assert kernel["ns"] > 0
        files = {place["file"] for x in kernel["nodes"] for place in x["stack"]}
        assert files == {__file__}
