"""Exact search for a plan within a given height, in Python.

The search is a variant of those of MiniMalloc (M. D. Moffitt, "MiniMalloc: A Lightweight
Memory Allocator for Hardware-Accelerated Machine Learning", ASPLOS 2023) and TelaMalloc
(M. Maas et al., "TelaMalloc: Efficient On-Chip Memory Allocation for Production Machine
Learning Accelerators", ASPLOS 2023).  From the former are:

- canonical plans: if there is a plan, there is one in which each buffer lies at 0 or on
  another, so buffers are placed bottom up, each at the lowest offset left to it;
- dominance: a buffer that is not placed at its lowest offset has to lie on one of those
  still to come, which raises its lowest offset;
- time is cut where no unplaced buffer spans it, and the parts are searched on their own;
- several orders take turns, each with more steps than the turn before.

Four things differ.  A search step has two branches, the buffer is at its lowest offset or
is not, so any buffer may be next.  What the buffers of a section need is not their lowest
offset and their sum, but the time of a machine that works on jobs with release dates: the
lowest offsets are the dates, the sizes the work (1 | r | Cmax, solved by the order of the
dates).  The orders only break ties between buffers that are equally constrained, by the
waste that their sections allow or by the buffers that could be next in them, as constraint
solvers choose variables; and sections count for more the more often they did not fit, as in
the weighted degrees of F. Boussemart et al. ("Boosting Systematic Search by Weighting
Constraints", ECAI 2004).  And what has failed is remembered, over all orders: what can be
placed depends on the lowest offsets of unplaced buffers, however they came about.
"""

import time
from collections.abc import Iterable, Sequence
from enum import Enum, auto
from hashlib import blake2b

from attrs import define, field

from wrapperir.planning.attempt import Attempt, Outcome
from wrapperir.planning.slots import Slots

_MOST_FAILURES = 1 << 20
"""How many failures are remembered."""
_SOME = 128
"""Such a part of the capacity is added to each waste that conflicts divide."""


class _Rule(Enum):
    """Which of the lowest buffers is the next."""

    CHOICE = auto()
    """The one with the section that leaves the least choice; then the least waste."""
    WASTE = auto()
    """The one with the section that allows the least waste; then the least choice."""
    CONFLICTS = auto()
    """The one with the section that allows the least waste for each time it did not fit."""
    ORDER = auto()
    """The first in order, which also decides between equals."""


def search_tree(
    slots: Slots,
    ranks: Sequence[Sequence[int]],
    *,
    capacity: int,
    steps: int,
    seconds: float,
) -> Attempt:
    """Search for a plan of at most ``capacity`` bytes, in at most so many steps.

    ``slots`` come from :func:`~wrapperir.planning.sections.sections`, ``ranks`` from
    :func:`~wrapperir.planning.sections.static_orders`.
    """
    deadline = time.monotonic() + seconds
    return _TreeSearch.of(slots, capacity, deadline).run(ranks, steps)


@define
class _Part:
    """Unplaced buffers, in order of their first section, that time does not separate."""

    buffers: list[int]
    start: int
    """How many changes there were before it."""
    failures: list[bytes] = field(factory=list[bytes])
    """What has been tried of it, which has failed if it fails."""
    chosen: int = -1
    before: int = 0
    """How many changes there were before the chosen buffer was placed."""
    rest: list[list[int]] = field(factory=list[list[int]])
    """What the chosen buffer leaves to be searched."""


@define
class _TreeSearch:
    slots: Slots
    capacity: int
    deadline: float
    sections: list[list[int]]
    """The buffers of each section, nearly in order of their lowest offsets."""
    neighbours: list[list[int]]
    twins: list[list[int]]
    """Of each buffer those of the same size, alignment and sections."""
    lowest: list[int]
    """Of each buffer the lowest offset left to it, or its offset."""
    rests: list[int]
    """Whether a placed buffer, or the bottom, is right below the lowest offset."""
    placed: list[int]
    slack: list[int]
    """Of each section the bytes that may be wasted in it."""
    choice: list[int]
    """Of each section how many unplaced buffers have the lowest offset left in it."""
    conflicts: list[int]
    """Of each section how often it did not fit, and one."""
    changes: list[tuple[list[int], int, int]] = field(
        factory=list[tuple[list[int], int, int]]
    )
    """Each list that was changed, where, and what was there before."""
    failures: set[bytes] = field(factory=set[bytes])
    rank: Sequence[int] = ()
    rule: _Rule = _Rule.ORDER
    steps: int = 0

    @classmethod
    def of(cls, slots: Slots, capacity: int, deadline: float) -> "_TreeSearch":
        columns = (slots.first, slots.stop, slots.sizes, slots.alignments)
        kinds = list(zip(*columns, strict=True))
        held: list[list[int]] = [[] for _ in range(slots.count)]
        for index, (first, stop, *_) in enumerate(kinds):
            for section in range(first, stop):
                held[section].append(index)
        near = [
            sorted({i for own in held[first:stop] for i in own} - {index})
            for index, (first, stop, *_) in enumerate(kinds)
        ]
        return cls(
            slots=slots,
            capacity=capacity,
            deadline=deadline,
            sections=held,
            neighbours=near,
            twins=[
                [other for other in near[index] if kinds[other] == kind]
                for index, kind in enumerate(kinds)
            ],
            lowest=[0] * len(kinds),
            rests=[1] * len(kinds),
            placed=[0] * len(kinds),
            slack=[0] * slots.count,
            choice=[0] * slots.count,
            conflicts=[1] * slots.count,
        )

    def run(self, ranks: Sequence[Sequence[int]], most: int) -> Attempt:
        """Search the parts of the problem one after the other, each in all orders."""
        outcome = Outcome.FOUND
        if not self._fit(range(self.slots.count)):
            outcome = Outcome.INFEASIBLE
        todo = self._parts(range(len(self.lowest)))
        while todo and outcome is Outcome.FOUND:
            outcome = self._take_turns(todo.pop(), ranks, most)
        offsets = self.lowest if outcome is Outcome.FOUND else ()
        return Attempt(outcome, offsets, self.steps)

    def _take_turns(
        self, part: list[int], ranks: Sequence[Sequence[int]], most: int
    ) -> Outcome:
        """Search one part in each order, and again with more steps until it is decided."""
        limit = 2 * len(part)
        start = len(self.changes)
        while True:
            for self.rank in ranks:
                for self.rule in _Rule:
                    stop = min(most, self.steps + limit)
                    outcome = self._search(part, stop)
                    if outcome is not Outcome.UNDECIDED:
                        return outcome
                    if self.steps >= most or time.monotonic() >= self.deadline:
                        return outcome
                    self._undo(start)
            limit *= 2

    def _search(self, buffers: list[int], most: int) -> Outcome:
        """Search one part, depth first."""
        stack = [_Part(buffers, len(self.changes))]
        while stack:
            part = stack[-1]
            if part.rest:
                stack.append(_Part(part.rest.pop(), len(self.changes)))
                continue
            if part.chosen >= 0:
                stack.pop()  # all that it leaves is placed
                continue
            outcome = self._branch(part, most)
            if outcome is Outcome.UNDECIDED:
                return outcome
            while outcome is Outcome.INFEASIBLE:
                part = stack.pop()
                self._undo(part.start)
                self.failures.update(part.failures[: _MOST_FAILURES - len(self.failures)])
                if not stack:
                    return outcome
                if self._pass_over(stack[-1]):
                    break
        return Outcome.FOUND

    def _branch(self, part: _Part, most: int) -> Outcome:
        """Place the next buffer of a part that can be placed, and say what it leaves."""
        while self.steps < most and time.monotonic() < self.deadline:
            self.steps += 1
            key = self._key(part.buffers)
            if key in self.failures:
                return Outcome.INFEASIBLE
            part.failures.append(key)
            index = self._choose(part.buffers)
            if not self.rests[index]:
                if not self._raise(index):
                    return Outcome.INFEASIBLE
                continue
            part.chosen = index
            part.before = len(self.changes)
            if self._place(index):
                part.rest = self._parts(i for i in part.buffers if i != index)
                return Outcome.FOUND
            if not self._pass_over(part):
                return Outcome.INFEASIBLE
        return Outcome.UNDECIDED

    def _key(self, buffers: Sequence[int]) -> bytes:
        """Return 128 bits that stand for what decides whether a part can be placed."""
        lowest = [self.lowest[index] for index in buffers]
        rests = [self.rests[index] for index in buffers]
        return blake2b(f"{buffers}{lowest}{rests}".encode(), digest_size=16).digest()

    def _choose(self, buffers: Sequence[int]) -> int:
        """Return which of the lowest buffers is next; the first that rests on none."""
        bottom = min(self.lowest[index] for index in buffers)
        lowest = [index for index in buffers if self.lowest[index] == bottom]
        floating = (index for index in lowest if not self.rests[index])
        first = next(floating, None)
        return min(lowest, key=self._urgency) if first is None else first

    def _urgency(self, index: int) -> tuple[int, ...]:
        """Return what is the less, the sooner a buffer is to be placed."""
        sections = range(self.slots.first[index], self.slots.stop[index])
        rank = self.rank[index]
        if self.rule is _Rule.ORDER:
            return (rank,)
        if self.rule is _Rule.CONFLICTS:
            some = self.capacity // _SOME + 1
            return min((self.slack[s] + some) // self.conflicts[s] for s in sections), rank
        facts = [(self.slack[section], self.choice[section]) for section in sections]
        if self.rule is _Rule.WASTE:
            return *min(facts), rank
        # To waste room in the section is a choice as well.
        return *min((2 * choice + (slack > 0), slack) for slack, choice in facts), rank

    def _place(self, index: int) -> bool:
        """Place a buffer at its lowest offset; all others are above or not alive then."""
        self._change(self.placed, index, 1)
        top = self.lowest[index] + self.slots.sizes[index]
        touched = dict.fromkeys(range(self.slots.first[index], self.slots.stop[index]))
        for other in self.neighbours[index]:
            if self.placed[other]:
                continue
            offset = _align(top, self.slots.alignments[other])
            if self.lowest[other] < offset:
                self._change(self.lowest, other, offset)
                self._change(self.rests, other, 1)
                span = range(self.slots.first[other], self.slots.stop[other])
                touched.update(dict.fromkeys(span))
            elif self.lowest[other] == offset:
                self._change(self.rests, other, 1)
        return self._fit(touched)

    def _pass_over(self, part: _Part) -> bool:
        """Take the chosen buffer away again, and say that it is not where it was.

        Its twins are not there either, for the two could be exchanged.
        """
        self._undo(part.before)
        index, part.chosen = part.chosen, -1
        part.rest.clear()
        bottom = self.lowest[index]
        twins = [t for t in self.twins[index] if not self.placed[t]]
        return self._raise(index) and all(
            self._raise(twin) for twin in twins if self.lowest[twin] == bottom
        )

    def _raise(self, index: int) -> bool:
        """Put one of the lowest buffers above some buffer that is still to come."""
        tops = [
            self.lowest[other] + self.slots.sizes[other]
            for other in self.neighbours[index]
            if not self.placed[other]
        ]
        if not tops:
            return False
        offset = _align(min(tops), self.slots.alignments[index])
        self._change(self.lowest, index, offset)
        self._change(self.rests, index, 0)
        return self._fit(range(self.slots.first[index], self.slots.stop[index]))

    def _fit(self, sections: Iterable[int]) -> bool:
        """Return whether what is still to come may fit, as far as one section says."""
        for section in sections:
            held = self.sections[section]
            held.sort(key=self.lowest.__getitem__)
            unplaced = [index for index in held if not self.placed[index]]
            top = 0
            for index in unplaced:
                top = max(top, self.lowest[index]) + self.slots.sizes[index]
            if top > self.capacity:
                self.conflicts[section] += 1
                return False
            self._change(self.slack, section, self.capacity - top)
            offsets = [self.lowest[index] for index in unplaced]
            self._change(self.choice, section, offsets.count(offsets[0]) if offsets else 0)
        return True

    def _parts(self, buffers: Iterable[int]) -> list[list[int]]:
        """Cut where no buffer is alive, into parts of which the last is to be next."""
        parts: list[list[int]] = []
        end = -1
        for index in buffers:
            if self.slots.first[index] >= end:
                parts.append([])
            parts[-1].append(index)
            end = max(end, self.slots.stop[index])
        return parts[::-1]

    def _change(self, values: list[int], at: int, value: int) -> None:
        self.changes.append((values, at, values[at]))
        values[at] = value

    def _undo(self, count: int) -> None:
        """Undo all but so many changes."""
        while len(self.changes) > count:
            values, at, value = self.changes.pop()
            values[at] = value


def _align(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment
