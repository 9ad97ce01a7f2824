"""Profiles of programs, as plain data to render.

Times are in nanoseconds, a median of several calls unless something else is said.
"""

from attrs import frozen

from wrapperir.diagnostics import LinePath

HOST = "host"
"""The lane of the host."""


@frozen(kw_only=True)
class LineProfile:
    """A line that was timed: what it took in one call, and what it came from.

    Attributes:
        path: Its place in the program.
        number: Its number in the text.
        text: It, without nested blocks.
        kernel: The kernel that it calls.
        operator: The operator that it calls.
        device: Where it gives work to, ``cpu`` or ``cuda:0``; ``None`` for lines that do
            not launch.
        count: How often it runs.
        host_ns: Time of the host.
        device_ns: Time of a GPU, if it gives one work.
        gap_ns: How long its device was idle before it, if it launches.
        resolution_ns: The shortest time that is known not to be that of its marks, all runs
            together.
        read_bytes: Bytes of the values that it reads, all runs together; ``None`` if sizes
            are not known.
        written_bytes: Bytes of the values that it writes.
        touched: Whether these are only what its kernel touches of the values, at most.
        held_bytes: Bytes of memory that the program holds while it runs: whole pools, and
            buffers outside pools.
        nodes: The nodes of the graph that it came from.
        source: The place in the user's source, ``model.py:12``.
        modules: The paths of the modules of its nodes, ``layers.0.mlp``.
        equal_to: The place of the first line that does the same for an equal layer.
    """

    path: LinePath
    number: int | None
    text: str
    kernel: str | None
    operator: str | None
    device: str | None
    count: int
    host_ns: int
    device_ns: int | None
    gap_ns: int | None
    read_bytes: int | None
    written_bytes: int | None
    held_bytes: int | None
    nodes: tuple[str, ...] = ()
    source: str | None = None
    modules: tuple[str, ...] = ()
    equal_to: LinePath | None = None
    resolution_ns: int = 0
    touched: bool = False

    @property
    def launches(self) -> bool:
        """Whether it gives a device work."""
        return self.device is not None

    @property
    def ns(self) -> int:
        """Its time: that of its device."""
        return self.host_ns if self.device_ns is None else self.device_ns

    @property
    def moved_bytes(self) -> int | None:
        """Bytes that it reads and writes; ``None`` if it does not launch, or if unknown."""
        if not self.launches or self.read_bytes is None or self.written_bytes is None:
            return None
        return self.read_bytes + self.written_bytes

    @property
    def bandwidth(self) -> float | None:
        """Bytes a second, read and written, while it runs; ``None`` if it moves nothing.

        Nor is there any of a time that is shorter than what is known.
        """
        return _bandwidth(self.moved_bytes, self.ns, self.resolution_ns)


@frozen(kw_only=True)
class KernelProfile:
    """The calls of one kernel or operator, or equal lines, together."""

    name: str
    lines: tuple[LineProfile, ...]

    @property
    def calls(self) -> int:
        """How often it is called."""
        return sum(line.count for line in self.lines)

    @property
    def ns(self) -> int:
        """Its time."""
        return sum(line.ns for line in self.lines)

    @property
    def resolution_ns(self) -> int:
        """The shortest time that is known not to be that of marks."""
        return sum(line.resolution_ns for line in self.lines)

    @property
    def launches(self) -> bool:
        """Whether it gives a device work."""
        return self.lines[0].launches

    @property
    def gap_ns(self) -> int | None:
        """How long its device was idle before its calls, if it launches."""
        return sum(line.gap_ns or 0 for line in self.lines) if self.launches else None

    @property
    def moved_bytes(self) -> int | None:
        """Bytes that its calls read and write; ``None`` if that is not known of one."""
        known = [m for line in self.lines if (m := line.moved_bytes) is not None]
        return sum(known) if len(known) == len(self.lines) else None

    @property
    def touched(self) -> bool:
        """Whether these bytes are what its calls touch, and not whole values."""
        return all(line.touched for line in self.lines)

    @property
    def bandwidth(self) -> float | None:
        """Bytes a second, read and written, while it runs."""
        return _bandwidth(self.moved_bytes, self.ns, self.resolution_ns)


@frozen(kw_only=True)
class MemoryPeak:
    """The most bytes that are held in one memory, and the first line at that peak.

    It is that of the memory report: of several lines, the first where most is live.
    """

    memory: str
    bytes: int
    path: LinePath
    number: int | None


@frozen(kw_only=True)
class Slice:
    """An interval of one call: the work of a line on the host or a stream.

    ``line`` is the index of the line in the profile, ``None`` before the first line and
    after the last one.
    """

    lane: str
    line: int | None
    begin_ns: int
    ns: int


@frozen(kw_only=True)
class Profile:
    """Where the time of a program's calls goes.

    Attributes:
        program: Its name.
        emitter: The emitter whose code was timed.
        repeats: How many calls the medians are of.
        symbols: Values of the symbols of the program and of its own lines, by name, without
            those that are only checked.
        unprofiled_ns: The time of a call of the program as it is.
        profiled_ns: The time of a call with marks between its lines.
        mark_ns: The part of a mark's time that is in the time of no line.
        marks: How many marks a call reaches.
        opened_regions: Whether graph regions, which the program as it is replays, ran line
            by line with the marks.
        entry_ns: Time of the host before the first line.
        return_ns: Time of the host after the last line.
        peak_bytes: The most bytes that the program holds at once, in all memories.
        peaks: The peak of each memory, the highest first.
        allocator_peak_bytes: The most bytes that the allocator of the GPUs gave out in a
            call of the program as it is.
        lines: The lines in the order of the text, nested ones included.
        slices: The intervals of the call whose time is the median.
    """

    program: str
    emitter: str
    repeats: int
    symbols: tuple[tuple[str, int | float], ...] = ()
    unprofiled_ns: int
    profiled_ns: int
    mark_ns: int
    marks: int
    opened_regions: bool
    entry_ns: int
    return_ns: int
    peak_bytes: int
    peaks: tuple[MemoryPeak, ...]
    allocator_peak_bytes: int | None
    lines: tuple[LineProfile, ...]
    slices: tuple[Slice, ...]

    @property
    def work_ns(self) -> int:
        """The time of all lines that launch, on their devices."""
        return sum(line.ns for line in self.lines if line.launches)

    @property
    def gaps_ns(self) -> int:
        """The time for which devices were idle before lines."""
        return sum(line.gap_ns or 0 for line in self.lines)

    @property
    def overhead(self) -> float | None:
        """How much longer a call is with marks, as a part of one without."""
        if not self.unprofiled_ns:
            return None
        return self.profiled_ns / self.unprofiled_ns - 1

    @property
    def equal_lines(self) -> tuple[KernelProfile, ...]:
        """Lines with those that do the same for equal layers, the slowest first."""
        equal: dict[LinePath, list[LineProfile]] = {}
        for line in self.lines:
            equal.setdefault(line.equal_to or line.path, []).append(line)
        found = [KernelProfile(name=x[0].text, lines=tuple(x)) for x in equal.values()]
        return tuple(sorted(found, key=lambda each: -each.ns))

    @property
    def kernels(self) -> tuple[KernelProfile, ...]:
        """The kernels and operators, the slowest first."""
        calls: dict[str, list[LineProfile]] = {}
        for line in self.lines:
            name = line.operator if line.kernel is None else f"@{line.kernel}"
            if name is not None:
                calls.setdefault(name, []).append(line)
        found = [KernelProfile(name=n, lines=tuple(each)) for n, each in calls.items()]
        return tuple(sorted(found, key=lambda kernel: -kernel.ns))


def _bandwidth(moved: int | None, ns: int, resolution: int) -> float | None:
    return moved / ns * 1e9 if moved and ns > 0 and ns >= resolution else None
