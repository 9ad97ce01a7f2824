"""Building C++ kernels: as libraries of this process, or as objects of a program.

The flags that decide a kernel's numbers are Inductor's, so the same source gives the same
results bit for bit.  Most of the time to compile a kernel is for PyTorch's header, so the
header is precompiled, and kernels that include no other header are compiled several at a
time.  Results are kept in the user's cache.
"""

import ctypes
import os
import platform
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from pathlib import Path, PurePosixPath
from typing import TypeVar

import torch
from torch.utils.cpp_extension import TORCH_LIB_PATH, include_paths

from wrapperir.caching import built_once, digest_of
from wrapperir.diagnostics import DiagnosticError
from wrapperir.kernels.compiler import (
    Compiler,
    check_ended,
    failed,
    find_compiler,
    torch_facts,
)

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
"""Flags by PyTorch's name of the vector instructions that it finds."""
_NEON_FLAGS = ("-DCPU_CAPABILITY_NEON", "-DAT_BUILD_ARM_VEC256_WITH_SLEEF")
_HEADER = "torch/csrc/inductor/cpp_prefix.h"
_PLACE = re.compile(r"^\S+?:(?=\d+:\d+:)", re.MULTILINE)  # line and column stay
# The first header includes the others, so these are the same for every kernel.
_HEADERS = (f"#include <{_HEADER}>\n", "#include <cmath>\n", "#include <cstdint>\n")
_DIRECTIVE = re.compile(r"^[ \t]*(?:#|%:)[ \t]*(?!pragma\b)(.*)$", re.MULTILINE)
_LARGEST_UNIT = 32
_UNGROUP = ("-r", "--force-group-allocation")
# In two steps: a variable that is shared by the process is only hidden when it is weak.
_HIDE = (("--weaken",), ("--keep-global-symbols=functions",))
_FEATURES = (
    *("sse4.2", "avx2", "fma", "bmi2", "avx512f", "avx512vl", "avx512bw", "avx512dq"),
    *("avx512vnni", "avx512vbmi2", "avx512ifma", "avx512vpopcntdq"),
)
"""Extensions of x86-64 that compilers may use, as GCC names them."""
_PROCESSOR = "processor.cpp"

T = TypeVar("T")
R = TypeVar("R")


class CppBuildError(Exception):
    """A source did not compile or load; the message has the compiler's first errors."""


def side_by_side(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return ``function`` of each item; one thread for each processor."""
    workers = min(len(items), os.cpu_count() or 1)
    if workers <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(max_workers=workers) as pool:
        return list(pool.map(function, items))


def kernel_compiler() -> Compiler:
    """Return the compiler with the flags of kernels.

    Raises:
        DiagnosticError: WIR709, there is none, or it does not run.
    """
    found = find_compiler()
    flags = [*_NUMERIC_FLAGS, *_processor_flags(), "-std=c++20", "-fPIC", "-fopenmp", "-w"]
    if _is_gcc(found):
        flags += _GCC_FLAGS
    flags += [f"-D{name}" for name in _DEFINITIONS]
    folders = [sysconfig.get_path("include"), *include_paths()]
    flags += [f"-I{folder}" for folder in folders]
    return Compiler((*found.command, *flags), found.version)


def _is_gcc(compiler: Compiler) -> bool:
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
    """Return the macros that a compiler defines for its target processor.

    ``-march=native`` means another processor on another machine, which may share the cache.
    """
    command = [*compiler.command, "-dM", "-E", "-xc++", os.devnull]
    return subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, errors="replace"
    ).stdout


def kernel_digest(compiler: Compiler, *facts: object) -> str:
    """Return a digest of facts and of everything that decides how kernels are compiled."""
    processor = target_of(compiler)
    known = compiler.command, compiler.version, processor, torch_facts()
    return digest_of((*known, *facts))


def _compile_kernel(
    compiler: Compiler, source: str, arguments: Sequence[str], folder: Path, what: str
) -> None:
    """Compile a source, which ``arguments`` name, with PyTorch's kernel header if needed.

    Without the header, compiling takes a tenth of the time, so a source that does not
    include it is first compiled without.  ``what`` names the source in messages.

    Raises:
        DiagnosticError: WIR709, it does not compile; WIR710, the compiled header cannot
            be kept.
    """
    if _HEADER not in source:
        try:
            return compiler.run(arguments, folder, what)
        except DiagnosticError:
            pass
    compiler.run([*_precompiled_header(compiler), *arguments], folder, what)


@cache
def _precompiled_header(compiler: Compiler) -> tuple[str, ...]:
    """Return the flags that include PyTorch's kernel header, for GNU's precompiled."""
    if not _is_gcc(compiler):
        return ("-include", _HEADER)

    def compile_to(output: Path) -> None:
        source = output.parent / "kernels.h"
        source.write_text(f"#include <{_HEADER}>\n", encoding="utf-8")
        arguments = ["-xc++-header", source.name, "-o", str(output)]
        compiler.run(arguments, output.parent, _HEADER)

    # The compiler looks for the name of a header with this ending.
    key = f"{kernel_digest(compiler, _HEADER)}.gch"
    return ("-include", str(built_once("headers", key, compile_to).with_suffix("")))


def build_libraries(sources: Sequence[str]) -> list[ctypes.CDLL | CppBuildError]:
    """Compile and load each source, in parallel.

    A source exports its kernels as ``extern "C"``.  The result holds, for each source in
    order, its library or the error.
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
        _compile_kernel(compiler, source, arguments, output.parent, "the kernel")

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


def prepare_kernels() -> None:
    """Compile what the kernels of all programs share, into the user's cache.

    Raises:
        DiagnosticError: WIR709, it does not compile; WIR710, it cannot be kept.
    """
    compiler = kernel_compiler()
    _precompiled_header(compiler)
    _build_object(compiler, _PROCESSOR, _processor_source(), [_PROCESSOR])


def build_kernels(kernels: Mapping[str, str]) -> list[Path]:
    """Return the objects of C++ kernels, in the user's cache.

    ``kernels`` are sources by path; a source defines the function that its file is named
    for.  A further object defines ``processor_lacks``, which names what the kernels use and
    the processor lacks.

    Raises:
        DiagnosticError: WIR709, a kernel does not compile; WIR710, built files
            cannot be kept.
    """
    if not kernels:
        return []
    compiler = kernel_compiler()
    alone = [{path: text} for path, text in kernels.items() if not _is_joinable(text)]
    joinable = [path for path, text in kernels.items() if _is_joinable(text)]
    count = max(min(os.cpu_count() or 1, len(joinable)), -(-len(joinable) // _LARGEST_UNIT))
    units = [{path: kernels[path] for path in joinable[i::count]} for i in range(count)]
    units += [*alone, {_PROCESSOR: _processor_source()}]
    built = side_by_side(lambda unit: _build_unit(compiler, unit), units)
    return [path for paths in built for path in paths]


def _build_unit(compiler: Compiler, unit: Mapping[str, str]) -> list[Path]:
    if len(unit) > 1:
        try:
            return [_build_object(compiler, "kernels.cpp", _joined_source(unit), unit)]
        except DiagnosticError:
            pass  # compiled alone, the kernel with the error shows
    return [_build_object(compiler, path, text, [path]) for path, text in unit.items()]


def _check_entries(compiled: Path, path: str, functions: Sequence[str]) -> None:
    """Refuse an object that lacks a function; without ``nm``, loading finds that later."""
    nm = shutil.which("nm")
    if nm is None:
        return
    command = [nm, "-P", "-g", str(compiled)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")  # noqa: S603
    if done.returncode:
        return
    words = [line.split() for line in done.stdout.splitlines()]
    defined = {line[0] for line in words if len(line) > 1 and line[1] in "TWi"}
    if not defined.issuperset(functions):
        raise failed(
            f"{path} does not build: it does not define its entry",
            hint='define the function that `entry` names in the source, as extern "C"',
        )


def _hide_helpers(compiled: Path, functions: Sequence[str]) -> None:
    """Hide all names of an object but its kernels': helpers of two may have one name.

    The linker first dissolves COMDAT groups, since it refuses groups with hidden names.
    """
    linker, objcopy = shutil.which("ld"), shutil.which("objcopy")
    if linker is None or objcopy is None:
        return
    folder, alone = compiled.parent, "alone.o"
    (folder / "functions").write_text("\n".join(functions))
    hiding = [[objcopy, *flags, alone] for flags in _HIDE]
    for command in ([linker, *_UNGROUP, compiled.name, "-o", alone], *hiding):
        done = subprocess.run(  # noqa: S603
            command, cwd=folder, capture_output=True, text=True, errors="replace"
        )
        check_ended(done, compiled.name)
        if done.returncode:
            return  # not GNU's tools: equal names of helpers are then link errors
    (folder / alone).replace(compiled)


def _is_joinable(text: str) -> bool:
    """Say whether a source may be put into a namespace, after the known headers."""
    directives = _DIRECTIVE.findall(_without_headers(text))
    return [words.partition(" ")[0] for words in directives] == ["define", "undef"]


def _processor_source() -> str:
    """Return a function that names what kernels use and the processor lacks.

    It is compiled with the kernels' flags, which decide what they use.
    """
    checks = [
        f"#ifdef __{feature.upper().replace('.', '_')}__\n"
        f'  if (!__builtin_cpu_supports("{feature}")) return "{feature}";\n#endif\n'
        for feature in _FEATURES
    ]
    body = "".join(checks)
    return f'extern "C" const char* processor_lacks() {{\n{body}  return nullptr;\n}}\n'


def _joined_source(unit: Mapping[str, str]) -> str:
    parts = [
        f"namespace of_{_function_of(path)} {{\n{_without_headers(text)}}}\n"
        for path, text in unit.items()
    ]
    if any(_HEADER in text for text in unit.values()):
        return "".join((*_HEADERS, *parts))
    # Kernels without a header compile in a tenth of the time that <cmath> alone takes.
    included = [h for h in _HEADERS if any(h in text for text in unit.values())]
    return "".join((*included, *parts))


def _function_of(path: str) -> str:
    return PurePosixPath(path).stem


def _without_headers(text: str) -> str:
    while header := next((h for h in _HEADERS if text.startswith(h)), None):
        text = text.removeprefix(header)
    return text


def _build_object(compiler: Compiler, path: str, text: str, kernels: Iterable[str]) -> Path:
    """Return the object of a source that holds the kernels of some paths."""

    def compile_to(output: Path) -> None:
        source = output.parent / path
        source.parent.mkdir(exist_ok=True)
        source.write_text(text, encoding="utf-8")
        arguments = [path, "-c", "-o", str(output)]
        if functions:
            _compile_kernel(compiler, text, arguments, output.parent, path)
            _check_entries(output, path, functions)
            _hide_helpers(output, functions)
        else:
            compiler.run(arguments, output.parent, path)

    functions = [_function_of(kernel) for kernel in kernels if kernel != _PROCESSOR]
    key = kernel_digest(compiler, _UNGROUP, _HIDE, path, text)
    return built_once("objects", key, compile_to)
