import ctypes
import os
import shutil
import stat
from pathlib import Path

import pytest

from wrapperir.caching import PrivateCache
from wrapperir.planning import cores
from wrapperir.planning.cores import NoCore

SOURCE = b'extern "C" long long twice(long long x) { return 2 * x; }'

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="needs a C++ compiler"
)


def build_core(source: bytes, directory: Path) -> ctypes.CDLL | NoCore:
    return cores.build_core(source, PrivateCache(directory))


def twice(library: ctypes.CDLL | NoCore, value: int) -> int:
    assert isinstance(library, ctypes.CDLL), library
    function = library.twice
    function.argtypes = [ctypes.c_int64]
    function.restype = ctypes.c_int64
    return int(function(value))


@needs_compiler
def test_a_core_is_built_once_in_a_private_directory(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "cores"
    assert twice(build_core(SOURCE, directory), 1 << 40) == 1 << 41
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    (library,) = directory.glob("*.so")
    built = library.stat().st_mtime_ns
    assert twice(build_core(SOURCE, directory), 4) == 8
    assert library.stat().st_mtime_ns == built
    assert {path.suffix for path in directory.iterdir()} <= {".so", ".sha256", ""}


@needs_compiler
def test_another_source_is_another_library(tmp_path: Path) -> None:
    build_core(SOURCE, tmp_path)
    assert twice(build_core(SOURCE.replace(b"2 *", b"3 *"), tmp_path), 5) == 15
    assert len([*tmp_path.glob("*.so")]) == 2


@needs_compiler
@pytest.mark.parametrize("kept", [0, 100, 5000])
def test_a_damaged_library_is_built_anew(tmp_path: Path, kept: int) -> None:
    build_core(SOURCE, tmp_path / "first")
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    (library,) = (tmp_path / "second").glob("*.so")
    whole = library.read_bytes()
    assert len(whole) > kept
    library.unlink()  # it is loaded, and this file is not
    library.write_bytes(whole[:kept])
    assert twice(build_core(SOURCE, library.parent), 7) == 14


@needs_compiler
def test_another_library_in_its_place_is_built_anew(tmp_path: Path) -> None:
    build_core(SOURCE, tmp_path / "first")
    build_core(SOURCE.replace(b"twice", b"other"), tmp_path / "second")
    (library,) = (tmp_path / "first").glob("*.so")
    (other,) = (tmp_path / "second").glob("*.so")
    other.replace(library)
    assert twice(build_core(SOURCE, library.parent), 7) == 14


@needs_compiler
def test_the_reason_names_the_compilers_error(tmp_path: Path) -> None:
    outcome = build_core(b"int broken(", tmp_path)
    assert isinstance(outcome, NoCore)
    assert "core.cpp" in outcome.reason
    assert not [*tmp_path.glob("*.so")]


def test_without_a_compiler_there_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    outcome = build_core(SOURCE, tmp_path / "cores")
    assert isinstance(outcome, NoCore)
    assert "no C++ compiler" in outcome.reason


@needs_compiler
def test_the_named_compiler_is_tried_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "my compiler"
    compiler.write_text("#!/bin/sh\nexit 3\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", f"'{compiler}' -g")
    outcome = build_core(SOURCE, tmp_path / "cores")
    assert isinstance(outcome, NoCore)
    assert str(compiler) in outcome.reason


@pytest.mark.parametrize("words", ["'", "no-such-compiler"])
def test_a_wrong_name_of_a_compiler_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.setenv("CXX", words)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert isinstance(build_core(SOURCE, tmp_path / "cores"), NoCore)


@needs_compiler
def test_another_users_directory_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "cores"
    link.symlink_to(tmp_path)
    outcome = build_core(SOURCE, link)
    assert isinstance(outcome, NoCore)
    assert "symbolic link" in outcome.reason
    assert os.listdir(tmp_path) == ["cores"]
