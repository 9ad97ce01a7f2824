"""Build, keep and load the compiled cores of the solvers.

A core is one C++ source beside this module that exports C functions.  It is built with the
machine's compiler when first needed, and kept in the user's cache under the digest of all
that decides what is built.  Without a compiler the solvers run in Python.
"""

import ctypes
import functools
import os
import platform
import shlex
import shutil
import subprocess
from pathlib import Path

from attrs import frozen

from wrapperir.caching import PrivateCache, digest_of, user_cache

_FLAGS = ("-std=c++17", "-O3", "-shared", "-fPIC")
_COMPILERS = ("c++", "g++", "clang++")
_BUILD_SECONDS = 120


@frozen
class NoCore:
    """There is no compiled core, and why."""

    reason: str


@functools.cache
def load_core(name: str) -> ctypes.CDLL | NoCore:
    """Return the library built from ``name`` beside this module, building it if needed.

    Its functions run without the interpreter's lock.  A process tries once for each name.
    """
    source = Path(__file__).with_name(name).read_bytes()
    cache = user_cache("cores")
    if cache is None:
        return NoCore("this user has no home directory to keep it in")
    return build_core(source, cache)


def build_core(source: bytes, cache: PrivateCache) -> ctypes.CDLL | NoCore:
    """Return the library built from ``source``, kept in ``cache``.

    A library that was damaged since is built anew.
    """
    try:
        compiler = _compiler()
        if compiler is None:
            return NoCore(
                f"no C++ compiler: neither $CXX nor any of {', '.join(_COMPILERS)}"
            )
        library = cache.built(
            f"{_digest(source, compiler)}.so", functools.partial(_build, source, compiler)
        )
        return ctypes.CDLL(str(library))
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
    facts = compiler, _FLAGS, version, platform.system(), platform.machine()
    return digest_of((*facts, source.decode()))


def _build(source: bytes, compiler: tuple[str, ...], library: Path) -> None:
    text = library.with_name("core.cpp")
    text.write_bytes(source)
    _run(*compiler, *_FLAGS, "-o", str(library), str(text))


def _run(*command: str) -> str:
    done = subprocess.run(  # noqa: S603 the user's own compiler
        command, check=True, capture_output=True, timeout=_BUILD_SECONDS
    )
    return done.stdout.decode(errors="replace")
