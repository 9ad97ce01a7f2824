"""The memory of a program at each line, as plain data to render.

Time is counted in lines: all lines of a program's body, nested blocks included,
in the order of the text.  So the two blocks of a ``conditional`` come after each other,
and a loop's body once; a buffer that is alive around a line is alive in its blocks.
"""

from collections.abc import Iterable
from enum import StrEnum
from itertools import accumulate

from attrs import frozen


class BufferKind(StrEnum):
    """Where a buffer's memory comes from."""

    PLACED = "placed in a pool"
    ALLOCATED = "allocated"
    RESULT = "made by an operator"
    PERHAPS_RESULT = "made by an operator, or a view"
    BLOCK_RESULT = "made by a block"
    WORKSPACE = "kept between calls"
    INPUT = "input"
    DONATED = "donated input"
    SCATTERED = "elements of a donated input"
    """It has gaps, such as a half of a chunk has: what is between may be another's."""
    CONSTANT = "constant"

    @property
    def counted(self) -> bool:
        """Whether a call takes the memory; the rest is there before it."""
        return self not in (BufferKind.WORKSPACE, BufferKind.INPUT, BufferKind.CONSTANT)

    @property
    def taken(self) -> bool:
        """Whether the memory is a piece of its own, taken from an allocator."""
        kinds = (BufferKind.ALLOCATED, BufferKind.RESULT, BufferKind.PERHAPS_RESULT)
        return self in kinds


GIVEN = (BufferKind.DONATED, BufferKind.SCATTERED)
"""What a call is given, and frees."""


@frozen(kw_only=True)
class TimelineLine:
    """A line: its text, without nested blocks, and its 1-based number in the program's."""

    number: int
    text: str
    depth: int = 0


@frozen(kw_only=True)
class TimelineValue:
    """A value that a buffer holds: its name and type, and where it came from.

    ``line`` is the index of the line that makes it, ``None`` for inputs and constants;
    ``writer`` is the index of the first line that writes it to memory that was made for
    it.  ``provenance`` says where in the user's source they come from.
    """

    name: str
    type: str
    line: int | None = None
    writer: int | None = None
    provenance: str = ""


@frozen(kw_only=True)
class TimelineBuffer:
    """A storage, alive at the lines from index ``begin`` up to, not including, ``end``.

    ``size`` and ``address`` are in bytes; ``offset`` is that in its ``pool``, if it has
    one.  ``aliases`` are its other names: views of it, and what it was reused as.
    ``line``, ``writer`` and ``provenance`` are those of its first :class:`TimelineValue`;
    ``reuses`` has the later ones, in their order.
    """

    name: str
    aliases: tuple[str, ...] = ()
    kind: BufferKind
    type: str
    size: int
    begin: int
    end: int
    address: int
    pool: str | None = None
    offset: int | None = None
    line: int | None = None
    writer: int | None = None
    provenance: str = ""
    reuses: tuple[TimelineValue, ...] = ()

    def value_at(self, line: int) -> TimelineValue:
        """Return its value at a line: what it was last reused as, or the first."""
        found = TimelineValue(
            name=self.name,
            type=self.type,
            line=self.line,
            writer=self.writer,
            provenance=self.provenance,
        )
        for value in self.reuses:
            if value.line is not None and value.line <= line:
                found = value
        return found


@frozen(kw_only=True)
class TimelinePool:
    """A pool: ``size`` bytes from ``address``, alive as a buffer is.

    ``pool`` is the one that it is placed in, for a pool within a pool.
    """

    name: str
    size: int
    begin: int
    end: int
    address: int
    line: int
    pool: str | None = None


@frozen(kw_only=True)
class MemoryTimeline:
    """The use of one memory by a program: of a device, of a memory space, or pinned.

    For each line, ``live`` has the bytes of the buffers alive at it, and ``held`` the bytes
    that the call has from the allocator: whole pools, and buffers outside pools.  Inputs,
    constants and workspaces kept between calls count only in ``uncounted``.
    """

    memory: str
    buffers: tuple[TimelineBuffer, ...]
    pools: tuple[TimelinePool, ...] = ()
    live: tuple[int, ...]
    held: tuple[int, ...]
    uncounted: tuple[int, ...]

    @property
    def peak(self) -> int:
        """The most bytes held at a line."""
        return max(self.held, default=0)

    @property
    def lower_bound(self) -> int:
        """The most bytes live at a line: no plan has a lower peak."""
        return max(self.live, default=0)

    @property
    def peak_line(self) -> int:
        """The index of the first line at the peak where the most bytes are live."""
        both = list(zip(self.held, self.live, strict=True))
        return both.index(max(both)) if both else 0

    @property
    def peak_rise(self) -> tuple[int, int]:
        """The line that took most of the bytes before the peak, and how many it took.

        It is the peak line, or an earlier one since bytes last fell.  Bytes are those held,
        or those live where the peak line takes nothing more.
        """
        if not self.held:
            return 0, 0
        last = self.peak_line
        held = [0, *self.held[: last + 1]]
        bytes = held if held[-1] > held[-2] else [0, *self.live[: last + 1]]
        first = last
        while first > 0 and bytes[first] <= bytes[first + 1]:
            first -= 1
        rises = [bytes[line + 1] - bytes[line] for line in range(first, last + 1)]
        most = max(rises)
        return last - rises[::-1].index(most), most

    @property
    def allocations(self) -> int:
        """How many pieces are taken from an allocator: pools, buffers in none, results.

        An operator's result that may be a view counts, and what blocks take counts once,
        as if all of them ran and loops one time.
        """
        taken = sum(buffer.kind.taken for buffer in self.buffers)
        return taken + sum(pool.pool is None for pool in self.pools)

    @property
    def pool_bytes(self) -> tuple[int, ...]:
        """The bytes of pools held at each line; pools within pools do not count."""
        return bytes_at_lines([p for p in self.pools if p.pool is None], len(self.live))

    @property
    def pool_height(self) -> int:
        """The most bytes of pools held at a line."""
        return max(self.pool_bytes, default=0)


@frozen(kw_only=True)
class ProgramTimeline:
    """A version of a program: what it is called, its lines, and its memories."""

    label: str
    lines: tuple[TimelineLine, ...]
    memories: tuple[MemoryTimeline, ...]


@frozen(kw_only=True)
class SymbolValue:
    """The value that a symbol was given for the report, and why that one."""

    name: str
    value: int
    reason: str


@frozen(kw_only=True)
class MemoryReport:
    """A program's memory, in one version or several to compare."""

    program: str
    source: str
    symbols: tuple[SymbolValue, ...] = ()
    versions: tuple[ProgramTimeline, ...]


def at_peak(timeline: MemoryTimeline) -> list[TimelineBuffer]:
    """Return the counted buffers alive at the peak line, largest first."""
    line = timeline.peak_line
    alive = [b for b in timeline.buffers if b.kind.counted and b.begin <= line < b.end]
    return sorted(alive, key=lambda b: (-b.size, b.begin, b.name))


def bytes_at_lines(
    spans: Iterable[TimelineBuffer | TimelinePool], count: int
) -> tuple[int, ...]:
    """Return the bytes of the buffers and pools alive at each of ``count`` lines."""
    changes = [0] * (count + 1)
    for span in spans:
        changes[span.begin] += span.size
        changes[span.end] -= span.size
    return tuple(accumulate(changes[:-1]))
