"""Streams, events and memory of CUDA devices in C++; nothing where a program uses none.

Stream 0 is PyTorch's current stream.  The others are the frame's; they begin after what the
caller has given its stream, and that stream goes on after them.  In a program that has
others, memory is freed when they have met again, at the end of the call.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, LiteralString

from wrapperir.emit.fragment import Fragment, fragment, joined
from wrapperir.emit.source_writer import SourceWriter
from wrapperir.ir.line import (
    ExternKernelLine,
    KernelCallLine,
    RecordEventLine,
    WaitEventLine,
)
from wrapperir.ir.types import Device
from wrapperir_cpp.arena import Region
from wrapperir_cpp.cuda_survey import CudaDevice
from wrapperir_cpp.literals import format_int

if TYPE_CHECKING:
    from wrapperir_cpp.lines import CppLines

CUDA_HEADERS = ("cuda.h", "cuda_driver.h", "triton_descriptors.h")
CUDA_SOURCES = (
    *("cuda.cpp", "cuda_driver.cpp", "cuda_trials.cpp"),
    *("triton_descriptors.cpp", "triton_launch.cpp"),
)
"""The files of the runtime that programs on CUDA need."""


class Streams:
    """Appends what devices, streams and events of CUDA need."""

    def __init__(self, lines: "CppLines") -> None:
        """Take the devices from the survey."""
        self._lines = lines
        self._survey = lines.survey.cuda
        self._names = {
            index: lines.module.names.claim(f"cuda_{index}")
            for index in self._survey.devices
        }

    @property
    def defers_frees(self) -> bool:
        """Whether memory is freed at the end of the call alone."""
        return self._survey.has_streams

    def call(self, device: Device) -> Fragment:
        """Return what a call has of a device, a ``CudaCall&``."""
        return fragment("*c.{}", self._names[device.index or 0])

    def block(self, device: Device) -> Fragment:
        """Return the address of the memory that a call has on a device."""
        return fragment("c.{}->block()", self._names[device.index or 0])

    def workspace(self, device: Device) -> Fragment:
        """Return the address of the memory of a device that is zeroed once and kept."""
        return fragment("c.{}->workspace()", self._names[device.index or 0])

    def format_stream(self, line: KernelCallLine) -> list[Fragment]:
        """Return a call's device and the number of its stream; nothing on the CPU."""
        if line.device.kind != "cuda":
            return []
        return [self.call(line.device), self.number(line.device, line.stream)]

    def number(self, device: Device, stream: int) -> Fragment:
        """Return a stream's number in the emitted program."""
        if not stream:
            return format_int(0)
        return format_int(self._survey.devices[device.index or 0].streams[stream])

    def members(self) -> list[Fragment]:
        """Return what ``struct Call`` has: ``CudaCall* cuda_0``."""
        return [
            fragment("CudaCall* {}", self._names[index]) for index in self._survey.devices
        ]

    def emit_plans(
        self, writer: SourceWriter, blocks: dict[int, Region], kept: dict[int, Region]
    ) -> None:
        """Append what calls need of each device; ``kept`` is memory of the program."""
        for index, device in self._survey.devices.items():
            numbers = [
                index,
                len(device.streams),
                len(device.events) if self._survey.has_streams else 0,
                blocks[index].bytes if index in blocks else 0,
                kept[index].bytes if index in kept else 0,
            ]
            writer.emit_line(
                "constexpr CudaPlan {}_plan = {{{}, {}, {}, {}, {}}};",
                self._names[index],
                *map(format_int, numbers),
            )

    def emit_begin(self, writer: SourceWriter) -> None:
        """Append what comes before ``c`` is there; the first device is then current."""
        for index in reversed(self._survey.devices):
            writer.emit_line(
                "CudaCall {}(*context.devices, {}_plan);", *([self._names[index]] * 2)
            )

    def emit_guards(self, writer: SourceWriter) -> None:
        """Append what comes after ``c`` is there: the members, and the end of a failure."""
        for index in self._survey.devices:
            name = self._names[index]
            writer.emit_line("c.{} = &{};", name, name)
            writer.emit_line("CudaEnd {}_end({});", name, name)

    def emit_end(self, writer: SourceWriter) -> None:
        """Append what comes after all lines."""
        for index in self._survey.devices:
            writer.emit_line("c.{}->end(-1);", self._names[index])

    def emit_wait_for_all(self) -> None:
        """Have each stream 0 wait for the others: the host is about to read."""
        for device in self._survey.devices.values():
            if device.streams:
                self._emit(device, "join", self._lines.line_number())

    def emit_go_on(self) -> None:
        """Have the others wait for each stream 0."""
        for device in self._survey.devices.values():
            if device.streams:
                self._emit(device, "fork", self._lines.line_number())

    def emit_zero(self, device: Device, address: Fragment, bytes: Fragment) -> None:
        """Append the zeroing of memory: after all given before, before all after."""
        with self.on_device(device):
            found = self._survey.devices[device.index or 0]
            self._emit(found, "zero", address, bytes, self._lines.line_number())

    @contextmanager
    def on_device(self, device: Device) -> Generator[None]:
        """Make the device of what is appended meanwhile current."""
        with self._on(device, 0):
            yield

    @contextmanager
    def launching(self, line: KernelCallLine | ExternKernelLine) -> Generator[None]:
        """Put the operator that is appended meanwhile on the line's stream."""
        with self._on(line.device, line.stream):
            yield

    @contextmanager
    def allocating(self, name: str, device: Device) -> Generator[None]:
        """Put the allocation that is appended meanwhile on the stream of its first use."""
        index, stream = self._survey.homes.get(name, (None, 0))
        with self._on(device, stream if index == (device.index or 0) else 0):
            yield

    def emit_record(self, line: RecordEventLine) -> None:
        """Append ``c.cuda_0->record(0, 1, 12);``."""
        index = self._survey.event_devices.get(line.result)
        if index is None or not self._survey.has_streams:
            return
        device = self._survey.devices[index]
        event = format_int(device.events[line.result])
        stream = self.number(line.device, line.stream)
        self._emit(device, "record", event, stream, self._lines.line_number())

    def emit_wait(self, line: WaitEventLine) -> None:
        """Append ``c.cuda_0->wait(*c.cuda_0, 0, 2, 14);``."""
        index = self._survey.event_devices.get(line.event)
        if index is None or not self._survey.has_streams:
            return
        source = self._survey.devices[index]
        event = format_int(source.events[line.event])
        stream = self.number(line.device, line.stream)
        waiting = self._survey.devices[line.device.index or 0]
        recorded = fragment("*c.{}", self._names[index])
        number = self._lines.line_number()
        self._emit(waiting, "wait", recorded, event, stream, number)

    @contextmanager
    def _on(self, device: Device, stream: int) -> Generator[None]:
        index = device.index or 0
        known = self._survey.devices
        first = next(iter(known), None)
        if device.kind != "cuda" or index not in known or (index == first and not stream):
            yield
            return
        writer = self._lines.writer
        writer.emit_line("{{")
        with writer.indented():
            writer.emit_line(
                "OnStream on({}, {}, {});",
                self.call(device),
                self.number(device, stream),
                self._lines.line_number(),
            )
            yield
        writer.emit_line("}}")

    def _emit(
        self, device: CudaDevice, function: LiteralString, *arguments: Fragment
    ) -> None:
        self._lines.writer.emit_line(
            "c.{}->{}({});",
            *(self._names[device.index], fragment(function), joined(", ", arguments)),
        )
