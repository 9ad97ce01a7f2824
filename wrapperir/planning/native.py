"""Build, keep and load the compiled cores of the solvers.

A core is one C++ source beside this module that exports C functions.  It is built with the
machine's compiler when first needed, and kept in the user's cache under the digest of all
that decides what is built.  Without a compiler the solvers run in Python.
"""

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from attrs import frozen
from filelock import FileLock
from platformdirs import user_cache_path

from wrapperir.private_directory import private_directory

_FLAGS = ("-std=c++17", "-O3", "-shared", "-fPIC")
_COMPILERS = ("c++", "g++", "clang++")
_BUILD_SECONDS = 120


@frozen
class NoCore:
    """There is no compiled core, and why."""

    reason: str


@cache
def load_core(name: str) -> ctypes.CDLL | NoCore:
    """Return the library built from ``name`` beside this module, building it if needed.

    Its functions run without the interpreter's lock.  A process tries once for each name.
    """
    source = Path(__file__).with_name(name).read_bytes()
    return build_core(source, user_cache_path("wrapperir") / "cores")


def build_core(source: bytes, directory: Path) -> ctypes.CDLL | NoCore:
    """Return the library built from ``source``, kept in ``directory``.

    A library that is kept but does not load, or is not as it was built, is built anew.
    """
    try:
        compiler = _compiler()
        if compiler is None:
            return NoCore(
                f"no C++ compiler: neither $CXX nor any of {', '.join(_COMPILERS)}"
            )
        library = private_directory(directory) / f"{_digest(source, compiler)}.so"
        kept = _load(library)
        if kept is not None:
            return kept
        with FileLock(library.with_suffix(".lock")):
            kept = _load(library)  # another process may have built it by now
            if kept is None:
                _build(source, compiler, library)
                kept = ctypes.CDLL(str(library))
            return kept
    except subprocess.CalledProcessError as error:
        text = bytes(error.stderr or b"").decode(errors="replace")
        lines = [line for line in text.splitlines() if "error" in line] or [str(error)]
        return NoCore(f"the C++ compiler failed: {lines[0]}")
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return NoCore(f"the core was not built: {error}")


def _compiler() -> tuple[str, ...] | None:
    for command in (os.environ.get("CXX", ""), *_COMPILERS):
        words = shlex.split(command)
        found = shutil.which(words[0]) if words else None
        if found is not None:
            return found, *words[1:]
    return None


def _digest(source: bytes, compiler: tuple[str, ...]) -> str:
    version = _run(*compiler, "--version")
    what = (*compiler, *_FLAGS, version, platform.system(), platform.machine())
    return hashlib.sha256(b"\0".join([*map(str.encode, what), source])).hexdigest()


def _load(library: Path) -> ctypes.CDLL | None:
    """Return a kept library; one that is not whole would end the process."""
    try:
        if _sum_of(library).read_text() != _sum(library):
            return None
        return ctypes.CDLL(str(library))
    except (OSError, ValueError):
        return None


def _sum_of(library: Path) -> Path:
    return library.with_suffix(".sha256")


def _sum(library: Path) -> str:
    return hashlib.sha256(library.read_bytes()).hexdigest()


def _build(source: bytes, compiler: tuple[str, ...], library: Path) -> None:
    # What is kept is whole: it is built under another name first.
    with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
        text = Path(scratch) / "core.cpp"
        text.write_bytes(source)
        built = Path(scratch) / "core.so"
        _run(*compiler, *_FLAGS, "-o", str(built), str(text))
        total = Path(scratch) / "core.sha256"
        total.write_text(_sum(built))
        built.replace(library)
        total.replace(_sum_of(library))


def _run(*command: str) -> str:
    done = subprocess.run(  # noqa: S603 the user's own compiler
        command, check=True, capture_output=True, timeout=_BUILD_SECONDS
    )
    return done.stdout.decode(errors="replace")
