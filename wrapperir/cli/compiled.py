"""The directory that ``compile`` writes."""

import json
from pathlib import Path

import torch
from attrs import frozen

from wrapperir import __version__
from wrapperir.cli.print import format_as
from wrapperir.cli.source import PROGRAM_JSON, PROGRAM_TEXT
from wrapperir.diagnostics import Code
from wrapperir.emit import Artifact
from wrapperir.emit.artifact import replacing
from wrapperir.emit.constants import write_with_constants
from wrapperir.frontend import Lowered
from wrapperir.loading import COMPILED_MANIFEST


@frozen
class Compiled:
    """A program after the passes, its constants, and its emitted artifact."""

    lowered: Lowered
    artifact: Artifact


def check_directory(directory: Path) -> None:
    """Refuse a directory to write to that is neither empty nor written by ``compile``.

    Raises:
        DiagnosticError: WIR710, it holds something else.
        OSError: it cannot be read.
    """
    if directory.exists() and not _replaceable(directory):
        raise Code.INVALID_ARTIFACT.error(
            f"{directory} exists and was not written by compile, so it is not replaced",
            hint="give a new or empty directory",
        )


def write_compiled(compiled: Compiled, target: str, directory: Path) -> None:
    """Write a program, its constants and its artifact, all or nothing.

    A directory that ``compile`` wrote earlier is replaced.

    Raises:
        DiagnosticError: as :func:`check_directory`.
        OSError: it cannot be written.
    """
    check_directory(directory)
    program, artifact = compiled.lowered.program, compiled.artifact
    with replacing(directory) as new:
        (new / PROGRAM_TEXT).write_text(format_as(program, "text"), encoding="utf-8")
        (new / PROGRAM_JSON).write_text(format_as(program, "json"), encoding="utf-8")
        constants = compiled.lowered.constants
        write_with_constants(program, artifact, constants, new / artifact.emitter)
        manifest = _format_manifest(compiled, target)
        (new / COMPILED_MANIFEST).write_text(manifest, encoding="utf-8")


def _format_manifest(compiled: Compiled, target: str) -> str:
    program, artifact = compiled.lowered.program, compiled.artifact
    manifest = {
        "wrapperir_compiled": 1,
        "wrapperir": __version__,
        "torch": torch.__version__,
        "target": target,
        "programs": [
            {
                "folder": ".",
                "name": program.name,
                "emitter": artifact.emitter,
                "entry": f"{artifact.emitter}/{artifact.entry}",
                "inputs": [input.name for input in program.inputs],
                "outputs": len(program.outputs),
            }
        ],
    }
    return json.dumps(manifest, indent=2) + "\n"


def _replaceable(directory: Path) -> bool:
    return directory.is_dir() and (
        (directory / COMPILED_MANIFEST).is_file() or not any(directory.iterdir())
    )
