"""Compiling libraries: what is kept, and what is said when it fails."""

import ctypes
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from attrs import evolve

from tests.cpp_emitter.running import parsed
from tests.forked_processes import ProcessServer
from wrapperir.caching import build_cache, built_once
from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.emit import Artifact
from wrapperir.kernels import Compiler, compile_object, find_compiler
from wrapperir.kernels.compiler import first_errors
from wrapperir_cpp.emitter import CppEmitter

PROGRAM = """
program @main(%x: f32[4]) {
  %y = allocate f32[4]
  extern_kernel aten.add.out(%x, %x, out=%y) writes(%y)
  free %x
  return %y
}
"""
KERNEL = """
kernel_definition @double cpp(p: read_write f32*) {
  entry = kernel
  source {
    | extern "C" void kernel(float* p) { for (int i = 0; i < 4; ++i) p[i] *= 2; }
  }
}
program @main(%x: mutated f32[4]) {
  kernel_call @double(%x)
  return %x
}
"""


def emitted(text: str = PROGRAM) -> Artifact:
    return CppEmitter().emit(parsed(text))


def built(artifact: Artifact) -> Artifact:
    return CppEmitter().build(artifact, {})


def refusal(artifact: Artifact) -> Diagnostic:
    with pytest.raises(DiagnosticError) as caught:
        built(artifact)
    (found,) = caught.value.diagnostics
    return found


def refuse_to_run(*_: object) -> None:
    raise AssertionError("a compiler ran")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, in a path with a space."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    return tmp_path / "a cache" / "wrapperir"


@pytest.fixture
def filled_cache(run_cache: Path, cache: Path) -> Path:
    """A cache of the test's own that has what all programs share."""
    kept: list[Path] = []

    def recorded(kind: str, key: str, make: Callable[[Path], None]) -> Path:
        kept.append(built_once(kind, key, make))
        return kept[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(run_cache))
        patch.setattr("wrapperir.kernels.compiler.built_once", recorded)
        built(emitted(PROGRAM.replace("4]", "3]")))
    for path in kept:
        folder = build_cache(path.parent.name).folder()
        for file in (path, path.with_name(f"{path.name}.sha256")):
            shutil.copy(file, folder)
    return cache


def test_what_was_built_is_kept(
    filled_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = built(emitted())
    assert first.entry == "program.so"
    for kind in ("objects", "libraries"):
        assert stat.S_IMODE((filled_cache / kind).stat().st_mode) == 0o700
    monkeypatch.setattr(Compiler, "run", refuse_to_run)
    assert built(emitted()) == first


def test_a_program_is_compiled_and_the_runtime_is_not(
    filled_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built(emitted())
    ran: list[str] = []
    run = Compiler.run

    def recorded(self: Compiler, arguments: list[str], folder: Path, what: str) -> None:
        ran.append(what)
        run(self, arguments, folder, what)

    monkeypatch.setattr(Compiler, "run", recorded)
    built(emitted(PROGRAM.replace("4]", "5]")))
    assert ran == ["program.cpp", "program.so"]


def test_what_was_damaged_is_built_anew(filled_cache: Path) -> None:
    first = built(emitted())
    for kind in ("objects", "libraries"):
        kept = sorted((filled_cache / kind).glob("*.sha256"))
        built_files = sorted(
            (seal.with_suffix("") for seal in kept), key=lambda path: path.stat().st_size
        )
        assert built_files
        # Not all, nor the largest, which takes long to build.
        for path in built_files[:-1:4] or built_files:
            path.write_bytes(b"damaged")
    again = built(emitted())
    library = again.files["program.so"]
    assert isinstance(library, bytes)
    assert library[:4] == b"\x7fELF"
    call = CppEmitter().load(again, {})
    (y,) = call([torch.ones(4)])
    assert torch.equal(y, torch.full((4,), 2.0))  # type: ignore[arg-type]
    assert set(again.files) == set(first.files)


def test_a_cache_that_is_a_link_is_refused(cache: Path, tmp_path: Path) -> None:
    cache.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (cache / "objects").symlink_to(tmp_path / "elsewhere")
    assert refusal(emitted()).code is Code.INVALID_ARTIFACT
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    ("compiler", "message"),
    [
        (
            "no-such-compiler",
            "there is no C++ compiler: 'no-such-compiler' is not a command",
        ),
        ("'", "is not a command"),
        ("false", "the C++ compiler does not run"),
    ],
)
def test_a_compiler_that_is_missing_is_said(
    cache: Path, monkeypatch: pytest.MonkeyPatch, compiler: str, message: str
) -> None:
    monkeypatch.setenv("CXX", compiler)
    found = refusal(emitted())
    assert found.code is Code.KERNEL_BUILD_FAILED
    assert message in found.message
    assert found.hint is not None
    assert "CXX" in found.hint


def test_an_error_names_the_file_and_line_of_the_artifact(filled_cache: Path) -> None:
    artifact = emitted()
    files = {**artifact.files, "program.cpp": "\nint f() { return nothing; }\n"}
    found = refusal(evolve(artifact, files=files))
    assert found.code is Code.KERNEL_BUILD_FAILED
    assert found.message.startswith("program.cpp does not build: program.cpp:2:18: error: ")


def test_what_does_not_link_is_said(filled_cache: Path) -> None:
    artifact = emitted()
    program = artifact.files["program.cpp"]
    files = {**artifact.files, "other.cpp": program}
    found = refusal(evolve(artifact, files=files))
    assert found.message.startswith("program.so does not build: ")
    assert "wrapperir_description" in found.message


def test_a_compiler_that_says_nothing_failed() -> None:
    assert first_errors("\n") == "the compiler failed"


def test_the_library_exports_its_interfaces_alone(tmp_path: Path) -> None:
    artifact = built(emitted(KERNEL))
    content = artifact.files["program.so"]
    assert isinstance(content, bytes)
    path = tmp_path / "program.so"
    path.write_bytes(content)
    shown = subprocess.run(
        ["nm", "-D", "--defined-only", str(path)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    exported = {line.split()[2] for line in shown.splitlines()}
    assert exported >= {"wrapperir_open", "wrapperir_run", "wrapperir_error"}
    assert all(name.startswith(("wrapperir_", "AOTInductor")) for name in exported)
    assert ctypes.CDLL(str(path)).wrapperir_constant_count() == 0


@pytest.mark.slow
def test_two_processes_may_build_at_once(
    filled_cache: Path, process_server: ProcessServer
) -> None:
    # Some of what all programs share is there, some is not.
    for seal in sorted((filled_cache / "objects").glob("*.sha256"))[::4]:
        seal.unlink()
    script = (
        "from tests.cpp_emitter.test_build import *; import torch;"
        "call = CppEmitter().load(emitted(KERNEL), {});"
        "print(call([torch.ones(4)])[0].tolist())"
    )
    with ThreadPoolExecutor(max_workers=2) as pool:
        running = [pool.submit(process_server.run, "-c", script) for _ in range(2)]
    for process in running:
        done = process.result()
        assert done.stdout == "[2.0, 2.0, 2.0, 2.0]\n", done.stderr
    leftovers = [path for path in filled_cache.glob("*/*") if path.name.startswith("tmp")]
    assert leftovers == []


@pytest.mark.slow
def test_inductor_is_imported_for_kernels_alone(filled_cache: Path) -> None:
    script = (
        "from tests.cpp_emitter.test_build import *;"
        "CppEmitter().load(emitted(), {});"
        "print('torch._inductor.codecache' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


@pytest.mark.usefixtures("cache")
def test_an_object_depends_on_the_headers_that_its_source_includes() -> None:
    headers = {
        "runtime/one.h": '#include "two.h"\n',
        "runtime/two.h": "inline int two() { return 2; }\n",
    }

    def built_with(**changed: str) -> Path:
        texts = headers | {f"runtime/{name}.h": text for name, text in changed.items()}
        source = '#include "one.h"\nint four() { return two() + two(); }\n'
        return compile_object(find_compiler(), "runtime/four.cpp", source, texts, [])

    first = built_with()
    assert built_with(other="not C++") == first
    assert built_with(two="inline int two() { return 1 + 1; }\n") != first
