"""A brute-force checker of memory: overlaps, unordered uses, and the peak.

Every pair is compared, on every way through the control flow; nothing is shared with what
it checks.  For programs of tests: it takes time quadratic in their lines.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations

from attrs import frozen

from wrapperir.diagnostics import LinePath
from wrapperir.ir import Number, Program
from wrapperir.testing.memory_trace import Trace, TracedMemory, TracedUse
from wrapperir.testing.memory_walk import traces

UNIT = 64
"""Bytes that allocators round up to."""


@frozen
class MemoryConflict:
    """What is wrong between two lines: ``overlap``, ``outside`` or ``unordered``.

    The lines are those that begin two memories, or those that use one; for what lies
    outside of its pool, those that begin the two.
    """

    kind: str
    first: LinePath
    second: LinePath


def memory_conflicts(
    program: Program, symbols: Mapping[str, Number]
) -> tuple[MemoryConflict, ...]:
    """Return what is wrong with a program's placements and streams, each fault once.

    Two placements of a pool may not share bytes while both live, and must lie within it;
    uses of one memory that conflict must be ordered, and so must all uses of bytes by
    successive owners.  ``symbols`` has values for the program's symbols; those that follow
    from others may be left out.

    Raises:
        ValueError: a size or offset needs a symbol without a value.
    """
    found: dict[MemoryConflict, None] = {}
    for trace in traces(program, symbols, UNIT):
        placed = [memory for memory in trace.memories if memory.pool is not None]
        for memory in placed:
            if memory.pool is not None and not _inside(memory, memory.pool):
                found[MemoryConflict("outside", memory.pool.path, memory.path)] = None
        for first, second in combinations(placed, 2):
            if _share_bytes(first, second):
                if _live_together(first, second):
                    found[MemoryConflict("overlap", first.path, second.path)] = None
                elif not (first.is_pool or second.is_pool):
                    pairs = ((a, b) for a in first.uses for b in second.uses)
                    found.update(dict.fromkeys(_unordered(trace, pairs)))
        for memory in trace.memories:
            conflicts = (
                (a, b)
                for a, b in combinations(memory.uses, 2)
                if a.writes or b.writes or a.owner != b.owner
            )
            found.update(dict.fromkeys(_unordered(trace, conflicts)))
    return tuple(found)


def peak_bytes(program: Program, symbols: Mapping[str, Number]) -> int:
    """Return the most bytes that a program has allocated at once, on its worst way.

    Each allocation, pool and result of an operator is rounded up to 64 bytes; a result
    that may alias an argument is taken to.  Pools count in full, placements not.  Inputs
    and constants do not count; ``zero_per_program`` workspaces do from the start, since
    they live from one call to the next.

    Raises:
        ValueError: a size or offset needs a symbol without a value.
    """
    return max(
        trace.peak + sum(trace.rounded(memory.nbytes) for memory in trace.kept.values())
        for trace in traces(program, symbols, UNIT)
    )


def _inside(memory: TracedMemory, pool: TracedMemory) -> bool:
    end = memory.offset + memory.nbytes
    return pool.offset <= memory.offset and end <= pool.offset + pool.nbytes


def _share_bytes(first: TracedMemory, second: TracedMemory) -> bool:
    """Say whether two placements, neither in the other, share bytes of one pool."""
    pools, others = list(first.pools()), list(second.pools())
    if pools[-1] is not others[-1] or first in others or second in pools:
        return False
    begin = max(first.offset, second.offset)
    return begin < min(first.offset + first.nbytes, second.offset + second.nbytes)


def _live_together(first: TracedMemory, second: TracedMemory) -> bool:
    """Say whether the one that began first still lived when the other began."""
    earlier, later = sorted((first, second), key=lambda memory: memory.begin)
    return earlier.end is None or earlier.end > later.begin


def _unordered(
    trace: Trace, pairs: Iterator[tuple[TracedUse, TracedUse]]
) -> Iterator[MemoryConflict]:
    for one, other in pairs:
        earlier, later = sorted((one.node, other.node))
        if earlier != later and not trace.before[later] >> earlier & 1:
            yield MemoryConflict("unordered", trace.paths[earlier], trace.paths[later])
