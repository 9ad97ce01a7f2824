"""Clocks: when the host and the streams of a GPU reach a mark."""

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, cast

import torch

from wrapperir import ir as wir
from wrapperir.emit.torch_dtypes import torch_device
from wrapperir.profiling.marks import GPU


class ProfileClock(ABC):
    """Tells the host's time, and records events on streams.

    Times are in nanoseconds from a start of the clock's own.  ``devices`` are those whose
    random numbers a call may draw, beside the CPU's.
    """

    devices: tuple[wir.Device, ...] = ()

    @abstractmethod
    def now(self) -> int:
        """Return the host's time."""

    @abstractmethod
    def record(self, stream: wir.Stream) -> None:
        """Record an event, the next one, on a stream that is the current one."""

    @abstractmethod
    def hold(self, stream: wir.Stream, nanoseconds: int) -> None:
        """Keep a stream busy for about this long, which the host does not wait for."""

    @abstractmethod
    def begin(self) -> None:
        """Wait for all work, and forget the events."""

    @abstractmethod
    def wait(self) -> None:
        """Wait for all work."""

    @abstractmethod
    def events(self) -> Sequence[int]:
        """Wait for all work, and return the times of the events in the order recorded."""

    @abstractmethod
    def allocator_peak(self) -> int | None:
        """Return the most bytes that the allocator gave out since :meth:`begin`.

        Bytes that were there then are not counted; ``None`` if nothing counts them.
        """


class HostClock(ProfileClock):
    """The clock of programs whose work is done when a line has run."""

    def now(self) -> int:
        """Return the host's time."""
        return time.perf_counter_ns()

    def record(self, stream: wir.Stream) -> None:
        """There are no streams."""
        raise AssertionError(f"{stream} is not a stream of the host")

    def hold(self, stream: wir.Stream, nanoseconds: int) -> None:
        """There are no streams."""
        raise AssertionError(f"{stream} is not a stream of the host")

    def begin(self) -> None:
        """Nothing: there is no other work."""

    def wait(self) -> None:
        """Nothing: there is no other work."""

    def events(self) -> Sequence[int]:
        """Return nothing."""
        return ()

    def allocator_peak(self) -> int | None:
        """Return ``None``."""
        return None


class CudaClock(ProfileClock):
    """The clock of programs that give work to GPUs: CUDA events, which are reused."""

    def __init__(self, devices: tuple[wir.Device, ...]) -> None:
        """Time work of these GPUs."""
        self.devices = devices
        self._known: list[tuple[wir.Device, torch.cuda.Event]] = []
        self._free: list[torch.cuda.Event] = []
        self._streams: dict[wir.Stream, torch.cuda.Stream] = {}
        self._bases: dict[wir.Device, tuple[torch.cuda.Event, int]] = {}
        self._taken = 0
        self._cycles = 0.0

    def now(self) -> int:
        """Return the host's time."""
        return time.perf_counter_ns()

    def record(self, stream: wir.Stream) -> None:
        """Record an event."""
        current = self._streams.get(stream)
        if current is None:  # it is looked up once a call, as that takes long
            current = torch.cuda.current_stream(torch_device(stream.device))
            self._streams[stream] = current
        event = self._free.pop() if self._free else _new_event()
        event.record(current)
        self._known.append((stream.device, event))

    def hold(self, stream: wir.Stream, nanoseconds: int) -> None:
        """Have the stream sleep."""
        if not self._cycles:
            self._cycles = self._cycles_a_nanosecond(stream)
        self._sleep(stream, round(nanoseconds * self._cycles))

    def begin(self) -> None:
        """Wait for all work, and forget the events."""
        self.wait()
        self._free += [event for _, event in self._known]
        self._known.clear()
        self._streams.clear()
        self._taken = 0
        for device in self.devices:
            with torch.cuda.device(torch_device(device)):
                base = _new_event()
                at = time.perf_counter_ns()
                base.record(torch.cuda.current_stream())
                base.synchronize()
                self._bases[device] = base, at
                self._taken += torch.cuda.memory_allocated()
                torch.cuda.reset_peak_memory_stats()

    def wait(self) -> None:
        """Wait for all work."""
        for device in self.devices:
            torch.cuda.synchronize(torch_device(device))

    def events(self) -> Sequence[int]:
        """Return the times of the events."""
        self.wait()
        times: list[int] = []
        for device, event in self._known:
            base, at = self._bases[device]
            times.append(at + round(base.elapsed_time(event) * 1e6))
        return times

    def allocator_peak(self) -> int | None:
        """Return what PyTorch's allocator says."""
        peaks = map(torch.cuda.max_memory_allocated, map(torch_device, self.devices))
        return sum(peaks) - self._taken

    def _cycles_a_nanosecond(self, stream: wir.Stream) -> float:
        """Return how many cycles of the GPU's clock are a nanosecond."""
        cycles = 1_000_000
        current = torch.cuda.current_stream(torch_device(stream.device))
        begin, end = _new_event(), _new_event()
        self._sleep(stream, cycles)
        begin.record(current)
        self._sleep(stream, cycles)
        end.record(current)
        end.synchronize()
        return cycles / (float(begin.elapsed_time(end)) * 1e6)

    def _sleep(self, stream: wir.Stream, cycles: int) -> None:
        # PyTorch's tests and benchmarks hold a stream with this, and nothing else can.
        with torch.cuda.device(torch_device(stream.device)):
            cast(Any, torch.cuda)._sleep(cycles)


def _new_event() -> torch.cuda.Event:
    made: torch.cuda.Event = cast(Any, torch.cuda.Event)(enable_timing=True)
    return made


def clock_for(streams: Sequence[wir.Stream]) -> ProfileClock:
    """Return the clock for a program that gives work to these streams of GPUs."""
    devices = tuple(dict.fromkeys(s.device for s in streams if s.device.kind == GPU))
    return CudaClock(devices) if devices else HostClock()
