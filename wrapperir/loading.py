"""Loading of compiled programs and artifacts as Python callables."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import Loaded, Value, read_artifact
from wrapperir.emit.artifact import MANIFEST

COMPILED_MANIFEST = "wrapperir.json"
"""The name of the manifest of a directory that ``compile`` wrote."""


@frozen
class LoadedProgram:
    """A program that is called with its inputs in order and returns a tuple of outputs.

    ``call`` takes the inputs as a list, which it empties: where the list holds the last
    reference to an input, its memory is released as soon as the program frees it.
    """

    call: Loaded

    def __call__(self, *inputs: Value) -> tuple[Value, ...]:
        """Run the program.

        Raises:
            RuntimeError: the inputs are not as the program declares, or an operator fails;
                emitters may raise other errors.
        """
        return self.call(list(inputs))


def load(path: str | os.PathLike[str]) -> LoadedProgram:
    """Load a compiled program; this executes its code, so load only what you trust.

    ``path`` is a directory that ``wrapperir compile`` wrote, an emitter's directory in it,
    or a package.  Where there are several programs, it is the folder of one of them.

    The digests of all files are checked against the manifest before any is executed.

    Raises:
        DiagnosticError: WIR710, there is no program, or a file is missing, malformed or
            changed; WIR908, there are several programs; WIR700, the emitter that made it
            is not installed; or what the emitter reports.
        OSError: a file cannot be read.
    """
    # What maps files is imported late: naming a directory's files needs none of it.
    from wrapperir.emit.constants import read_constants
    from wrapperir.emit.package import is_package, read_package
    from wrapperir.emit.pipeline import find_emitter, load_stored

    path = Path(path)
    if is_package(path):
        package = read_package(path)
        artifact, constants = package.artifact, package.constants
    else:
        directory = find_artifact(path)
        artifact, constants = read_artifact(directory), read_constants(directory)
    emitter = find_emitter(artifact.emitter)
    return LoadedProgram(load_stored(artifact, emitter, constants))


def find_artifacts(directory: Path) -> Sequence[Path]:
    """Return the artifacts in the folder of a program, in the order of their names."""
    return sorted(manifest.parent for manifest in directory.glob(f"*/{MANIFEST}"))


def find_artifact(path: Path) -> Path:
    """Return the directory of the only artifact in a directory that ``compile`` wrote.

    Raises:
        DiagnosticError: WIR710, there is none; WIR908, there are several.
    """
    if (path / MANIFEST).is_file():
        return path
    if not path.exists():
        raise _nothing(f"{path} does not exist")
    if not path.is_dir():
        raise _nothing(f"{path} is neither a directory nor a package")
    folders = _program_folders(path)
    found = [artifact for folder in folders for artifact in find_artifacts(folder)]
    if not found:
        raise _nothing(f"{path} holds no compiled program")
    if len(found) > 1:
        shown = ", ".join(str(artifact) for artifact in found[:10])
        raise Code.NO_PROGRAM.error(
            f"{path} holds {len(found)} programs", hint=f"load one of {shown}"
        )
    return found[0]


def _program_folders(path: Path) -> list[Path]:
    """Return the program folders in a manifest of ``compile``, or the directory itself."""
    listing = path / COMPILED_MANIFEST
    if not listing.is_file():
        return [path]
    try:
        found = json.loads(listing.read_bytes())
        names = [_checked_folder(program["folder"]) for program in found["programs"]]
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise _nothing(f"{listing} is malformed: {type(error).__name__} {error}") from None
    return [path / name for name in names]


def _checked_folder(name: object) -> str:
    if not isinstance(name, str) or not (name == "." or name.isdecimal()):
        raise ValueError(f"{name!r:.40} is not the folder of a program")
    return name


def _nothing(message: str) -> DiagnosticError:
    return Code.INVALID_ARTIFACT.error(message)
