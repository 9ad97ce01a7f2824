"""What programs share is built while PyTorch traces a graph, unless it was built before."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from wrapperir.frontend.kept_programs import SETTING
from wrapperir.frontend.lowering import compile as lowering
from wrapperir.frontend.lowering.compile import LoweringSettings, compile_graph
from wrapperir.frontend.lowering.program_cache import program_cache


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return what happens, with empty caches and no tracing."""
    found: list[str] = []

    def tracing(**_: object) -> Callable[..., object]:
        return lambda *_: found.append("traced")

    folder = tmp_path / "caches"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.delenv(SETTING)
    monkeypatch.setattr(lowering, "aot_autograd", tracing)
    return found


def _compile(events: list[str], key: str | None) -> None:
    def prepare(*, is_new: bool) -> None:
        events.append(f"prepared {is_new}")

    def compile(*_: object) -> object:
        raise AssertionError("nothing is traced")

    graph = torch.fx.symbolic_trace(torch.nn.ReLU())
    settings = LoweringSettings(cache_key=key)
    compile_graph(graph, [], compile, settings, prepare)  # type: ignore[arg-type]


def test_the_first_graph_is_prepared_for_before_it_is_traced(events: list[str]) -> None:
    for key in ("key", None):
        _compile(events, key)
    assert events == ["prepared False", "traced"] * 2


def test_later_processes_prepare_when_a_program_is_missing(events: list[str]) -> None:
    cache = program_cache()
    assert cache is not None
    cache.built("0" * 64, Path.touch)
    _compile(events, "key")
    assert events == ["traced"]
