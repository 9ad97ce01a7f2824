"""Objects and libraries, each built once and kept in the user's cache."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

import torch

from wrapperir.caching import built_once, digest_of
from wrapperir.kernels.compiler import Compiler
from wrapperir.kernels.cpp_build import torch_facts

_INCLUDE = re.compile(r'^\s*#\s*include\s*["<](?:[^">\n]*/)?([^">/\n]+)[">]', re.MULTILINE)
_LINK_FLAGS = (
    *("-shared", "-Wl,--no-as-needed", "-Wl,-Bsymbolic", "-Wl,-z,now"),
    # Tensors may outlive a program, and what releases their memory is in its library.
    "-Wl,-z,nodelete",
)


def compile_object(
    compiler: Compiler,
    path: str,
    text: str,
    headers: Mapping[str, str],
    flags: Sequence[str],
) -> Path:
    """Return the object of a source, which finds ``headers`` as they lie beside it.

    Paths are relative, with ``/``; messages show them.  Headers that the source does not
    include have no part in its key, so that programs with other headers share the object.

    Raises:
        DiagnosticError: WIR709, it does not compile; WIR710, there is no place to keep it.
    """
    headers = _included_headers(text, headers)
    folders = sorted({str(PurePosixPath(header).parent) for header in headers})
    flags = [*flags, *(f"-I{folder}" for folder in folders)]
    facts = compiler.command, compiler.version, flags, torch_facts()
    key = digest_of((*facts, path, text, sorted(headers.items())))

    def compile_to(output: Path) -> None:
        for name, content in (*headers.items(), (path, text)):
            file = output.parent / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, encoding="utf-8")
        arguments = [*flags, "-c", path, "-o", str(output)]
        compiler.run(arguments, output.parent, path)

    return built_once("objects", key, compile_to)


def _included_headers(text: str, headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that a source includes, by their file names, and those in turn."""
    found: dict[str, str] = {}
    texts = [text]
    while texts:
        names = set(_INCLUDE.findall(texts.pop()))
        for path, content in headers.items():
            if path not in found and PurePosixPath(path).name in names:
                found[path] = content
                texts.append(content)
    return found


def link_library(
    compiler: Compiler,
    name: str,
    objects: Sequence[Path],
    libraries: Sequence[str],
    exported: Sequence[str],
    flags: Sequence[str] = (),
) -> Path:
    """Return the library of some objects, in the user's cache.

    ``libraries`` are torch's that it needs, by file name, of which those that this torch
    has are taken; ``exported`` are patterns of the functions that it exports.

    Raises:
        DiagnosticError: WIR709, it does not link; WIR710, there is no place to keep it.
    """
    folder = Path(torch.__file__).parent / "lib"
    libraries = [library for library in libraries if (folder / library).exists()]
    flags = (*_LINK_FLAGS, *flags, f"-Wl,-rpath,{folder}")
    facts = compiler.command, compiler.version, flags, libraries, exported
    key = digest_of((*facts, [path.name for path in objects]))

    # Before the lock for this library is held: it may be theirs, too.
    stubs = [str(_stub(compiler, library)) for library in libraries]

    def link(output: Path) -> None:
        script = output.parent / "exported"
        names = "".join(f"{pattern}; " for pattern in exported)
        script.write_text(f"{{ global: {names}local: *; }};\n")
        arguments = [*flags, "-Wl,--version-script=exported", *map(str, objects), *stubs]
        compiler.run([*arguments, "-o", str(output)], output.parent, name)

    return built_once("libraries", key, link)


def _stub(compiler: Compiler, library: str) -> Path:
    """Return an empty library of this name: linking with torch's own takes longer."""
    flags = ("-shared", "-nostdlib", f"-Wl,-soname,{library}", "-xc++", os.devnull)
    key = digest_of((compiler.command, compiler.version, flags))

    def link(output: Path) -> None:
        compiler.run([*flags, "-o", str(output)], output.parent, library)

    return built_once("libraries", key, link)
