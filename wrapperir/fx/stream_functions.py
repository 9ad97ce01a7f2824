"""Functions that graphs call for streams and events.

A stream is what :func:`stream` returns: PyTorch's on a GPU, ``None`` on other devices,
where work runs in the order in which it is given and nothing is to be done.
"""

# torch says little of its types.
# pyright: reportUnknownMemberType=false

import functools
from collections.abc import Callable
from contextlib import ExitStack
from typing import cast

import torch
from torch.fx.node import has_side_effect


def stream(device: torch.device, number: int) -> torch.cuda.Stream | None:
    """Return a stream of ``device``: its current one for 0, else one that is made once."""
    if device.type != "cuda":
        return None
    if number == 0:
        return torch.cuda.current_stream(device)
    return _side_stream(device, number)


@functools.cache
def _side_stream(device: torch.device, number: int) -> torch.cuda.Stream:
    make: Callable[[torch.device], torch.cuda.Stream] = torch.cuda.Stream
    return make(device)


@has_side_effect
def enter_stream(stream: torch.cuda.Stream | None) -> ExitStack | None:
    """Make a stream, and its device, current; return what :func:`exit_stream` takes."""
    if stream is None:
        return None
    entered = ExitStack()
    entered.enter_context(torch.cuda.stream(stream))
    return entered


@has_side_effect
def exit_stream(entered: ExitStack | None) -> None:
    """Make current again what was so before :func:`enter_stream`."""
    if entered is not None:
        entered.close()


@has_side_effect
def wait_stream(stream: torch.cuda.Stream, other: torch.cuda.Stream) -> None:
    """Have what ``stream`` is given from here on wait for all that ``other`` was given."""
    stream.wait_stream(other)


@has_side_effect
def record_event(stream: torch.cuda.Stream | None) -> torch.cuda.Event | None:
    """Return the point that a stream's work has reached."""
    return None if stream is None else cast(torch.cuda.Event, stream.record_event())


@has_side_effect
def wait_event(stream: torch.cuda.Stream | None, event: torch.cuda.Event | None) -> None:
    """Have what ``stream`` is given from here on wait until an event is reached."""
    if stream is not None and event is not None:
        stream.wait_event(event)


@has_side_effect
def record_stream(tensor: torch.Tensor, stream: torch.cuda.Stream) -> None:
    """Have the allocator give memory to no other use until ``stream`` is done with it."""
    tensor.record_stream(stream)
