"""Noting in lines which pass made, changed or moved them.

Lines before and after a pass are compared, so that a pass need do nothing::

    %a = allocate f32[8] from(mm)
    extern_kernel aten.mm.out(%x, %w, out = %a) writes(%a) from(mm)

becomes, after ``plan_memory`` put a placement in place of the allocation::

    %a = place f32[8] in %pool0 at 0 from(mm) by(plan_memory)
    extern_kernel aten.mm.out(%x, %w, out = %a) writes(%a) from(mm)
"""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

from attrs import evolve

from wrapperir.ir import Block, BodyLine, Line, Program, Provenance, is_identifier
from wrapperir.ir.blocks import BLOCK_FIELDS, rewrite_blocks, walk_lines
from wrapperir.ir.line_effects import definitions

LineT = TypeVar("LineT", bound=Line)

_NO_BLOCK = Block()


def record_pass(before: Program, after: Program, name: str) -> Program:
    """Return a program where lines that a pass made, changed or moved have its name.

    A line that came from nothing, and defines what a line before came from, has the
    origins of that one.  ``name`` is made an identifier.
    """
    if before is after:
        return after
    return _Recorder(before, after, name).recorded()


class _Recorder:
    """Compares the program that a pass was given with the one that it returned."""

    def __init__(self, before: Program, after: Program, name: str) -> None:
        self._before = before
        self._after = after
        self._name = _identifier(name)
        self._old = [*walk_lines(before.lines)]
        self._place = {id(line): place for place, line in enumerate(self._old)}
        self._made: dict[Provenance, Provenance] = {}
        kept = [line for line in walk_lines(after.lines) if id(line) in self._place]
        places = [self._place[id(line)] for line in kept]
        still = longest_increasing(places)
        self._moved = {id(kept[i]) for i in range(len(kept)) if i not in still}

    def recorded(self) -> Program:
        """Return the second program with the name of the pass."""
        before, after = self._before, self._after
        return evolve(
            after,
            definitions=self._others(before.definitions, after.definitions),
            symbols=self._others(before.symbols, after.symbols),
            lines=self._body(after.lines),
        )

    def _others(self, before: Sequence[LineT], after: Sequence[LineT]) -> tuple[LineT, ...]:
        same = set(map(id, before))
        if all(id(line) in same for line in after):
            return tuple(after)
        known = set(before)
        return tuple([x if x in known else self._marked(x, None) for x in after])

    def _body(self, lines: Iterable[BodyLine]) -> tuple[BodyLine, ...]:
        return tuple([self._line(line) for line in lines])

    def _line(self, line: BodyLine) -> BodyLine:
        if id(line) in self._place:
            return self._marked(line, None) if id(line) in self._moved else line
        is_known = _head(line) in self._heads
        if type(line) in BLOCK_FIELDS:
            line = rewrite_blocks(
                line, lambda block: evolve(block, lines=self._body(block.lines))
            )
        return line if is_known else self._marked(line, self._inherited(line))

    @cached_property
    def _heads(self) -> Collection[BodyLine]:
        """The lines before, without the contents of their blocks."""
        return {_head(line) for line in self._old}

    @cached_property
    def _makers(self) -> Mapping[str, Provenance]:
        """Where each value came from before."""
        return {
            name: line.provenance
            for line in reversed(self._old)
            if line.provenance is not None and line.provenance.origins
            for name, _ in definitions(line)
        }

    def _inherited(self, line: BodyLine) -> Provenance | None:
        if line.provenance is not None and line.provenance.origins:
            return None
        names = [name for name, _ in definitions(line)]
        return next((self._makers[name] for name in names if name in self._makers), None)

    def _marked(self, line: LineT, inherited: Provenance | None) -> LineT:
        old = line.provenance or inherited or Provenance()
        if inherited is not None and not old.origins:
            old = evolve(old, origins=inherited.origins)
        if self._name in old.passes[-1:]:
            return line if line.provenance is old else evolve(line, provenance=old)
        made = self._made.get(old)
        if made is None:
            made = self._made[old] = evolve(old, passes=(*old.passes, self._name))
        return evolve(line, provenance=made)


def _head(line: BodyLine) -> BodyLine:
    if type(line) not in BLOCK_FIELDS:
        return line
    return rewrite_blocks(line, lambda block: _NO_BLOCK)


def _identifier(name: str) -> str:
    text = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    return text if is_identifier(text) else "function"


def longest_increasing(numbers: Sequence[int]) -> set[int]:
    """Return the positions of a longest increasing subsequence of different numbers.

    This is patience sorting (Aldous and Diaconis, 1999), in O(n log n).
    """
    ends: list[int] = []
    positions: list[int] = []
    before: list[int] = []
    for position, number in enumerate(numbers):
        length = bisect_left(ends, number)
        before.append(positions[length - 1] if length else -1)
        ends[length : length + 1] = [number]
        positions[length : length + 1] = [position]
    found: set[int] = set()
    position = positions[-1] if positions else -1
    while position >= 0:
        found.add(position)
        position = before[position]
    return found
