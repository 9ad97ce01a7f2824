"""Operators that order a program's streams with the user's streams and events.

They are in ``torch.ops.wrapperir_streams``; importing this module registers them.  Each
acts on the current stream of the GPU ``device``.  ``stream`` and ``event`` are positions in
the table in which Dynamo keeps the objects of the call that is running.
"""

# torch says little of its types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Callable
from typing import Any, cast

import torch
from torch._dynamo.graph_bytecode_inputs import get_external_object_by_index
from torch.fx.node import has_side_effect
from torch.library import Library

NAMESPACE = "wrapperir_streams"


def _current(device: int) -> Any:
    return cast(Any, torch.cuda.current_stream(device))


def _begin(stream: int, device: int) -> None:
    """Have the current stream wait for the work that a stream of the user was given."""
    _current(device).wait_stream(get_external_object_by_index(stream))


def _end(stream: int, device: int) -> None:
    """Have a stream of the user wait for the work that the current stream was given."""
    get_external_object_by_index(stream).wait_stream(_current(device))


def _record_event(event: int, device: int) -> None:
    get_external_object_by_index(event).record(_current(device))


def _wait_event(event: int, device: int) -> None:
    get_external_object_by_index(event).wait(_current(device))


def _synchronize(device: int) -> None:
    """Have the host wait for the current stream."""
    _current(device).synchronize()


_OPERATORS: dict[str, Callable[..., None]] = {
    "begin(int stream, int device) -> ()": _begin,
    "end(int stream, int device) -> ()": _end,
    "record_event(int event, int device) -> ()": _record_event,
    "wait_event(int event, int device) -> ()": _wait_event,
    "synchronize(int device) -> ()": _synchronize,
}
# An operator lives as long as its library.
_LIBRARY = cast(Any, Library)(NAMESPACE, "DEF")  # torch gives it no types


def _register(schema: str, run: Callable[..., None]) -> None:
    name = schema.partition("(")[0]
    _LIBRARY.define(schema)
    _LIBRARY.impl(name, run, "CompositeExplicitAutograd")
    # They have no result, so that they must not be dead code.
    has_side_effect(getattr(torch.ops.wrapperir_streams, name).default)


for _schema, _function in _OPERATORS.items():
    _register(_schema, _function)
