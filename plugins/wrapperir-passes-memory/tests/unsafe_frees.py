"""Finds frees after which an allocator could give away memory that is still in use.

Pairs of memories of one block are compared by brute force, on every way through a program.
"""

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from wrapperir import ir
from wrapperir.diagnostics import LinePath
from wrapperir.ir.line_effects import LineEffects
from wrapperir.testing.memory_trace import Trace, TracedMemory
from wrapperir.testing.memory_walk import traces


@frozen
class UnsafeFree:
    """Lines: one uses memory that is freed, and given to what another allocates."""

    use: LinePath
    allocation: LinePath


def unsafe_frees(program: ir.Program, symbols: Mapping[str, ir.Number]) -> set[UnsafeFree]:
    """Return the uses of freed memory that its next owner does not wait for.

    The allocator is the simplest one: freed memory goes at once to the next allocation
    with the same home, the first stream that uses it.  Two kinds of emitters are tried:
    zeroing is a use by stream 0, or it waits for all streams and is not a use.
    """
    return {
        found
        for zeroing_waits in (False, True)
        for trace in traces(program, symbols, 1)
        for found in _Allocator(program, trace, zeroing_waits).unsafe()
    }


@frozen
class _Allocator:
    program: ir.Program
    trace: Trace
    zeroing_waits: bool
    effects: LineEffects = field(init=False)

    @effects.default
    def _find_effects(self) -> LineEffects:
        return LineEffects.of_program(self.program)

    def unsafe(self) -> set[UnsafeFree]:
        uses = {m: self._uses(m) for m in self.trace.memories if m.pool is None}
        homes = {memory: self._home(memory, nodes) for memory, nodes in uses.items()}
        return {
            UnsafeFree(self.trace.paths[use], new.path)
            for freed in uses
            for new in uses
            if freed.end is not None and freed.end < new.begin
            if new.path[0] == "lines" and _body(new.path) == _body(freed.path)
            if homes[freed] == homes[new] is not None
            for use in uses[freed]
            if any(not self.trace.before[later] >> use & 1 for later in uses[new])
        }

    def _uses(self, memory: TracedMemory) -> list[int]:
        """Return the uses of a memory and of what is placed in it, in order."""
        own = (m for m in self.trace.memories if m is memory or memory in m.pools())
        nodes = sorted({use.node for each in own for use in each.uses})
        return [n for n in nodes if not (self.zeroing_waits and self._zeroes(n))]

    def _zeroes(self, node: int) -> bool:
        line = self._line(self.trace.paths[node])
        return isinstance(line, ir.AllocateLine | ir.PlaceLine)

    def _home(self, memory: TracedMemory, uses: list[int]) -> ir.Stream | None:
        """Return the home of a memory; ``None`` if nothing uses it in its block."""
        if memory.path[0] == "inputs":
            return ir.Stream(ir.CPU)
        path = self.trace.paths[uses[0]][: len(memory.path)] if uses else ()
        if not path or _body(path) != _body(memory.path):
            return None
        return self.effects.visit(self._line(path)).stream or ir.Stream(ir.CPU)

    def _line(self, path: LinePath) -> Any:
        found: Any = self.program
        for step in path:
            found = found[step] if isinstance(step, int) else getattr(found, step)
        return found


def _body(path: LinePath) -> LinePath:
    return path[:-2]
