"""Graphs that fail to compile: advice, the user's line, and compilation by Inductor."""

import logging
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import torch
from attrs import evolve

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend.provenance import user_place
from wrapperir.ir import SourcePlace

T = TypeVar("T")

_HINT = "keep this part of the model out with torch.compiler.disable"
_FALLBACK = "or have Inductor compile its graph: options={'fallback': 'inductor'}"
_OFFER = (
    "options={'bug_report': 'DIR'} writes a folder, without tensors, to report this with"
)

_OF_OPTIONS = {Code.INVALID_OPTION, Code.UNKNOWN_EMITTER, Code.UNKNOWN_PASS}
"""Errors of the backend's options, which are raised as they are."""

_logger = logging.getLogger("wrapperir.fallback")


ReportFailure: TypeAlias = Callable[[Exception], Path | None]
"""Writes a report of a failure and returns its folder, if reports are asked for."""


def compile_or_fall_back(
    compile: Callable[[], T],
    fall_back: Callable[[], T] | None,
    *,
    is_backward: bool,
    report: ReportFailure | None = None,
) -> T:
    """Return what ``compile`` returns; if it fails, warn and return the other's result.

    ``report`` is given the error.

    Raises:
        DiagnosticError: the error, with advice, if there is nothing to fall back on; or it
            is about the backend's options.
    """
    try:
        return compile()
    except DiagnosticError as error:
        if any(d.code in _OF_OPTIONS for d in error.diagnostics):
            raise
        folder = None if report is None else report(error)
        told = _OFFER if folder is None else f"{folder} has a report of this"
        if fall_back is None:
            advised = [
                evolve(d, hint=f"{d.hint or _HINT}, {_FALLBACK}; {told}")
                for d in error.diagnostics
            ]
            raise DiagnosticError(*advised) from error.__cause__
        role = "backward" if is_backward else "forward"
        _logger.warning("Inductor compiles this %s graph: %s; %s", role, error, told)
    from wrapperir.frontend.donation import donate_nothing

    # The graph's other half does not know which saved tensors share memory.
    donate_nothing()
    return fall_back()


def error_origin(
    error: BaseException, locate: Callable[[object], SourcePlace | None]
) -> str | None:
    """Return the user's line of what the innermost frame was working on.

    ``locate`` returns that of a value of a local variable, if it has one.
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    found: Iterator[SourcePlace | None] = (
        locate(value)
        for frame in reversed(frames)
        for value in list(frame.f_locals.values())
    )
    return next((f"{place.file}:{place.line}" for place in found if place), None)


def node_location(value: Any) -> SourcePlace | None:
    """Return the user's line of a node of a graph; ``None`` for other values."""
    if isinstance(value, torch.fx.Node):
        return user_place(value.meta.get("stack_trace"))
    return None
