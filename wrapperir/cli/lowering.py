"""Turns the target of ``compile`` into a program with constants."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.fx.traceback import annotate_fn

from wrapperir.cli.source import (
    PROGRAM_JSON,
    PROGRAM_TEXT,
    STANDARD_INPUT,
    Source,
    parse_source,
)
from wrapperir.cli.target import Target, guarded, load_target, split_target
from wrapperir.cli.value_files import load_constants
from wrapperir.emit.constants import read_constants
from wrapperir.frontend import Lowered
from wrapperir.loading import find_artifacts


class _AsModule(torch.nn.Module):
    """A function as a module, which is what ``torch.export`` takes."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        # Traces of torch.export name frames of forward methods and of annotated functions
        # only; without, every node would seem to come from this file.
        self.function = annotate_fn({})(function)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def check_target(text: str) -> Path:
    """Return the file of ``FILE.py:NAME`` or of an exported program; executes nothing.

    Raises:
        DiagnosticError: WIR900, it is spelled otherwise.
        OSError: the file cannot be read.
    """
    path = Path(text) if text.endswith(".pt2") else split_target(text)[0]
    path.open("rb").close()
    return path


def lower_target(text: str, frontend: str) -> Lowered:
    """Return the program of what :func:`check_target` accepts.

    Raises:
        DiagnosticError: WIR901 to WIR903, WIR907, or what the frontend reports.
        OSError: the file cannot be read.
    """
    path = check_target(text)
    if text.endswith(".pt2"):
        exported = guarded(path, _load, path)
    else:
        exported = guarded(path, _export, load_target(text))
    if frontend == "export":
        return _lower(exported)
    lowered: Lowered = guarded(path, _fuse, exported)
    return lowered


def _load(path: Path) -> torch.export.ExportedProgram:
    # The error for a file that is not an exported program has what torch logs about it.
    logger = logging.getLogger("torch.export")
    was_disabled, logger.disabled = logger.disabled, True
    try:
        return torch.export.load(path)
    finally:
        logger.disabled = was_disabled


def _export(target: Target) -> torch.export.ExportedProgram:
    function = target.function
    module = function if isinstance(function, torch.nn.Module) else _AsModule(function)
    return torch.export.export(
        module, target.args, target.kwargs, dynamic_shapes=target.dynamic_shapes
    )


def _lower(exported: torch.export.ExportedProgram) -> Lowered:
    from wrapperir.frontend.export import lower_exported

    return lower_exported(exported)


def _fuse(exported: torch.export.ExportedProgram) -> Lowered:
    from wrapperir.frontend.inductor import lower_exported

    return lower_exported(exported)


def is_program(target: str) -> bool:
    """Return whether a target names a program and not Python code."""
    named = target.endswith((".wir", ".json")) or target == STANDARD_INPUT
    return named or Path(target).is_dir()


def read_program(source: Source, target: str, file: str | None) -> tuple[Lowered, Source]:
    """Return a program with the constants in ``file`` or beside it, and its text.

    Raises:
        DiagnosticError: the text is malformed; WIR904, the file is not a dict of
            tensors; or WIR710, the constants beside the program are malformed.
        OSError: a file cannot be read.
    """
    program, source = parse_source(source)
    if file is not None:
        return Lowered(program, load_constants(file)), source
    folder = _folder(target)
    beside = find_artifacts(folder) if folder is not None else ()
    for artifact in beside:
        if found := read_constants(artifact):
            return Lowered(program, found), source
    return Lowered(program, {}), source


def _folder(target: str) -> Path | None:
    """Return the folder that ``compile`` wrote the program to, if it did."""
    path = Path(target)
    if target != STANDARD_INPUT and path.is_dir():
        return path
    return path.parent if path.name in {PROGRAM_TEXT, PROGRAM_JSON} else None
