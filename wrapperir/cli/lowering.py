"""From what ``compile`` is given to programs, through a frontend."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.fx.traceback import annotate_fn

from wrapperir.cli.target import Target, guarded, load_target
from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.frontend.lowered import Lowered


class _AsModule(torch.nn.Module):
    """A function as a module, which is what ``torch.export`` takes."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        # Traces of torch.export name frames of forward methods and of annotated functions
        # only; without, every node would seem to come from this file.
        self.function = annotate_fn({})(function)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def lower_target(text: str, frontend: str) -> Sequence[Lowered]:
    """Return the programs of ``FILE.py:NAME`` or of an exported ``.pt2`` file.

    Raises:
        DiagnosticError: WIR900 to WIR903, or what the frontend reports.
        OSError: the file cannot be read.
    """
    if text.endswith(".pt2"):
        if frontend != "export":
            raise DiagnosticError(
                Diagnostic(
                    code=Code.TARGET_SPELLING,
                    message=f"a .pt2 file goes through the export frontend, not {frontend}",
                )
            )
        return [_lower_file(Path(text))]
    path = Path(text.rpartition(":")[0])
    target = load_target(text)
    if frontend == "inductor":
        return _capture(path, target)
    return [_lower(guarded(path, _export, target))]


def _lower_file(path: Path) -> Lowered:
    path.open("rb").close()
    return _lower(guarded(path, torch.export.load, path))


def _export(target: Target) -> torch.export.ExportedProgram:
    function = target.function
    module = function if isinstance(function, torch.nn.Module) else _AsModule(function)
    return torch.export.export(
        module, target.args, target.kwargs, dynamic_shapes=target.dynamic_shapes
    )


def _lower(exported: torch.export.ExportedProgram) -> Lowered:
    from wrapperir.frontend.export import lower_exported

    return lower_exported(exported)


def _capture(path: Path, target: Target) -> Sequence[Lowered]:
    from wrapperir.frontend.inductor import capture

    def call(*args: Any) -> Any:
        return target.function(*args, **target.kwargs)

    function = call if target.kwargs else target.function
    found: Sequence[Lowered] = guarded(path, capture, function, target.args)
    return found
