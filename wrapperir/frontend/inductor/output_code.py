"""Emitted code as PyTorch's debugging tools take it: logs, traces, ``run_and_get_code``."""

import os
from collections.abc import Callable
from pathlib import Path

from attrs import frozen
from torch._inductor.codecache import output_code_log
from torch._inductor.graph import GraphLowering
from torch._logging._internal import trace_structured

from wrapperir.caching import built_once, digest_of
from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import OutputCode
from wrapperir.text import format_program


@frozen
class ShownCode:
    """Emitted code that was shown, its digest, and the file that holds it, if one does."""

    text: str
    digest: str
    path: Path | None


def show_output_code(code: OutputCode) -> ShownCode:
    """Pass a program and its emitted code to PyTorch's debugging tools, as Inductor does.

    These are the log ``output_code``, the structured trace that tlparse reads, and
    ``torch._inductor.utils.run_and_get_code``.  The file is kept in the user's cache.
    """
    digest = digest_of(code.text)
    path = _kept(f"{digest}{code.suffix}", code.text)
    shown = ShownCode(code.text, digest, path)
    save: Callable[[str], None] | None = GraphLowering.save_output_code
    if save is not None:
        save(code.text)
    if output_code_log.isEnabledFor(10):
        output_code_log.debug("Program: \n%s", format_program(code.program))
        output_code_log.debug("Output code: \n%s", code.text)
        if path is not None:
            output_code_log.debug("Output code written to: %s", path)
    trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": "wrapperir_program", "encoding": "string"},
        payload_fn=lambda: format_program(code.program),
    )
    file = {} if path is None else {"filename": str(path), "file_path": os.fspath(path)}
    trace_structured("inductor_output_code", lambda: file, payload_fn=lambda: code.text)
    return shown


def _kept(name: str, text: str) -> Path | None:
    """Return the file of that name in the user's cache; ``None`` if there is no cache."""

    def write(path: Path) -> None:
        path.write_text(text, encoding="utf-8")

    try:
        return built_once("output_code", name, write)
    except (DiagnosticError, OSError):
        return None
