"""Paths of the files of an artifact, and packages of built artifacts."""

import json
import platform
import sys
from pathlib import Path

from wrapperir import __version__
from wrapperir.diagnostics import Code
from wrapperir.emit.artifact import checked_content, read_manifest
from wrapperir.emit.package import write_package

TEXT = "program.wir"
PROGRAM = "program.cpp"
RUNTIME = "runtime/"
"""Folder of the runtime's headers and sources, which are compiled with the program."""
CORE_SOURCES = tuple(
    f"{RUNTIME}{name}.cpp"
    for name in (
        *("aoti_interface", "api", "choices", "input_checks"),
        *("numbers", "operators", "program"),
    )
)
"""Sources that every program has."""
BRIDGE_SOURCE = "runtime/bridge.cpp"
BRIDGE_LIBRARY = "operators.so"
"""Calls operators through PyTorch's C++ interface, if a program needs its source."""
POOLS_SOURCE = "runtime/graph_pools.cpp"
POOLS_LIBRARY = "graph_pools.so"
POOLS_NAME = "libwrapperir_graph_pools.so.1"
"""Pools of PyTorch's allocator, for programs with graph regions.

A process loads one library of this name, which is that of ``runtime/graph_pools.h``.
"""
PRIVATEUSE1_SOURCE = "runtime/privateuse1.cpp"
"""Part of programs for devices of PyTorch's type PrivateUse1."""
KERNELS = "kernels/"
"""Folder of the kernels; its files are not compiled with the program."""
BUILD_FACTS = "build.json"
"""Facts of a program that its build needs: ``devices``, ``libraries`` and ``constants``.

With debug information, also ``debug_info``, its source.
"""
LIBRARY = "program.so"


def package_library(directory: Path, path: Path) -> None:
    """Write the built artifact in ``directory`` to one file that PyTorch loads as well.

    Raises:
        DiagnosticError: WIR710, the directory holds no artifact, or one that was changed
            or is not built.
        OSError: a file cannot be read or written; ``path`` is then as it was before.
    """
    _, manifest = read_manifest(directory)
    for file in (LIBRARY, BUILD_FACTS):
        if file not in manifest.files:
            message = f"{directory} has no {file}: it was emitted, but not built"
            hint = "wrapperir compile PROGRAM.wir --emitter cpp -o DIR builds it"
            raise Code.INVALID_ARTIFACT.error(message, hint=hint)
    place = directory / BUILD_FACTS
    facts = checked_content(place.read_bytes(), manifest.files[BUILD_FACTS], place)
    model = {
        "AOTI_DEVICE_KEY": "cuda" if "cuda" in json.loads(facts)["devices"] else "cpu",
        # PyTorch compares these with the machine that loads the package.
        "AOTI_PLATFORM": sys.platform,
        "AOTI_MACHINE": platform.machine(),
        "wrapperir": __version__,
    }
    write_package(directory, path, model)
