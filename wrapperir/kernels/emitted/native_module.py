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
from pathlib import Path
from types import ModuleType
from typing import Any

import torch


def build(source: Path, *headers: str) -> ModuleType | None:
    """Return the module of a C++ file; ``None`` where it cannot be compiled or loaded.

    ``headers`` are files beside the source that it includes, other than ``tensors.h``.
    """
    caching = import_beside(source, "private_cache")
    try:
        text = source.read_bytes()
        named = ("tensors.h", *headers)
        included = [source.with_name(name).read_text("utf-8") for name in named]
        home = Path(torch.__file__).parent
        command = [
            *shlex.split(os.environ.get("CXX") or "c++"),
            *("-std=c++17", "-O2", "-shared", "-fPIC", "-fvisibility=hidden"),
            *(f"-I{sysconfig.get_path('include')}", f"-I{home / 'include'}"),
            *("-x", "c++", "-", f"-L{home / 'lib'}", "-ltorch_cpu", "-ldl"),
        ]

        def compile(library: Path) -> None:
            subprocess.run(  # noqa: S603
                [*command, f"-I{source.parent}", "-o", str(library)],
                check=True,
                capture_output=True,
                input=text,
            )

        cache = caching.user_cache(source.stem)
        if cache is None:
            return None
        facts = (text.decode(), included, torch.__version__, sys.version, command)
        key = caching.digest_of(facts)
        return import_file(cache.built(f"{key}.so", compile), source.stem)
    except (OSError, ValueError, ImportError, subprocess.CalledProcessError):
        return None


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
