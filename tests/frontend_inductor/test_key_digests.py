"""Digests of PyTorch's and Triton's files begin before the rest of Inductor is imported."""

from typing import Any

import pytest
from torch._inductor import codecache, config

from wrapperir.frontend.inductor.key_digests import prefetch_digests

NAMES = ["torch_key", "triton_key"]


class Prefetched:
    """Stands in for a function whose result can be made ahead."""

    def __init__(self, begun: list[str], name: str) -> None:
        self.prefetch = lambda: begun.append(name)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    for name in NAMES:
        monkeypatch.setattr(codecache, name, Prefetched(names, name))
    return names


@pytest.mark.parametrize("are_off", [False, True])
def test_digests_begin_unless_caches_are_off(begun: list[str], are_off: bool) -> None:
    settings: Any = config
    with settings.patch(force_disable_caches=are_off):
        prefetch_digests()
    assert sorted(begun) == ([] if are_off else NAMES)


def test_a_release_without_prefetching_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(codecache, "torch_key", lambda: b"")
    monkeypatch.delattr(codecache, "triton_key")
    prefetch_digests()
