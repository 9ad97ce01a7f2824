"""Programs with their emitted files, as they are kept for later processes."""

import base64
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from attrs import asdict, frozen

from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import Artifact, OutputCode
from wrapperir.emit.pipeline import find_emitter, format_code, load_stored

if TYPE_CHECKING:
    from wrapperir.emit import Loaded

SETTING = "WRAPPERIR_PROGRAM_CACHE"
"""The environment variable that, as ``0``, turns the caches of programs off."""


def keeps_programs() -> bool:
    """Say whether the environment leaves the caches of programs on."""
    return os.environ.get(SETTING, "").strip() != "0"


@frozen(kw_only=True)
class KeptProgram:
    """A program's text and its artifact.

    ``donated`` are the positions of the inputs that a backward is given for good,
    ``not_donated`` the positions, among all that a forward saves, of tensors that the
    backward is not given so.  ``constants`` has the name of a tensor that is kept elsewhere
    for the key of each constant; ``strides`` are those of results that are not as traced.
    """

    program: str
    emitter: str
    entry: str
    files: Mapping[str, str | bytes]
    metadata: Mapping[str, str]
    constants: Mapping[str, str]
    donated: Sequence[int]
    not_donated: Sequence[int]
    strides: Sequence[Sequence[int] | None] = ()

    @property
    def artifact(self) -> Artifact:
        """The artifact of the emitted files."""
        return Artifact(self.emitter, self.files, self.entry, self.metadata)

    @property
    def text(self) -> str:
        """The emitted code, as one text for people."""
        return format_code(self.artifact, find_emitter(self.emitter))

    @property
    def suffix(self) -> str:
        """The suffix of a file that holds the text, such as ``.py``."""
        shown = find_emitter(self.emitter).shown_files(self.artifact)
        return PurePosixPath(shown[0]).suffix

    def load(self, variables: Mapping[str, Any]) -> "Loaded":
        """Return the callable of the program; ``variables`` has the constants.

        Raises:
            OSError: it cannot be loaded; the graph is then compiled anew.
        """
        try:
            emitter = find_emitter(self.emitter)
            constants = {key: variables[name] for key, name in self.constants.items()}
            loaded = load_stored(self.artifact, emitter, constants)
        except (DiagnosticError, KeyError) as error:
            raise OSError(f"a program that was kept does not load: {error}") from error
        if not self.donated and not self.not_donated:
            return loaded
        from wrapperir.frontend.donation import donate_less, retaining

        donate_less(self.not_donated)
        return retaining(loaded, self.donated) if self.donated else loaded


def kept_program(
    code: OutputCode,
    constants: Mapping[str, str],
    donated: Sequence[int],
    not_donated: Sequence[int],
) -> KeptProgram:
    """Return emitted code as it is kept; ``constants`` names tensors by their keys."""
    from wrapperir.text import format_program

    artifact = code.artifact
    return KeptProgram(
        program=format_program(code.program),
        emitter=artifact.emitter,
        entry=artifact.entry,
        files=artifact.files,
        metadata=artifact.metadata,
        constants=constants,
        donated=tuple(donated),
        not_donated=tuple(not_donated),
    )


def format_kept(kept: KeptProgram) -> str:
    """Return a kept program as JSON; files that are bytes are in base 64."""
    files = {
        path: content
        if isinstance(content, str)
        else {"base64": base64.b64encode(content).decode()}
        for path, content in kept.files.items()
    }
    return json.dumps({**asdict(kept), "files": files})


def parse_kept(text: str) -> KeptProgram:
    """Return the kept program of a JSON text.

    Raises:
        ValueError: it is not the text of a kept program.
    """
    try:
        fields: Any = json.loads(text)
        fields["files"] = {
            path: content if isinstance(content, str) else _decoded(content["base64"])
            for path, content in fields["files"].items()
        }
        return KeptProgram(**fields)
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ValueError("not the text of a kept program") from error


def _decoded(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
