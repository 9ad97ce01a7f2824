"""Compiles an artifact's sources and links them to its library.

``program.cpp`` and the runtime's sources are compiled side by side, each to an object that
is kept in the user's cache, so of the runtime's the same object serves every program.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TypeVar, cast

import torch

from wrapperir.emit.contract import Artifact
from wrapperir_cpp.build_cache import built_once, digest_of
from wrapperir_cpp.compiler import Compiler, find_compiler

LIBRARY = "program.so"
KERNELS = "kernels/"
"""Where an artifact has its kernels: what is there is not of the host program."""
BUILD_FACTS = "build.json"
"""What the build needs to know of a program: ``devices``, a list of device kinds."""

_HOST_FLAGS = (
    *("-std=c++17", "-O1", "-fPIC"),
    *("-fvisibility=hidden", "-fvisibility-inlines-hidden"),
    # Numbers are computed as written, on every machine.
    "-ffp-contract=off",
)
_LINK_FLAGS = ("-shared", "-Wl,--no-as-needed", "-Wl,-Bsymbolic", "-Wl,-z,now")

T = TypeVar("T")
R = TypeVar("R")


def build_library(artifact: Artifact, kernels: Sequence[Path] = ()) -> Path:
    """Return the library of an artifact, in the user's cache; ``kernels`` are objects.

    Raises:
        DiagnosticError: WIR709, there is no compiler, or a source does not build; WIR710,
            there is no place to keep what is built.
    """
    compiler = find_compiler()
    sources = _host_files(artifact.files)
    headers = {path: text for path, text in sources.items() if not _is_source(path)}

    def built(path: str) -> Path:
        return _build_object(compiler, path, sources[path], headers)

    objects = [*side_by_side(built, sorted(filter(_is_source, sources))), *kernels]
    libraries = _libraries(artifact)
    key = digest_of(
        *(compiler.command, compiler.version, _LINK_FLAGS, str(_torch_libraries())),
        *([path.name for path in objects], libraries),
    )

    def link(output: Path) -> None:
        stubs = [_stub(compiler, library) for library in libraries]
        arguments = [
            *_LINK_FLAGS,
            *("-o", str(output), *map(str, objects), *map(str, stubs)),
            f"-Wl,-rpath,{_torch_libraries()}",
        ]
        if kernels:
            arguments.append("-fopenmp")
        compiler.run(arguments, output.parent, LIBRARY)

    return built_once("libraries", key, link)


def side_by_side(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return ``function`` of each item; as many at a time as there are processors."""
    workers = min(len(items), os.cpu_count() or 1)
    if workers <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(max_workers=workers) as pool:
        return list(pool.map(function, items))


def torch_facts() -> tuple[str, str]:
    """Return what of torch a built file depends on: its version and where it is."""
    return torch.__version__, str(Path(torch.__file__).parent)


def _host_files(files: Mapping[str, str | bytes]) -> dict[str, str]:
    return {
        path: content
        for path, content in files.items()
        if isinstance(content, str)
        and path.endswith((".cpp", ".h"))
        and not path.startswith(KERNELS)
    }


def _is_source(path: str) -> bool:
    return path.endswith(".cpp")


def _build_object(
    compiler: Compiler, path: str, text: str, headers: Mapping[str, str]
) -> Path:
    flags = [*_HOST_FLAGS, *_include_flags(headers)]
    key = digest_of(
        *(compiler.command, compiler.version, flags, torch_facts()),
        *(path, text, sorted(headers.items())),
    )

    def compile_to(output: Path) -> None:
        # Names in messages are the artifact's own.
        for name, content in (*headers.items(), (path, text)):
            file = output.parent / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, encoding="utf-8")
        arguments = [*flags, "-c", path, "-o", str(output)]
        compiler.run(arguments, output.parent, path)

    return built_once("objects", key, compile_to)


def _include_flags(headers: Mapping[str, str]) -> list[str]:
    folders = sorted({str(PurePosixPath(path).parent) for path in headers})
    torch_headers = Path(torch.__file__).parent / "include"
    return [*(f"-I{folder}" for folder in folders), "-isystem", str(torch_headers)]


def _torch_libraries() -> Path:
    return Path(torch.__file__).parent / "lib"


def _libraries(artifact: Artifact) -> list[str]:
    """Return the libraries of torch that the program needs."""
    facts = cast(dict[str, list[str]], json.loads(artifact.files.get(BUILD_FACTS, "{}")))
    libraries = ["libtorch_cpu.so", "libc10.so"]
    if "cuda" in facts.get("devices", []):
        libraries += ["libtorch_cuda.so", "libc10_cuda.so"]
    return [library for library in libraries if (_torch_libraries() / library).exists()]


@lru_cache
def _stub(compiler: Compiler, library: str) -> Path:
    """Return an empty library of this name: linking with torch's own takes longer."""
    flags = ("-shared", "-nostdlib", f"-Wl,-soname,{library}")

    def link(output: Path) -> None:
        compiler.run(
            [*flags, "-xc++", "/dev/null", "-o", str(output)], output.parent, library
        )

    key = digest_of(compiler.command, compiler.version, flags)
    return built_once("libraries", key, link)
