"""Places in the user's source, found in the stack traces that torch records."""

import re
from pathlib import Path

import torch

import wrapperir
from wrapperir.ir.line import SourceLocation

_FRAME = re.compile(r'File "([^"\n]+)", line (\d+)')
_WRAPPERIR, _TORCH = (
    str(Path(str(package.__file__)).parent / "_")[:-1] for package in (wrapperir, torch)
)


def user_location(stack_trace: object) -> SourceLocation | None:
    """Return the place of the innermost frame that is neither torch's nor this package's.

    Where there is none, as for a module of torch that is lowered by itself, it is the
    innermost frame in torch; ``None`` if there is no frame at all.
    """
    if not isinstance(stack_trace, str):
        return None
    in_torch: SourceLocation | None = None
    # The innermost frame is the last; traces run to many frames.
    at = len(stack_trace)
    while (at := stack_trace.rfind('File "', 0, at)) >= 0:
        frame = _FRAME.match(stack_trace, at)
        # Generated code has names such as <eval_with_key>.
        if frame is None or frame[1].startswith(("<", _WRAPPERIR)):
            continue
        location = SourceLocation(frame[1], int(frame[2]))
        if not frame[1].startswith(_TORCH):
            return location
        in_torch = in_torch or location
    return in_torch
