"""Where a run of calls is cut into several regions, so that memory is given back between.

A region's operands are freed after it, and what outlives it is allocated before it.  Over a
whole backward pass, that keeps every saved tensor and every gradient alive at once.
"""

from collections import Counter
from collections.abc import Sequence

from attrs import define, field

from wrapperir import ir as wir
from wrapperir.analysis import BlockMemory, Storage, StorageKind, analyze_memory
from wrapperir.analysis.live_bytes import OWN
from wrapperir.passes.capture_reasons import is_returnable
from wrapperir.passes.capture_survey import Survey

MOST_MEMORY = 1.03
"""The peak that regions may have, as a multiple of the program's peak without them."""

FREE_BYTES = 16 << 20
"""Bytes on top of the peak that do not count: PyTorch takes 20 MiB from a device at a time.

Between two replays the device waits some microseconds, so a cut for less does not pay.
"""

MOST_PARTS = 8
"""Regions that a run is cut into; for fewer, a higher peak is accepted."""

LEAST_CALLS = 4
"""Calls that a region has before it is cut for the sake of memory."""

_COPIED = frozenset({StorageKind.OPERATOR, StorageKind.RESULT})
"""Storages that a region makes, and returns a copy of."""


@define
class RunSplitter:
    """Cuts runs of a program's own lines; sizes with symbols count as nothing."""

    lines: Sequence[wir.BodyLine]
    survey: Survey
    memory: BlockMemory
    most: float
    bytes: dict[int, int] = field(factory=dict[int, int])
    begins: list[list[Storage]] = field(factory=list[list[Storage]])
    ends: list[list[Storage]] = field(factory=list[list[Storage]])
    held: list[int] = field(factory=list[int])
    """For each line, how far a region that has it must reach, at least."""

    @classmethod
    def of_program(cls, program: wir.Program, survey: Survey) -> "RunSplitter":
        """Return what cuts the runs of a program."""
        memory = analyze_memory(program, {}).top
        most = max(MOST_MEMORY * memory.peak, memory.peak + FREE_BYTES)
        made = cls(program.lines, survey, memory, most)
        made._index()
        return made

    def _index(self) -> None:
        count = len(self.lines)
        self.begins = [[] for _ in range(count + 1)]
        self.ends = [[] for _ in range(count + 1)]
        sizes = zip(self.memory.storages, self.memory.bytes, strict=True)
        for storage, size in sizes:
            if storage.kind in OWN and size:
                self.bytes[id(storage)] = size
                self.ends[storage.end].append(storage)
                if not storage.is_donated:
                    self.begins[storage.begin].append(storage)
        self.held = list(range(1, count + 1))
        calls: dict[str, wir.ExternKernelLine] = {}
        taken: Counter[tuple[str, tuple[int, ...]]] = Counter()
        for line in self.lines:
            if isinstance(line, wir.ExternKernelLine) and line.result is not None:
                calls[line.result] = line
            elif isinstance(line, wir.MultiOutputLine):
                taken[line.source, line.indices] += 1
        for start, wait in self.survey.collectives.items():
            self.held[start] = wait + 1
        for index, line in enumerate(self.lines):
            name = None
            if isinstance(line, wir.ExternKernelLine) and line.result is not None:
                if line.type is None or not is_returnable(line, line.type):
                    name = line.result
            elif isinstance(line, wir.MultiOutputLine):
                call = calls.get(line.source)
                is_only = taken[line.source, line.indices] == 1
                if call is None or not is_only or not is_returnable(call, line.type):
                    name = line.result
            if name is not None:
                self.held[index] = max(index, min(self.survey.last[name], count - 1)) + 1

    def split(self, run: range) -> list[range]:
        """Return the parts of a run, in order; most runs have one."""
        parts = self._parts(run, self.most)
        if len(parts) <= MOST_PARTS:
            return parts
        # The least peak that few regions have, by bisection.
        low, high = self.most, float(self._peak(run.start, run.stop))
        parts = [run]
        while high - low > FREE_BYTES:
            middle = (low + high) / 2
            found = self._parts(run, middle)
            if len(found) > MOST_PARTS:
                low = middle
            else:
                parts, high = found, middle
        return parts

    def _parts(self, run: range, most: float) -> list[range]:
        parts: list[range] = []
        begin = run.start
        while begin < run.stop:
            end = self._end(begin, run.stop, most)
            if self._least(end, run.stop, calls=1) is None:  # no calls are left
                end = run.stop
            parts.append(range(begin, end))
            begin = end
        return parts

    def _end(self, begin: int, stop: int, most: float) -> int:
        """Return where a region that begins at a line ends."""
        least = self._least(begin, stop, LEAST_CALLS)
        if least is None:
            return stop
        low, step = self._reach(begin, least), LEAST_CALLS
        # Ever longer steps, then a search between the last two.
        while low < stop:
            end = self._reach(begin, min(low + step, stop))
            if self._peak(begin, end) > most:
                break
            low, step = end, 2 * step
        else:
            return stop
        high = end
        while low < high - 1:
            middle = self._reach(begin, (low + high) // 2)
            if middle >= high or self._peak(begin, middle) > most:
                high = (low + high) // 2
            else:
                low = middle
        return low

    def _least(self, begin: int, stop: int, calls: int) -> int | None:
        """Return the end of the first lines with so many calls, if there are so many."""
        for index in range(begin, stop):
            calls -= self.survey.effects[index].launches and index not in self.survey.moved
            if not calls:
                return index + 1
        return None

    def _reach(self, begin: int, end: int) -> int:
        """Return the first end, at ``end`` or later, at which a region may be cut."""
        index = begin
        while index < end:
            end = max(end, self.held[index])
            index += 1
        return end

    def _peak(self, begin: int, end: int) -> int:
        """Return the peak in a region of the lines from ``begin`` to before ``end``."""
        later = sum(
            self.bytes[id(storage)]
            for index in range(begin, end)
            for storage in self.begins[index]
            if storage.end >= end
        )
        kept = peak = 0
        for index in range(begin, end):
            for storage in self.begins[index]:
                # What an operator returns is copied to memory that is there from the start.
                if storage.end >= end and storage.kind not in _COPIED:
                    later -= self.bytes[id(storage)]
            peak = max(peak, self.memory.live[index] + later + kept)
            for storage in self.ends[index]:
                if storage.begin < begin or storage.is_donated:
                    kept += self.bytes[id(storage)]
        return peak
