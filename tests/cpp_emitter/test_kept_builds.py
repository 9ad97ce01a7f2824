"""Libraries that one process built are loaded by later ones without a build."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve

from wrapperir import ir as wir
from wrapperir.caching import PrivateCache
from wrapperir.emit import Artifact
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.kernels import Target
from wrapperir_cpp import build, kept_builds
from wrapperir_cpp.emitter import CppEmitter

CPU = wir.tensor("f32", (4,))
X = torch.tensor([0.5, 1.0, -2.0, 3.0])


@pytest.fixture
def artifact() -> Artifact:
    """Return the files of a program that returns the sines of its input."""
    b = ProgramBuilder("kept")
    x, y = b.input(CPU), b.allocate(CPU)
    b.extern_out("aten.sin.out", x, out=y)
    return CppEmitter().emit(b.build(y))


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[Artifact]:
    """Return the artifacts that are built from now on."""
    made: list[Artifact] = []
    stock: Any = build.build_artifact

    def build_artifact(artifact: Artifact, *rest: Any) -> Artifact:
        made.append(artifact)
        built: Artifact = stock(artifact, *rest)
        return built

    monkeypatch.setattr(build, "build_artifact", build_artifact)
    return made


@pytest.fixture
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the folder of what is kept of builds, which is empty."""

    def user_cache(kind: str) -> PrivateCache:
        return PrivateCache(tmp_path / kind)

    monkeypatch.setattr(kept_builds, "user_cache", user_cache)
    return tmp_path / "builds"


def run(artifact: Artifact) -> None:
    (result,) = CppEmitter().load(artifact, {})([X])
    assert isinstance(result, torch.Tensor)
    assert torch.equal(result, X.sin())


def test_a_second_load_builds_nothing(
    artifact: Artifact, builds: list[Artifact], own_cache: Path
) -> None:
    run(artifact)
    run(artifact)
    assert builds == [artifact]


def test_another_artifact_is_built(
    artifact: Artifact, builds: list[Artifact], own_cache: Path
) -> None:
    run(artifact)
    other = evolve(artifact, files={**artifact.files, "note.txt": "other"})
    run(other)
    assert builds == [artifact, other]


def test_a_damaged_build_is_made_anew(
    artifact: Artifact, builds: list[Artifact], own_cache: Path
) -> None:
    run(artifact)
    key = kept_builds.build_key(artifact, (), CppEmitter())  # it has no GPU kernels
    assert key is not None
    folder = kept_builds.kept_folder(key)
    assert folder is not None
    kept = folder.with_name("moved")
    shutil.move(folder, kept)
    shutil.copytree(kept, folder)
    (folder / "program.so").write_bytes(b"damaged")
    assert kept_builds.kept_folder(key) is None
    run(artifact)
    assert builds == [artifact, artifact]
    shutil.rmtree(kept)


def test_builds_are_not_kept_where_choices_are_not(
    artifact: Artifact,
    builds: list[Artifact],
    own_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WRAPPERIR_CHOICE_CACHE", "0")
    run(artifact)
    run(artifact)
    assert builds == [artifact, artifact]
    assert not own_cache.exists()


def test_keys_tell_targets_and_settings_apart(
    artifact: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    emitter = CppEmitter()
    keys = [
        kept_builds.build_key(artifact, [Target(name)], emitter)
        for name in ("sm_80", "sm_90")
    ]
    monkeypatch.setenv("TRITON_CACHE_DIR", "/elsewhere")
    assert kept_builds.build_key(artifact, [Target("sm_80")], emitter) == keys[0]
    monkeypatch.setenv("TRITON_DISABLE_LINE_INFO", "1")
    keys.append(kept_builds.build_key(artifact, [Target("sm_80")], emitter))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for name in ("H100", "H200"):
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda _, name=name: name)
        keys.append(kept_builds.build_key(artifact, [Target("sm_80")], emitter))
    assert len(set(keys)) == len(keys)
    assert None not in keys
