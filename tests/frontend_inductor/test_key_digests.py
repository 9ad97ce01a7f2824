"""Digests of PyTorch's and Triton's files, kept while the files do not change."""

import functools
import threading
from pathlib import Path
from typing import Any

import pytest
from torch._inductor import codecache, config

from wrapperir.frontend.inductor import key_digests
from wrapperir.frontend.inductor.key_digests import obtain_digests

NAMES = ["torch_key", "triton_key"]


class Digest:
    """Stands in for PyTorch's function of one digest."""

    def __init__(self, value: bytes | str) -> None:
        self.value = value
        self.begun = 0
        self.given: list[bytes | str] = []

    def __call__(self) -> bytes | str:
        """Return what the digest of the files is."""
        return self.value

    def prefetch(self) -> None:
        """Begin the digest."""
        self.begun += 1

    def set(self, value: bytes | str) -> None:
        """Take a digest that is known."""
        self.given.append(value)


@pytest.fixture
def digests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Digest]:
    """Replace PyTorch's functions, the packages and the user's cache by a test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    made = {"torch_key": Digest(b"\0of torch"), "triton_key": Digest("of triton")}
    for name, digest in made.items():
        monkeypatch.setattr(codecache, name, digest, raising=False)
        folder = tmp_path / name
        (folder / "part").mkdir(parents=True)
        for file in (folder / "__init__.py", folder / "part" / "module.py"):
            file.write_text("one")
    packages = {name: name for name in NAMES}
    monkeypatch.setattr(key_digests, "_PACKAGES", packages)
    monkeypatch.syspath_prepend(tmp_path)
    return made


@pytest.fixture
def kept_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have digests kept before the function returns that begins them."""

    class Now:
        def __init__(self, target: Any, args: tuple[Any, ...]) -> None:
            self.start = functools.partial(target, *args)

    monkeypatch.setattr(threading, "Thread", Now)


@pytest.mark.usefixtures("kept_at_once")
def test_digests_of_unchanged_files_are_known(digests: dict[str, Digest]) -> None:
    obtain_digests()
    assert [(each.begun, each.given) for each in digests.values()] == [(1, []), (1, [])]
    obtain_digests()
    assert [each.begun for each in digests.values()] == [1, 1]
    assert [each.given for each in digests.values()] == [[b"\0of torch"], ["of triton"]]


@pytest.mark.usefixtures("kept_at_once")
@pytest.mark.parametrize("change", ["part/module.py", "part/new.py"])
def test_a_changed_file_is_digested_anew(
    digests: dict[str, Digest], tmp_path: Path, change: str
) -> None:
    obtain_digests()
    changed = tmp_path / "torch_key" / change
    changed.write_text("two")
    obtain_digests()
    assert digests["torch_key"].given == []
    assert digests["torch_key"].begun == 2
    assert digests["triton_key"].given == ["of triton"]


@pytest.mark.parametrize("are_off", [False, True])
def test_digests_begin_unless_caches_are_off(
    digests: dict[str, Digest], are_off: bool
) -> None:
    settings: Any = config
    with settings.patch(force_disable_caches=are_off):
        obtain_digests()
    assert [each.begun for each in digests.values()] == [int(not are_off)] * 2


def digest_of_2_11(begun: threading.Event, go: threading.Event) -> tuple[Any, list[str]]:
    """Return a digest as 2.11 has it, and the names of threads that made it."""
    kept: list[bytes] = []
    made: list[str] = []

    def digest() -> bytes:
        if not kept:
            made.append(threading.current_thread().name)
            begun.set()
            assert go.wait(60)
            kept.append(b"of torch")
        return kept[0]

    def take(value: bytes) -> None:
        assert not kept
        kept.append(value)

    found: Any = digest
    found.set = take
    return found, made


@pytest.mark.usefixtures("digests")
def test_a_digest_is_made_once_and_may_be_there_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, go = threading.Event(), threading.Event()
    digest, made = digest_of_2_11(begun, go)
    monkeypatch.setattr(codecache, "torch_key", digest)
    obtain_digests()
    assert begun.wait(60)
    threading.Timer(0.05, go.set).start()
    known: Any = codecache
    assert known.torch_key() == b"of torch"
    assert len(made) == 1
    for thread in threading.enumerate():
        if thread.name == made[0]:
            thread.join(60)
    obtain_digests()  # which knows the digest and cannot give it
    assert known.torch_key() == b"of torch"


@pytest.mark.usefixtures("digests")
def test_a_release_without_given_digests_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(codecache, "torch_key", lambda: b"")
    monkeypatch.delattr(codecache, "triton_key", raising=False)
    obtain_digests()
