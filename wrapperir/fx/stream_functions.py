"""Functions that graphs call for streams and events.

:func:`stream` returns a stream of PyTorch on a GPU, and ``None`` on other devices, where
work runs in order and these functions do nothing.
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
    """Return a stream of ``device``: the current one for 0, else one for each number."""
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
    """Make a stream and its device current; return the argument of :func:`exit_stream`."""
    if stream is None:
        return None
    entered = ExitStack()
    entered.enter_context(torch.cuda.stream(stream))
    return entered


@has_side_effect
def exit_stream(entered: ExitStack | None) -> None:
    """Restore the stream and device from before :func:`enter_stream`."""
    if entered is not None:
        entered.close()


@has_side_effect
def wait_stream(stream: torch.cuda.Stream, other: torch.cuda.Stream) -> None:
    """Let later work of ``stream`` wait for all earlier work of ``other``."""
    stream.wait_stream(other)


@has_side_effect
def record_event(stream: torch.cuda.Stream | None) -> torch.cuda.Event | None:
    """Return an event after all earlier work of a stream."""
    return None if stream is None else cast(torch.cuda.Event, stream.record_event())


@has_side_effect
def wait_event(stream: torch.cuda.Stream | None, event: torch.cuda.Event | None) -> None:
    """Let later work of ``stream`` wait for an event."""
    if stream is not None and event is not None:
        stream.wait_event(event)


@has_side_effect
def record_stream(tensor: torch.Tensor, stream: torch.cuda.Stream) -> None:
    """Keep the memory of a tensor from other uses until ``stream`` is done with it."""
    tensor.record_stream(stream)
