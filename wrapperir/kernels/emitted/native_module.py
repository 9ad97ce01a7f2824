"""Extension modules in C++ that are compiled where an emitted program runs.

Each is compiled once for this torch, this Python and its text, and kept in the user's
cache.  Files of an emitted program import others beside them here.
"""

import hashlib
import importlib.util
import os
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

_TORCH = "torch_cpu"
"""The library of PyTorch's that has its C functions."""


def build(source: Path, *headers: str) -> ModuleType | None:
    """Return the module of a C++ file; ``None`` where it cannot be compiled or loaded.

    ``headers`` are files beside the source that it includes, other than ``tensors.h``.
    """
    caching = import_beside(source, "private_cache")
    try:
        included = [source.with_name(name) for name in ("tensors.h", *headers)]
        library = build_library(source, included, caching)
        return None if library is None else import_file(library, source.stem)
    except (OSError, ValueError, ImportError, subprocess.CalledProcessError):
        return None


def build_library(source: Path, headers: Sequence[Path], caching: Any) -> Path | None:
    """Return the library of a C++ file, in the user's cache; ``None`` without a cache.

    ``headers`` are the files that it includes; ``caching`` is the module of caches.

    Raises:
        OSError: a file cannot be read, or there is no compiler or no private directory.
        subprocess.CalledProcessError: it does not compile.
    """
    text = source.read_bytes()
    compiler = shlex.split(os.environ.get("CXX") or "c++")
    command = [
        *(*compiler, "-std=c++17", "-O2", "-shared", "-fPIC", "-fvisibility=hidden"),
        *(f"-I{sysconfig.get_path('include')}", "-x", "c++", "-"),
        *("-Wl,--no-as-needed", f"-l{_TORCH}", "-ldl"),
    ]
    folders = dict.fromkeys(f"-I{path.parent}" for path in (source, *headers))

    def compile(library: Path) -> None:
        beside = _link_empty_torch(compiler, library.parent)
        subprocess.run(  # noqa: S603
            [*command, *folders, f"-L{beside}", "-o", str(library)],
            check=True,
            capture_output=True,
            input=text,
        )

    cache = caching.user_cache(source.stem)
    if cache is None:
        return None
    included = [path.read_text("utf-8") for path in headers]
    facts = (text.decode(), included, torch.__version__, sys.version, command)
    library: Path = cache.built(f"{caching.digest_of(facts)}.so", compile)
    return library


def _link_empty_torch(compiler: Sequence[str], folder: Path) -> Path:
    """Return the folder, with an empty library named as PyTorch's, which links faster."""
    name = f"lib{_TORCH}.so"
    flags = ("-shared", "-nostdlib", f"-Wl,-soname,{name}", "-x", "c++", os.devnull)
    subprocess.run(  # noqa: S603
        [*compiler, *flags, "-o", str(folder / name)], check=True, capture_output=True
    )
    return folder


def import_beside(file: Path, name: str) -> Any:
    """Return ``name.py`` beside a file, imported once for all programs with its text."""
    path = file.with_name(f"{name}.py")
    key = f"wrapperir_{name}_{hashlib.sha256(path.read_bytes()).hexdigest()}"
    if key not in sys.modules:
        sys.modules.setdefault(key, import_file(path, key))
    return sys.modules[key]


def import_file(path: Path, name: str | None = None) -> ModuleType:
    """Import a Python file or a compiled module, which has its name built in."""
    spec = importlib.util.spec_from_file_location(name or path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
