"""Emitted code as PyTorch's debugging tools take it: logs, traces, ``run_and_get_code``."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import frozen
from torch._logging._internal import (
    getArtifactLogger,  # pyright: ignore[reportUnknownVariableType]
    trace_log,
    trace_structured,
)

from wrapperir.caching import built_once, digest_of
from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import OutputCode
from wrapperir.text import format_program

_log = getArtifactLogger("torch._inductor.codecache", "output_code")


@frozen
class ShownCode:
    """Emitted code that was shown, its digest, and the file that holds it, if one does."""

    text: str
    digest: str
    path: Path | None


def is_shown() -> bool:
    """Say whether one of PyTorch's debugging tools takes emitted code."""
    traced: Any = trace_log
    saves = _saver() is not None
    return saves or _log.isEnabledFor(10) or bool(traced.handlers)


def _saver() -> Callable[[str], None] | None:
    inductor = sys.modules.get("torch._inductor.graph")  # without, nobody waits for code
    return None if inductor is None else inductor.GraphLowering.save_output_code


def show_output_code(code: OutputCode) -> ShownCode:
    """Pass a program and its emitted code to PyTorch's debugging tools."""
    program, file = code.program, _file_of(code)
    return show_texts(lambda: format_program(program), code.text, code.suffix, file)


def _file_of(code: OutputCode) -> Path | None:
    """Return the file of the artifact that runs, if it is one that stays."""
    folder, entry = code.artifact.folder, code.artifact.entry
    return folder / entry if folder is not None and entry.endswith(code.suffix) else None


def show_texts(
    program: Callable[[], str], text: str, suffix: str, file: Path | None = None
) -> ShownCode:
    """Pass the texts of a program and of its emitted code to PyTorch's debugging tools.

    As for Inductor's, these are the log ``output_code``, the structured trace that tlparse
    reads, and ``torch._inductor.utils.run_and_get_code``.  Unless a ``file`` runs that
    stays, the code is kept in the user's cache, in a file with the ``suffix``.
    """
    digest = digest_of(text)
    path = _kept(f"{digest}{suffix}", text) if file is None else file
    shown = ShownCode(text, digest, path)
    save = _saver()
    if save is not None:
        save(text)
    if _log.isEnabledFor(10):
        _log.debug("Program: \n%s", program())
        _log.debug("Output code: \n%s", text)
        if path is not None:
            _log.debug("Output code written to: %s", path)
    trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": "wrapperir_program", "encoding": "string"},
        payload_fn=program,
    )
    place = {} if path is None else {"filename": str(path), "file_path": os.fspath(path)}
    trace_structured("inductor_output_code", lambda: place, payload_fn=lambda: text)
    return shown


def _kept(name: str, text: str) -> Path | None:
    """Return the file of that name in the user's cache; ``None`` if there is no cache."""

    def write(path: Path) -> None:
        path.write_text(text, encoding="utf-8")

    try:
        return built_once("output_code", name, write)
    except (DiagnosticError, OSError):
        return None
