"""Renderers of kernels come from plugins."""

from types import SimpleNamespace

import pytest

from wrapperir.ir import KernelDefinitionLine, Language
from wrapperir.lowering.cpp import CppRenderer
from wrapperir.lowering.loops import Nest
from wrapperir.lowering.renderer import LoopKernel, Renderer
from wrapperir.lowering.triton import TritonRenderer
from wrapperir.plugin import PluginManager, built_in_renderers, hookimpl


class SomeRenderer(Renderer):
    language = Language.OPAQUE
    device_kinds = frozenset({"acme", "cpu"})

    def refusal(self, nest: Nest) -> str | None:
        return f"{nest.name} is not known"

    def render_kernel(self, kernel: LoopKernel) -> KernelDefinitionLine:
        raise NotImplementedError


def _plugin(result: object) -> object:
    @hookimpl
    def wrapperir_renderers() -> object:
        return result

    return SimpleNamespace(wrapperir_renderers=wrapperir_renderers)


def test_renderers_are_found_by_the_kind_of_device() -> None:
    found = PluginManager([])
    found.register(built_in_renderers, "renderers")
    found.register(_plugin([SomeRenderer()]), "acme")
    assert [type(r) for r in found.renderers("cpu")] == [CppRenderer, SomeRenderer]
    assert [type(r) for r in found.renderers("acme")] == [SomeRenderer]
    assert [type(r) for r in found.renderers("cuda")] == [TritonRenderer]
    assert found.renderers("tpu") == ()
    assert [len(p.renderers) for p in found.plugins] == [2, 1]


class NoLanguage(SomeRenderer):
    language = "cobol"  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (None, "must return a sequence of renderers, not None"),
        ([SomeRenderer], "must return instances of Renderer"),
        ([NoLanguage()], "language must be a Language"),
    ],
)
def test_a_plugin_that_returns_no_renderers_is_reported(result: object, said: str) -> None:
    found = PluginManager([])
    found.register(_plugin(result), "bad")
    (broken,) = found.broken
    assert broken.hook == "wrapperir_renderers"
    assert said in broken.traceback
    assert found.renderers("cpu") == ()
