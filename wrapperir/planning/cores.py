"""The compiled algorithms: first fit and tree search in C++, called through ctypes.

They give the same results as :mod:`~wrapperir.planning.first_fit` and
:mod:`~wrapperir.planning.tree_search`.  A core is one C++ source beside this module that
exports C functions.  It is built with the machine's compiler when first needed, and kept in
the user's cache under the digest of its source, compiler and flags.  Without a compiler the
solvers run in Python.
"""

import ctypes
import functools
import os
import platform
import shlex
import shutil
import subprocess
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from attrs import frozen

from wrapperir.caching import PrivateCache, digest_of, user_cache
from wrapperir.planning.problem import Sections
from wrapperir.planning.tree_search import Attempt, SearchOutcome

FIRST_FIT = "first_fit_core.cpp"
"""The source of the core that plans of many buffers take."""
TREE_SEARCH = "tree_search_core.cpp"
"""The source of the core that searches for a lower plan."""

_FLAGS = ("-std=c++17", "-O3", "-shared", "-fPIC")
_COMPILERS = ("c++", "g++", "clang++")
_BUILD_SECONDS = 120

_MOST = 1 << 62
"""Larger sums of bytes are left to Python."""
_LONGEST = 1e9
"""Most seconds that a core is given, so that its clock does not overflow."""
_NO_MEMORY = -2

_NUMBER = ctypes.c_int64
_NUMBERS = ctypes.POINTER(ctypes.c_int64)


class FirstFit(Protocol):
    """Does what :func:`~wrapperir.planning.first_fit.first_fit` does, for given buffers."""

    def __call__(
        self, order: Sequence[int], *, below: int | None, probes: int
    ) -> tuple[Sequence[int] | None, int]:
        """Return offsets and the number of probes."""
        ...


class TreeSearch(Protocol):
    """Does what :func:`~wrapperir.planning.tree_search.search_tree` does, likewise."""

    def __call__(self, *, capacity: int, steps: int, seconds: float) -> Attempt:
        """Search for a plan of at most ``capacity`` bytes."""
        ...


def compile_first_fit(sections: Sections) -> FirstFit | None:
    """Return compiled first fit; ``None`` without a core, or for huge sizes."""
    call = _core_function("first_fit", (_NUMBERS, _NUMBER, _NUMBERS, _NUMBERS), sections)
    if call is None:
        return None

    def place(
        order: Sequence[int], *, below: int | None, probes: int
    ) -> tuple[Sequence[int] | None, int]:
        offsets, left = _zeros(len(order)), _NUMBER(probes)
        most = _MOST if below is None else below
        height = call(_numbers(order), most, ctypes.byref(left), offsets)
        return None if height < 0 else offsets[:], probes - left.value

    return place


def compile_tree_search(
    sections: Sections, orders: Sequence[Sequence[int]]
) -> TreeSearch | None:
    """Return compiled tree search; ``None`` without a core, or for huge sizes."""
    limits = (_NUMBER, _NUMBER, _NUMBER, ctypes.c_double)
    call = _core_function("tree_search", (_NUMBERS, *limits, _NUMBERS, _NUMBERS), sections)
    if call is None:
        return None
    ranks = _numbers([rank for order in orders for rank in order])

    def search(*, capacity: int, steps: int, seconds: float) -> Attempt:
        done, offsets = _NUMBER(), _zeros(len(sections.sizes))
        capacity, steps = min(capacity, _MOST), min(steps, _MOST)
        seconds = min(max(seconds, 0.0), _LONGEST)
        status = call(
            ranks, len(orders), capacity, steps, seconds, ctypes.byref(done), offsets
        )
        outcome = SearchOutcome(status)
        found = offsets[:] if outcome is SearchOutcome.FOUND else ()
        return Attempt(outcome, found, done.value)

    return search


def _core_function(
    name: str, types: Sequence[type], sections: Sections
) -> Callable[..., int] | None:
    """Return a core's function of the sections, which takes arguments of these types."""
    library = load_core(f"{name}_core.cpp")
    total = sum(sections.sizes) + sum(sections.alignments)
    if isinstance(library, NoCore) or total > _MOST:
        return None
    function = library[f"wrapperir_{name}"]
    function.restype = _NUMBER
    function.argtypes = (_NUMBER, _NUMBER, *[_NUMBERS] * 4, *types)
    columns = (sections.first, sections.stop, sections.sizes, sections.alignments)
    problem = (len(sections.sizes), sections.count, *map(_numbers, columns))

    def call(*arguments: object) -> int:
        result = int(function(*problem, *arguments))
        if result == _NO_MEMORY:
            raise MemoryError("too little memory to plan the buffers")
        return result

    return call


def _numbers(values: Sequence[int]) -> "ctypes.Array[ctypes.c_int64]":
    return (_NUMBER * len(values)).from_buffer(array("q", values))


def _zeros(count: int) -> "ctypes.Array[ctypes.c_int64]":
    return (_NUMBER * count)()


@frozen
class NoCore:
    """The reason that there is no compiled core."""

    reason: str


@functools.cache
def load_core(name: str) -> ctypes.CDLL | NoCore:
    """Return the library built from ``name`` beside this module, and build it if needed.

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
