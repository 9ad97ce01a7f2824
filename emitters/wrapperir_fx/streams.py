"""Streams and events as nodes."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from attrs import define

from wrapperir.ir.line import (
    Argument,
    ExternKernelLine,
    KernelCallLine,
    RecordEventLine,
    WaitEventLine,
)
from wrapperir.ir.program import Program

if TYPE_CHECKING:
    from wrapperir_fx.lines import FxLines


@define
class StreamSurvey:
    """Which streams a program uses."""


def survey_streams(program: Program) -> StreamSurvey:
    """Return which streams a program uses."""
    return StreamSurvey()


class Streams:
    """Appends what streams need."""

    def __init__(self, lines: "FxLines") -> None:
        """Take the streams from the survey."""
        self._lines = lines

    def begin(self) -> None:
        """Append what a call does before its lines."""

    def end(self, outputs: tuple[Argument, ...]) -> None:
        """Append what a call does after its lines."""

    def wait_for_all(self) -> None:
        """Have stream 0 wait for all others: the host is about to read."""

    def zero(self, name: str) -> None:
        """Append the zeroing of a workspace, on stream 0."""
        node = self._lines.values[name].node
        self._lines.nodes.call(torch.ops.aten.zero_.default, (node,))

    def alias(self, name: str, source: str) -> None:
        """Let a name stand for the memory of another."""

    @contextmanager
    def allocating(self, name: str) -> Generator[None]:
        """Put what is appended meanwhile on the stream that first uses the memory."""
        yield

    @contextmanager
    def launching(self, line: KernelCallLine | ExternKernelLine) -> Generator[None]:
        """Put what is appended meanwhile on the line's stream."""
        yield

    def record(self, line: RecordEventLine) -> None:
        """Append the recording of an event."""

    def wait(self, line: WaitEventLine) -> None:
        """Append the wait for an event."""
