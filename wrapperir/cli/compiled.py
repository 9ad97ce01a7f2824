"""The directory that ``compile`` writes."""

import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from attrs import frozen

from wrapperir import __version__
from wrapperir.cli.print import format_as
from wrapperir.cli.run import CONSTANTS_FILE
from wrapperir.cli.source import PROGRAM_TEXT
from wrapperir.emit.artifact import write_artifact
from wrapperir.emit.contract import Artifact
from wrapperir.frontend.lowered import Lowered

MANIFEST = "wrapperir.json"
PROGRAM_JSON = "program.json"


@frozen
class Compiled:
    """A program as it is after the passes, its constants, and what an emitter made."""

    lowered: Lowered
    artifact: Artifact


def write_compiled(compiled: Sequence[Compiled], target: str, directory: Path) -> None:
    """Write programs, constants and artifacts, all or nothing.

    One program is in the directory itself; several are in ``0``, ``1`` and so on.  A
    directory that ``compile`` wrote earlier is replaced.

    Raises:
        OSError: it cannot be written, or holds something else.
    """
    if directory.exists() and not _replaceable(directory):
        raise FileExistsError(17, "exists and was not written by compile", str(directory))
    directory.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{directory.name[:100]}-"
    scratch = Path(tempfile.mkdtemp(prefix=prefix, dir=directory.parent))
    try:
        new, old = scratch / "new", scratch / "old"
        new.mkdir()
        folders = [str(i) for i in range(len(compiled))] if len(compiled) != 1 else ["."]
        for folder, item in zip(folders, compiled, strict=True):
            _write_program(item, new / folder)
        (new / MANIFEST).write_text(_format_manifest(compiled, folders, target))
        if directory.exists():
            os.replace(directory, old)
        os.replace(new, directory)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _write_program(compiled: Compiled, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    program = compiled.lowered.program
    (folder / PROGRAM_TEXT).write_text(format_as(program, "text"), encoding="utf-8")
    (folder / PROGRAM_JSON).write_text(format_as(program, "json"), encoding="utf-8")
    torch.save(dict(compiled.lowered.constants), folder / CONSTANTS_FILE)
    write_artifact(compiled.artifact, folder / compiled.artifact.emitter)


def _format_manifest(
    compiled: Sequence[Compiled], folders: Sequence[str], target: str
) -> str:
    manifest = {
        "wrapperir_compiled": 1,
        "wrapperir": __version__,
        "torch": torch.__version__,
        "target": target,
        "programs": [
            {
                "folder": folder,
                "name": item.lowered.program.name,
                "emitter": item.artifact.emitter,
                "entry": f"{item.artifact.emitter}/{item.artifact.entry}",
                "inputs": [input.name for input in item.lowered.program.inputs],
                "outputs": len(item.lowered.program.outputs),
            }
            for folder, item in zip(folders, compiled, strict=True)
        ],
    }
    return json.dumps(manifest, indent=2) + "\n"


def _replaceable(directory: Path) -> bool:
    return directory.is_dir() and (
        (directory / MANIFEST).is_file() or not any(directory.iterdir())
    )
