"""Packages of built libraries, which PyTorch's own loaders load as well."""

import json
import platform
import sys
from pathlib import Path

from wrapperir import __version__
from wrapperir.diagnostics import Code
from wrapperir.emit.artifact import Manifest, checked_content, read_manifest
from wrapperir.emit.package import write_package
from wrapperir_cpp.layout import BUILD_FACTS, LIBRARY


def package_library(directory: Path, path: Path) -> None:
    """Write the built artifact in ``directory`` to the single file ``path``.

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
    model = {
        "AOTI_DEVICE_KEY": _device(manifest, directory),
        # What PyTorch compares with the machine that loads it.
        "AOTI_PLATFORM": sys.platform,
        "AOTI_MACHINE": platform.machine(),
        "wrapperir": __version__,
    }
    write_package(directory, path, model)


def _device(manifest: Manifest, directory: Path) -> str:
    file = directory / BUILD_FACTS
    facts = checked_content(file.read_bytes(), manifest.files[BUILD_FACTS], file)
    return "cuda" if "cuda" in json.loads(facts)["devices"] else "cpu"
