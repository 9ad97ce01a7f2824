"""Building C++ kernels: as libraries of this process, or as objects of a program.

The flags that decide a kernel's numbers are Inductor's, so the same source gives the same
results bit for bit.  Most of the time to compile a kernel is for PyTorch's header, so the
header is precompiled, and kernels that include no other header are compiled several at a
time.  Results are kept in the user's cache.
"""

import ctypes
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path, PurePosixPath
from typing import TypeVar

from wrapperir.caching import built_once, digest_of
from wrapperir.diagnostics import DiagnosticError
from wrapperir.kernels.compiler import (
    Compiler,
    check_ended,
    debug_flags,
    failed,
    find_compiler,
    torch_facts,
)
from wrapperir.kernels.emitted.kernel_flags import (
    compiler_facts,
    header_flags,
    kernel_flags,
    machine_vectors,
)
from wrapperir.kernels.emitted.kernel_sources import (
    HEADER,
    joined_source,
    units_of,
    written_vectors,
)

_PLACE = re.compile(r"^\S+?:(?=\d+:\d+:)", re.MULTILINE)  # line and column stay
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


def kernel_compiler(vectors: str | None = None) -> Compiler:
    """Return the compiler with the flags of kernels.

    ``vectors`` names the vector instructions that kernels are written with, as
    :data:`~wrapperir.ir.VECTORS` does; this machine's, if ``None``.

    Raises:
        DiagnosticError: WIR709, there is none, or it does not run, or there are no such
            vector instructions.
    """
    found = find_compiler()
    try:
        flags = kernel_flags(found.version, vectors or machine_vectors())
    except ValueError as error:
        raise failed(f"a kernel's metadata is wrong: {error}") from None
    return Compiler((*found.command, *flags), found.version)


def kernel_digest(compiler: Compiler, *facts: object) -> str:
    """Return a digest of facts and of everything that decides how kernels are compiled."""
    return digest_of((*compiler_facts(compiler.command, compiler.version), *facts))


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
    if HEADER not in source:
        try:
            return compiler.run(arguments, folder, what)
        except DiagnosticError:
            pass
    compiler.run([*_precompiled_header(compiler), *arguments], folder, what)


@cache
def _precompiled_header(compiler: Compiler) -> tuple[str, ...]:
    """Return the flags that include PyTorch's kernel header, for GNU's precompiled."""

    def run(arguments: Sequence[str], folder: Path) -> None:
        compiler.run(arguments, folder, HEADER)

    key = f"{kernel_digest(compiler, HEADER)}.gch"
    return header_flags(HEADER, compiler.version, run, partial(built_once, "headers", key))


def build_libraries(sources: Sequence[str]) -> list[ctypes.CDLL | CppBuildError]:
    """Compile and load each source, in parallel.

    A source exports its kernels as ``extern "C"``, and may have vector instructions, as
    for :func:`build_kernels`.  The result holds, for each source in order, its library or
    the error.
    """
    return side_by_side(_library, sources)


def _library(source: str) -> ctypes.CDLL | CppBuildError:
    def build(output: Path) -> None:
        file = output.parent / "kernel.cpp"
        file.write_text(source, encoding="utf-8")
        folder = Path(torch_facts()[1]) / "lib"
        linked = ("-shared", f"-L{folder}", "-ltorch_cpu", "-lc10")
        arguments = [file.name, *linked, "-o", str(output)]
        _compile_kernel(compiler, source, arguments, output.parent, "the kernel")

    try:
        compiler = kernel_compiler(written_vectors(source))
        path = built_once("libraries", kernel_digest(compiler, source), build)
        return ctypes.CDLL(str(path))
    except DiagnosticError as error:
        return _build_error(error)
    except OSError as error:
        return CppBuildError(str(error))


def _build_error(error: DiagnosticError) -> CppBuildError:
    message = error.diagnostics[0].message.removeprefix("the kernel does not build: ")
    return CppBuildError(_PLACE.sub("", message))


def prepare_header() -> None:
    """Compile PyTorch's header of kernels into the user's cache, for the machine's vectors.

    Raises:
        DiagnosticError: WIR709, it does not compile; WIR710, it cannot be kept.
    """
    _precompiled_header(kernel_compiler())


def prepare_kernels() -> None:
    """Compile what objects of kernels of all programs share, into the user's cache.

    Raises:
        DiagnosticError: as :func:`prepare_header`.
    """
    prepare_header()
    compiler = kernel_compiler()
    _build_object(compiler, _PROCESSOR, _processor_source(), [_PROCESSOR])


def build_kernels(kernels: Mapping[str, str], shown: Path | None = None) -> list[Path]:
    """Return the objects of C++ kernels, in the user's cache.

    ``kernels`` are sources by path; a source defines the function that its file is named
    for, and may have vector instructions (:func:`with_vectors`).  A further object defines
    ``processor_lacks``, which names what the kernels use and the processor lacks.  With
    ``shown``, kernels have debug information, for which their sources are in that folder.

    Raises:
        DiagnosticError: WIR709, a kernel does not compile; WIR710, built files
            cannot be kept.
    """
    if not kernels:
        return []
    groups = dict[str | None, list[str]]()
    for path, text in kernels.items():
        groups.setdefault(written_vectors(text), []).append(path)
    units = [(kernel_compiler(), {_PROCESSOR: _processor_source()})]
    for vectors, paths in groups.items():
        compiler = kernel_compiler(vectors)
        if shown is not None:  # the header is precompiled with the same flag
            compiler = Compiler((*compiler.command, "-g"), compiler.version)
            units += [(compiler, {path: kernels[path]}) for path in paths]
            continue
        for unit in units_of([kernels[path] for path in paths]):
            units.append((compiler, {paths[i]: kernels[paths[i]] for i in unit}))
    built = side_by_side(lambda unit: _build_unit(*unit, shown), units)
    return [path for paths in built for path in paths]


def _build_unit(
    compiler: Compiler, unit: Mapping[str, str], shown: Path | None
) -> list[Path]:
    if len(unit) > 1:
        try:
            joined = joined_source(
                {f"of_{_function_of(path)}": text for path, text in unit.items()}
            )
            return [_build_object(compiler, "kernels.cpp", joined, unit)]
        except DiagnosticError:
            pass  # compiled alone, the kernel with the error shows
    return [
        _build_object(compiler, path, text, [path], shown) for path, text in unit.items()
    ]


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


def _function_of(path: str) -> str:
    return PurePosixPath(path).stem


def _build_object(
    compiler: Compiler,
    path: str,
    text: str,
    kernels: Iterable[str],
    shown: Path | None = None,
) -> Path:
    """Return the object of a source that holds the kernels of some paths."""

    def compile_to(output: Path) -> None:
        source = output.parent / path
        source.parent.mkdir(exist_ok=True)
        source.write_text(text, encoding="utf-8")
        described = debug_flags(output.parent, shown)
        arguments = [*described, path, "-c", "-o", str(output)]
        if functions:
            _compile_kernel(compiler, text, arguments, output.parent, path)
            _check_entries(output, path, functions)
            _hide_helpers(output, functions)
        else:
            compiler.run(arguments, output.parent, path)

    functions = [_function_of(kernel) for kernel in kernels if kernel != _PROCESSOR]
    place = () if shown is None else (str(shown),)
    key = kernel_digest(compiler, _UNGROUP, _HIDE, path, text, *place)
    return built_once("objects", key, compile_to)
