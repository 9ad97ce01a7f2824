"""The kernels of a program among the events of a trace that torch.profiler wrote."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from attrs import define, frozen

from wrapperir.ir import KernelDefinitionLine, Language, MultiKernelLine, Program

_GRAPH = re.compile(r"graph_\d+_")
"""What Inductor puts before the name of a C++ kernel, for the graph in this process."""

_SUFFIX = re.compile(r"\d+[cde][\dcde]*")
"""What versions of Triton put after a name, for how a kernel is specialised: ``0d1d2``."""

_FOREVER = 1e18
"""Microseconds that no time of a profile reaches."""

_HOST = ("cpu_op", "user_annotation")
_DEVICE = "kernel"


class WrongTraceError(ValueError):
    """A file is no trace in Chrome's format."""


@define
class TracedKernel:
    """The events of a kernel: how many there are, and their time in nanoseconds.

    Several ``names`` are kernels that have one name in a trace.  Times of the host are
    those of launches, if a device runs the kernel.  An event within one of the same kernel
    on the host is a part of it, and not counted.
    """

    names: tuple[str, ...]
    host_events: int = 0
    host_ns: float = 0
    device_events: int = 0
    device_ns: float = 0

    @property
    def events(self) -> int:
        """The number of runs: on a device, if there are any."""
        return self.device_events or self.host_events

    @property
    def ns(self) -> int:
        """The time of the runs."""
        return round(self.device_ns if self.device_events else self.host_ns)


class ProfiledNames:
    """The names that the kernels of a program have in traces."""

    def __init__(self, program: Program) -> None:
        """Collect the names of definitions, and those of functions on a device."""
        self._names: dict[str, dict[str, None]] = {}
        for line in program.definitions:
            self._names.setdefault(line.name, {})[line.name] = None
        for line in program.definitions:
            if isinstance(line, KernelDefinitionLine) and line.language is Language.TRITON:
                self._names.setdefault(line.entry, {})[line.name] = None

    def of(self, event: str) -> tuple[str, ...]:
        """Return the kernels of an event's name: none, one, or those that share it."""
        name = event
        if (prefix := _GRAPH.match(event)) is not None and event not in self._names:
            name = event[prefix.end() :]
        head, _, last = name.rpartition("_")
        if name not in self._names and _SUFFIX.fullmatch(last):
            name = head
        return tuple(self._names.get(name, ()))


def with_multi_kernels(program: Program, kernels: Iterable[str]) -> frozenset[str]:
    """Return names of kernels, and of the multi-kernels that may choose one of them."""
    names = {*kernels}
    choosing = [
        line.name
        for line in program.definitions
        if isinstance(line, MultiKernelLine)
        and not names.isdisjoint(choice.kernel for choice in line.choices)
    ]
    return frozenset((*names, *choosing))


@frozen
class _Event:
    """A complete event of a trace; times are in nanoseconds."""

    names: tuple[str, ...]
    on_device: bool
    thread: tuple[str, str]
    begin: float
    ns: float


def kernels_of_trace(program: Program, text: str) -> tuple[TracedKernel, ...]:
    """Return the kernels of a program that have events in a trace, the slowest first.

    Raises:
        WrongTraceError: the text is not Chrome's JSON trace format.
    """
    names = ProfiledNames(program)
    events = list(_kernel_events(_read_events(text), names))
    found: dict[tuple[str, ...], TracedKernel] = {}
    for event in events:
        if event.on_device:
            kernel = found.setdefault(event.names, TracedKernel(event.names))
            kernel.device_events += 1
            kernel.device_ns += event.ns
    for event in _outermost(event for event in events if not event.on_device):
        kernel = found.setdefault(event.names, TracedKernel(event.names))
        kernel.host_events += 1
        kernel.host_ns += event.ns
    return tuple(sorted(found.values(), key=lambda each: (-each.ns, each.names)))


def _read_events(text: str) -> Iterable[Mapping[str, object]]:
    try:
        trace: object = json.loads(text)
    except (ValueError, RecursionError):
        raise WrongTraceError("it is not JSON") from None
    if isinstance(trace, dict):
        trace = cast("dict[str, object]", trace).get("traceEvents")
    if not isinstance(trace, list):
        raise WrongTraceError("it has no list of traceEvents, as torch.profiler writes it")
    for event in cast("list[object]", trace):
        if isinstance(event, dict):
            yield cast("dict[str, object]", event)


def _kernel_events(
    events: Iterable[Mapping[str, object]], names: ProfiledNames
) -> Iterator[_Event]:
    """Yield the events whose names are those of kernels; others are left out."""
    for event in events:
        name, category = event.get("name"), event.get("cat")
        begin, duration = _nanoseconds(event.get("ts")), _nanoseconds(event.get("dur"))
        if event.get("ph") != "X" or not isinstance(name, str):
            continue
        on_device = category == _DEVICE
        if begin is None or duration is None or not (on_device or category in _HOST):
            continue
        kernels = names.of(name)
        if kernels:
            thread = str(event.get("pid")), str(event.get("tid"))
            yield _Event(kernels, on_device, thread, begin, duration)


def _nanoseconds(microseconds: object) -> float | None:
    """Return a time of a trace; ``None`` for anything else."""
    if isinstance(microseconds, int | float) and -_FOREVER < microseconds < _FOREVER:
        return microseconds * 1000
    return None


def _outermost(events: Iterable[_Event]) -> Iterator[_Event]:
    """Yield the events of the host that are not within one of the same kernel."""
    open_events: list[_Event] = []
    open_names = Counter[tuple[str, ...]]()
    for event in sorted(events, key=lambda each: (each.thread, each.begin, -each.ns)):
        while open_events and _is_over(open_events[-1], event):
            open_names[open_events.pop().names] -= 1
        if not open_names[event.names]:
            yield event
        open_events.append(event)
        open_names[event.names] += 1


def _is_over(before: _Event, event: _Event) -> bool:
    return before.thread != event.thread or before.begin + before.ns <= event.begin
