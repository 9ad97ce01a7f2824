"""Compiles the C++ source of kernels and loads it.

The flags that decide a kernel's numbers are those of Inductor's own kernels, so the same
source gives the same results bit for bit.  What was built once is only loaded.
"""

import ctypes
import os
import platform
import re
import subprocess
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from pathlib import Path
from typing import TypeVar

import torch
from torch.utils.cpp_extension import TORCH_LIB_PATH, include_paths

from wrapperir.caching import built_once, digest_of
from wrapperir.diagnostics import DiagnosticError
from wrapperir.kernels.compiler import Compiler, find_compiler

# Infinities, NaNs and errno are kept, as are sums as written; a later flag overrides an
# earlier one.
_NUMERIC_FLAGS = (
    "-O3",
    *("-fno-trapping-math", "-funsafe-math-optimizations", "-ffinite-math-only"),
    *("-fno-signed-zeros", "-fno-finite-math-only", "-fno-unsafe-math-optimizations"),
    *("-fmath-errno", "-ffp-contract=off"),
)
_GCC_FLAGS = ("-fexcess-precision=fast", "-fno-tree-loop-vectorize")
_DEFINITIONS = (
    *("NDEBUG", "STANDALONE_TORCH_HEADER", "C10_USING_CUSTOM_GENERATED_MACROS"),
    *("TORCH_INDUCTOR_CPP_WRAPPER", "TORCH_INDUCTOR_PRECOMPILE_HEADERS"),
)
_PROCESSOR_FLAGS: Mapping[str, tuple[str, ...]] = {
    "AVX512": ("-DCPU_CAPABILITY_AVX512",),
    "AVX2": ("-DCPU_CAPABILITY_AVX2",),
    "SVE256": (
        *("-DCPU_CAPABILITY_SVE", "-DCPU_CAPABILITY_SVE256"),
        *("-DAT_BUILD_ARM_VEC256_WITH_SLEEF", "-D__ARM_FEATURE_BF16"),
        *("-march=armv8-a+sve+bf16", "-msve-vector-bits=256"),
    ),
}
"""Flags for the vector instructions that PyTorch finds, by its name of them."""
_NEON_FLAGS = ("-DCPU_CAPABILITY_NEON", "-DAT_BUILD_ARM_VEC256_WITH_SLEEF")
HEADER = "torch/csrc/inductor/cpp_prefix.h"
_PLACE = re.compile(r"^\S+?:(?=\d+:\d+:)", re.MULTILINE)  # line and column stay

T = TypeVar("T")
R = TypeVar("R")


class CppBuildError(Exception):
    """A source did not compile or load; the message has the compiler's first errors."""


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


def kernel_compiler() -> Compiler:
    """Return the compiler with the flags of kernels.

    Raises:
        DiagnosticError: WIR709, there is none, or it does not run.
    """
    found = find_compiler()
    flags = [*_NUMERIC_FLAGS, *_processor_flags(), "-std=c++20", "-fPIC", "-fopenmp", "-w"]
    if is_gcc(found):
        flags += _GCC_FLAGS
    flags += [f"-D{name}" for name in _DEFINITIONS]
    folders = [sysconfig.get_path("include"), *include_paths()]
    flags += [f"-I{folder}" for folder in folders]
    return Compiler((*found.command, *flags), found.version)


def is_gcc(compiler: Compiler) -> bool:
    """Say whether a compiler is GNU's."""
    return "Free Software Foundation" in compiler.version


def _processor_flags() -> tuple[str, ...]:
    capability = torch.backends.cpu.get_cpu_capability()
    flags = _PROCESSOR_FLAGS.get(capability)
    if flags is None:
        is_arm = platform.machine() in ("aarch64", "arm64")
        flags = _NEON_FLAGS if is_arm else ()
    if any(flag.startswith("-march") for flag in flags):
        return flags
    return ("-march=native", *flags)


@lru_cache
def target_of(compiler: Compiler) -> str:
    """Return what a compiler defines for the processor that it compiles for.

    Flags that say "this one" mean others on other machines, which may share the cache.
    """
    command = [*compiler.command, "-dM", "-E", "-xc++", os.devnull]
    return subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, errors="replace"
    ).stdout


def kernel_digest(compiler: Compiler, *facts: object) -> str:
    """Return a digest of facts and of all that decides how kernels are compiled."""
    processor = target_of(compiler)
    known = compiler.command, compiler.version, processor, torch_facts()
    return digest_of((*known, *facts))


def compile_kernel(
    compiler: Compiler, source: str, arguments: Sequence[str], folder: Path, what: str
) -> None:
    """Compile a source, which ``arguments`` name, with PyTorch's header of kernels.

    A source that does not include the header takes a tenth of the time without it, and is
    given it where it does not compile so.  ``what`` names the source in messages.

    Raises:
        DiagnosticError: WIR709, it does not compile; WIR710, there is no place to keep
            the compiled header.
    """
    if HEADER not in source:
        try:
            return compiler.run(arguments, folder, what)
        except DiagnosticError:
            pass
    compiler.run([*_precompiled_header(compiler), *arguments], folder, what)


@cache
def _precompiled_header(compiler: Compiler) -> tuple[str, ...]:
    """Return the flags that give a source PyTorch's header of kernels, compiled before.

    Other compilers than GNU's read it anew for each source.
    """
    if not is_gcc(compiler):
        return ("-include", HEADER)

    def compile_to(output: Path) -> None:
        source = output.parent / "kernels.h"
        source.write_text(f"#include <{HEADER}>\n", encoding="utf-8")
        arguments = ["-xc++-header", source.name, "-o", str(output)]
        compiler.run(arguments, output.parent, HEADER)

    # The compiler looks for the name of a header with this ending.
    key = f"{kernel_digest(compiler, HEADER)}.gch"
    return ("-include", str(built_once("headers", key, compile_to).with_suffix("")))


def build_libraries(sources: Sequence[str]) -> list[ctypes.CDLL | CppBuildError]:
    """Compile and load each source; as many at a time as there are processors.

    A source exports its kernels as ``extern "C"``.  The result has, for each source in
    order, its library or why there is none.
    """
    try:
        compiler = kernel_compiler()
    except DiagnosticError as error:
        return [_build_error(error)] * len(sources)
    return side_by_side(lambda source: _library(compiler, source), sources)


def _library(compiler: Compiler, source: str) -> ctypes.CDLL | CppBuildError:
    def build(output: Path) -> None:
        file = output.parent / "kernel.cpp"
        file.write_text(source, encoding="utf-8")
        linked = ("-shared", f"-L{TORCH_LIB_PATH}", "-ltorch_cpu", "-lc10")
        arguments = [file.name, *linked, "-o", str(output)]
        compile_kernel(compiler, source, arguments, output.parent, "the kernel")

    try:
        path = built_once("libraries", kernel_digest(compiler, source), build)
        return ctypes.CDLL(str(path))
    except DiagnosticError as error:
        return _build_error(error)
    except OSError as error:
        return CppBuildError(str(error))


def _build_error(error: DiagnosticError) -> CppBuildError:
    message = error.diagnostics[0].message.removeprefix("the kernel does not build: ")
    return CppBuildError(_PLACE.sub("", message))
