"""Compiles C++ kernels.

Kernels of Inductor's are compiled with Inductor's own flags, so that the same source gives
the same results as when Inductor compiles it.  Most of the time is for Inductor's header,
so kernels that include no other header are compiled several at a time.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from wrapperir.caching import built_once
from wrapperir.diagnostics import DiagnosticError
from wrapperir.kernels.compiler import Compiler, failed
from wrapperir.kernels.cpp_build import (
    HEADER,
    compile_kernel,
    kernel_compiler,
    kernel_digest,
    side_by_side,
)

# A header of the first kind includes the others, so these are the same for every kernel.
_HEADERS = (
    f"#include <{HEADER}>\n",
    "#include <cmath>\n",
    "#include <cstdint>\n",
)
_DIRECTIVE = re.compile(r"^[ \t]*(?:#|%:)[ \t]*(?!pragma\b)(.*)$", re.MULTILINE)
_LARGEST_UNIT = 32
_UNGROUP = ("-r", "--force-group-allocation")
# In two steps: a variable that is to be one in the process is only hidden when it is weak.
_HIDE = (("--weaken",), ("--keep-global-symbols=functions",))
_PROCESSOR = Path(__file__).with_name("processor.cpp")


def build_kernels(kernels: Mapping[str, str]) -> list[Path]:
    """Return the objects of C++ kernels, in the user's cache.

    ``kernels`` are sources by path; a source defines the function that its file is named
    for.  Another object tells what the kernels need of the processor.

    Raises:
        DiagnosticError: WIR709, a kernel does not compile; WIR710, there is no place to
            keep what is built.
    """
    if not kernels:
        return []
    compiler = kernel_compiler()
    alone = [{path: text} for path, text in kernels.items() if not _is_joinable(text)]
    joinable = [path for path, text in kernels.items() if _is_joinable(text)]
    count = max(min(os.cpu_count() or 1, len(joinable)), -(-len(joinable) // _LARGEST_UNIT))
    units = [{path: kernels[path] for path in joinable[i::count]} for i in range(count)]
    units += [*alone, {_PROCESSOR.name: _PROCESSOR.read_text("utf-8")}]
    built = side_by_side(lambda unit: _build_unit(compiler, unit), units)
    return [path for paths in built for path in paths]


def _build_unit(compiler: Compiler, unit: Mapping[str, str]) -> list[Path]:
    if len(unit) > 1:
        try:
            return [_build_object(compiler, "kernels.cpp", _joined_source(unit), unit)]
        except DiagnosticError:
            pass  # which it is and why shows when each is compiled alone
    return [_build_object(compiler, path, text, [path]) for path, text in unit.items()]


def _check_entries(compiled: Path, path: str, functions: Sequence[str]) -> None:
    """Hold an object against the functions that programs call in it.

    Without the tool that lists them, loading the program finds what is missing.
    """
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
    """Make kernels the only names of their object: others' helpers may have the same.

    The linker first takes functions out of the groups of which it would keep one for all
    objects: it refuses groups whose names are hidden.
    """
    linker, objcopy = shutil.which("ld"), shutil.which("objcopy")
    if linker is None or objcopy is None:
        return
    folder, alone = compiled.parent, "alone.o"
    (folder / "functions").write_text("\n".join(functions))
    hiding = [[objcopy, *flags, alone] for flags in _HIDE]
    for command in ([linker, *_UNGROUP, compiled.name, "-o", alone], *hiding):
        done = subprocess.run(command, cwd=folder, capture_output=True)  # noqa: S603
        if done.returncode:
            return  # not GNU's: helpers of one name are then an error of linking
    (folder / alone).replace(compiled)


def _is_joinable(text: str) -> bool:
    """Say whether nothing in the file is to stay outside a namespace but known headers."""
    directives = _DIRECTIVE.findall(_without_headers(text))
    return [words.partition(" ")[0] for words in directives] == ["define", "undef"]


def _joined_source(unit: Mapping[str, str]) -> str:
    parts = [
        f"namespace of_{_function_of(path)} {{\n{_without_headers(text)}}}\n"
        for path, text in unit.items()
    ]
    included = any(HEADER in text for text in unit.values())
    return "".join((*_HEADERS[0 if included else 1 :], *parts))


def _function_of(path: str) -> str:
    return PurePosixPath(path).stem


def _without_headers(text: str) -> str:
    while header := next((h for h in _HEADERS if text.startswith(h)), None):
        text = text.removeprefix(header)
    return text


def _build_object(compiler: Compiler, path: str, text: str, kernels: Iterable[str]) -> Path:
    """Return the object of a source that holds those of some paths."""

    def compile_to(output: Path) -> None:
        source = output.parent / path
        source.parent.mkdir(exist_ok=True)
        source.write_text(text, encoding="utf-8")
        arguments = [path, "-c", "-o", str(output)]
        if functions:
            compile_kernel(compiler, text, arguments, output.parent, path)
            _check_entries(output, path, functions)
            _hide_helpers(output, functions)
        else:
            compiler.run(arguments, output.parent, path)

    functions = [_function_of(kernel) for kernel in kernels if kernel != _PROCESSOR.name]
    key = kernel_digest(compiler, _UNGROUP, _HIDE, path, text)
    return built_once("objects", key, compile_to)
