"""Exact search for a plan within a given height, in Python.

``tree_search_core.cpp`` is the same algorithm, and takes the same steps.

The search is a variant of MiniMalloc (M. D. Moffitt, "MiniMalloc: A Lightweight
Memory Allocator for Hardware-Accelerated Machine Learning", ASPLOS 2023) and TelaMalloc
(M. Maas et al., "TelaMalloc: Efficient On-Chip Memory Allocation for Production Machine
Learning Accelerators", ASPLOS 2023).  From MiniMalloc are:

- canonical plans: if there is a plan, there is one in which each buffer lies at 0 or on
  another, so buffers are placed bottom up, each at the lowest offset left to it;
- dominance: a buffer that is not placed at its lowest offset has to lie on an unplaced
  buffer, which raises its lowest offset;
- decomposition: time is cut where no unplaced buffer is alive, and the parts are searched
  separately;
- several orders take turns, each with more steps than in the turn before.

Four things differ:

- A step has two branches: the buffer is at its lowest offset, or it is not.  So any buffer
  can be next.
- The space that a section needs is bounded as the makespan of one machine with release
  dates (1 | r | Cmax, solved by the order of the dates): the lowest offsets are the dates,
  the sizes the processing times.
- The orders only break ties.  First comes the most constrained buffer, as in constraint
  solvers: by the waste that its sections allow, or by the number of buffers that could be
  next in them.  Sections that failed more often count for more, as in the weighted degrees
  of F. Boussemart et al. ("Boosting Systematic Search by Weighting Constraints", ECAI
  2004).
- Failed states are remembered, over all orders: whether the rest can be placed depends only
  on the lowest offsets of the unplaced buffers.
"""

import time
from collections.abc import Iterable, Sequence
from enum import Enum, auto
from hashlib import blake2b
from itertools import accumulate

from attrs import define, field, frozen

from wrapperir.planning.problem import Buffer, Sections

_MOST_FAILURES = 1 << 20
"""Most failed states that are remembered."""
_SLACK_SHARE = 128
"""This fraction of the capacity is added to a slack before misfits divide it."""


class SearchOutcome(Enum):
    """The result of a search."""

    FOUND = 1
    INFEASIBLE = 0
    """There is no such plan."""
    UNDECIDED = -1
    """The steps or the time ran out."""


@frozen
class Attempt:
    """The result of a search, the offsets of a plan that was found, and the steps taken."""

    outcome: SearchOutcome
    offsets: Sequence[int]
    steps: int


class _Rule(Enum):
    """The rule that chooses the next of the buffers with the lowest offset."""

    CANDIDATES = auto()
    """The section with the fewest candidates decides; then the least slack."""
    SLACK = auto()
    """The section with the least slack decides; then the fewest candidates."""
    MISFITS = auto()
    """The section with the least slack per misfit decides."""
    ORDER = auto()
    """The order decides, which also breaks the ties of the other rules."""


def branching_orders(
    sections: Sections, buffers: Sequence[Buffer]
) -> tuple[tuple[int, ...], ...]:
    """Return MiniMalloc's three orders of the buffers, the most urgent first.

    Each of lifetime, area and the bytes of the fullest section comes first once.  An order
    is given as the rank of each buffer of ``sections``, which were made from ``buffers``.
    """
    change = [0] * (sections.count + 1)
    spans = list(zip(sections.first, sections.stop, strict=True))
    for (first, stop), size in zip(spans, sections.sizes, strict=True):
        change[first] += size
        change[stop] -= size
    live = list(accumulate(change))
    facts: list[tuple[int, int, int]] = []
    for index, (first, stop) in zip(sections.buffers, spans, strict=True):
        lifetime = buffers[index].end - buffers[index].begin
        area = lifetime * buffers[index].size
        facts.append((-lifetime, -area, -max(live[first:stop])))
    orders: list[tuple[int, ...]] = []
    for one, two, three in ((0, 1, 2), (2, 1, 0), (2, 0, 1)):
        keys = [(fact[one], fact[two], fact[three]) for fact in facts]
        ranks = [0] * len(keys)
        for rank, index in enumerate(sorted(range(len(keys)), key=keys.__getitem__)):
            ranks[index] = rank
        orders.append(tuple(ranks))
    return tuple(orders)


def search_tree(
    sections: Sections,
    orders: Sequence[Sequence[int]],
    *,
    capacity: int,
    steps: int,
    seconds: float,
) -> Attempt:
    """Search for a plan of at most ``capacity`` bytes, in at most so many steps.

    ``orders`` come from :func:`branching_orders`.  The clock is read at every step.
    """
    deadline = time.monotonic() + seconds
    return _TreeSearch.of(sections, capacity, deadline).run(orders, steps)


@define
class _Part:
    """Unplaced buffers, in order of their first section, that time does not separate."""

    buffers: list[int]
    start: int
    """Number of changes before the part was begun."""
    states: list[bytes] = field(factory=list[bytes])
    """Keys of the states tried, all of which have failed if the part fails."""
    chosen: int = -1
    before: int = 0
    """Number of changes before the chosen buffer was placed."""
    rest: list[list[int]] = field(factory=list[list[int]])
    """The parts that are left to be searched once the chosen buffer is placed."""


@define
class _TreeSearch:
    problem: Sections
    capacity: int
    deadline: float
    held: list[list[int]]
    """The buffers of each section, nearly in order of their lowest offsets."""
    neighbours: list[list[int]]
    """The buffers that share a section with each buffer."""
    twins: list[list[int]]
    """The buffers of the same size, alignment and sections as each buffer."""
    lowest: list[int]
    """The lowest offset left to each buffer; once it is placed, its offset."""
    supported: list[int]
    """Whether 0 or a placed buffer is directly below each buffer's lowest offset."""
    placed: list[int]
    slack: list[int]
    """The bytes of each section that may be wasted."""
    candidates: list[int]
    """The number of unplaced buffers of each section with its lowest offset."""
    misfits: list[int]
    """One more than the number of times that each section did not fit."""
    changes: list[tuple[list[int], int, int]] = field(
        factory=list[tuple[list[int], int, int]]
    )
    """The list, index and old value of each change, to be undone."""
    failures: set[bytes] = field(factory=set[bytes])
    """Keys of failed states."""
    rank: Sequence[int] = ()
    rule: _Rule = _Rule.ORDER
    steps: int = 0

    @classmethod
    def of(cls, problem: Sections, capacity: int, deadline: float) -> "_TreeSearch":
        columns = (problem.first, problem.stop, problem.sizes, problem.alignments)
        kinds = list(zip(*columns, strict=True))
        held: list[list[int]] = [[] for _ in range(problem.count)]
        for index, (first, stop, *_) in enumerate(kinds):
            for section in range(first, stop):
                held[section].append(index)
        near = [
            sorted({i for own in held[first:stop] for i in own} - {index})
            for index, (first, stop, *_) in enumerate(kinds)
        ]
        return cls(
            problem=problem,
            capacity=capacity,
            deadline=deadline,
            held=held,
            neighbours=near,
            twins=[
                [other for other in near[index] if kinds[other] == kind]
                for index, kind in enumerate(kinds)
            ],
            lowest=[0] * len(kinds),
            supported=[1] * len(kinds),
            placed=[0] * len(kinds),
            slack=[0] * problem.count,
            candidates=[0] * problem.count,
            misfits=[1] * problem.count,
        )

    def run(self, orders: Sequence[Sequence[int]], most: int) -> Attempt:
        """Search the parts of the problem one after the other."""
        outcome = SearchOutcome.FOUND
        if not self._fit(range(self.problem.count)):
            outcome = SearchOutcome.INFEASIBLE
        todo = self._parts(range(len(self.lowest)))
        while todo and outcome is SearchOutcome.FOUND:
            outcome = self._take_turns(todo.pop(), orders, most)
        offsets = self.lowest if outcome is SearchOutcome.FOUND else ()
        return Attempt(outcome, offsets, self.steps)

    def _take_turns(
        self, part: list[int], orders: Sequence[Sequence[int]], most: int
    ) -> SearchOutcome:
        """Search one part in each order, and again with more steps until it is decided."""
        limit = 2 * len(part)
        start = len(self.changes)
        while True:
            for self.rank in orders:
                for self.rule in _Rule:
                    stop = min(most, self.steps + limit)
                    outcome = self._search(part, stop)
                    if outcome is not SearchOutcome.UNDECIDED:
                        return outcome
                    if self.steps >= most or time.monotonic() >= self.deadline:
                        return outcome
                    self._undo(start)
            limit *= 2

    def _search(self, buffers: list[int], most: int) -> SearchOutcome:
        """Search one part, depth first."""
        stack = [_Part(buffers, len(self.changes))]
        while stack:
            part = stack[-1]
            if part.rest:
                stack.append(_Part(part.rest.pop(), len(self.changes)))
                continue
            if part.chosen >= 0:
                stack.pop()  # the rest is placed
                continue
            outcome = self._branch(part, most)
            if outcome is SearchOutcome.UNDECIDED:
                return outcome
            while outcome is SearchOutcome.INFEASIBLE:
                part = stack.pop()
                self._undo(part.start)
                self.failures.update(part.states[: _MOST_FAILURES - len(self.failures)])
                if not stack:
                    return outcome
                if self._pass_over(stack[-1]):
                    break
        return SearchOutcome.FOUND

    def _branch(self, part: _Part, most: int) -> SearchOutcome:
        """Place the next buffer of a part that can be placed, and set the rest."""
        while self.steps < most and time.monotonic() < self.deadline:
            self.steps += 1
            key = self._key(part.buffers)
            if key in self.failures:
                return SearchOutcome.INFEASIBLE
            part.states.append(key)
            index = self._choose(part.buffers)
            if not self.supported[index]:
                if not self._raise(index):
                    return SearchOutcome.INFEASIBLE
                continue
            part.chosen = index
            part.before = len(self.changes)
            if self._place(index):
                part.rest = self._parts(i for i in part.buffers if i != index)
                return SearchOutcome.FOUND
            if not self._pass_over(part):
                return SearchOutcome.INFEASIBLE
        return SearchOutcome.UNDECIDED

    def _key(self, buffers: Sequence[int]) -> bytes:
        """Return 128 bits that identify the state of a part."""
        lowest = [self.lowest[index] for index in buffers]
        supported = [self.supported[index] for index in buffers]
        return blake2b(f"{buffers}{lowest}{supported}".encode(), digest_size=16).digest()

    def _choose(self, buffers: Sequence[int]) -> int:
        """Return the next of the buffers with the lowest offset; unsupported ones first."""
        bottom = min(self.lowest[index] for index in buffers)
        lowest = [index for index in buffers if self.lowest[index] == bottom]
        floating = (index for index in lowest if not self.supported[index])
        first = next(floating, None)
        return min(lowest, key=self._urgency) if first is None else first

    def _urgency(self, index: int) -> tuple[int, ...]:
        """Return the sort key of a buffer by the current rule."""
        sections = range(self.problem.first[index], self.problem.stop[index])
        rank = self.rank[index]
        if self.rule is _Rule.ORDER:
            return (rank,)
        if self.rule is _Rule.MISFITS:
            more = self.capacity // _SLACK_SHARE + 1
            return min((self.slack[s] + more) // self.misfits[s] for s in sections), rank
        facts = [(self.slack[section], self.candidates[section]) for section in sections]
        if self.rule is _Rule.SLACK:
            return *min(facts), rank
        # Wasting bytes of the section is a candidate as well.
        return *min((2 * count + (slack > 0), slack) for slack, count in facts), rank

    def _place(self, index: int) -> bool:
        """Place a buffer at its lowest offset, and return whether the rest may fit."""
        self._change(self.placed, index, 1)
        top = self.lowest[index] + self.problem.sizes[index]
        touched = dict.fromkeys(range(self.problem.first[index], self.problem.stop[index]))
        for other in self.neighbours[index]:
            if self.placed[other]:
                continue
            offset = _align(top, self.problem.alignments[other])
            if self.lowest[other] < offset:
                self._change(self.lowest, other, offset)
                self._change(self.supported, other, 1)
                span = range(self.problem.first[other], self.problem.stop[other])
                touched.update(dict.fromkeys(span))
            elif self.lowest[other] == offset:
                self._change(self.supported, other, 1)
        return self._fit(touched)

    def _pass_over(self, part: _Part) -> bool:
        """Remove the chosen buffer, exclude its offset, and return whether all may fit.

        The offset is excluded for its twins as well, since two twins can be exchanged.
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
        """Raise a buffer above the lowest unplaced one, and return whether all may fit."""
        tops = [
            self.lowest[other] + self.problem.sizes[other]
            for other in self.neighbours[index]
            if not self.placed[other]
        ]
        if not tops:
            return False
        offset = _align(min(tops), self.problem.alignments[index])
        self._change(self.lowest, index, offset)
        self._change(self.supported, index, 0)
        return self._fit(range(self.problem.first[index], self.problem.stop[index]))

    def _fit(self, sections: Iterable[int]) -> bool:
        """Return whether the unplaced buffers may fit, each section by itself."""
        for section in sections:
            held = self.held[section]
            held.sort(key=self.lowest.__getitem__)
            unplaced = [index for index in held if not self.placed[index]]
            top = 0
            for index in unplaced:
                top = max(top, self.lowest[index]) + self.problem.sizes[index]
            if top > self.capacity:
                self.misfits[section] += 1
                return False
            self._change(self.slack, section, self.capacity - top)
            offsets = [self.lowest[index] for index in unplaced]
            self._change(
                self.candidates, section, offsets.count(offsets[0]) if offsets else 0
            )
        return True

    def _parts(self, buffers: Iterable[int]) -> list[list[int]]:
        """Cut where no buffer is alive.  The last part is the next to be searched."""
        parts: list[list[int]] = []
        end = -1
        for index in buffers:
            if self.problem.first[index] >= end:
                parts.append([])
            parts[-1].append(index)
            end = max(end, self.problem.stop[index])
        return parts[::-1]

    def _change(self, values: list[int], at: int, value: int) -> None:
        self.changes.append((values, at, values[at]))
        values[at] = value

    def _undo(self, count: int) -> None:
        """Undo all but the first ``count`` changes."""
        while len(self.changes) > count:
            values, at, value = self.changes.pop()
            values[at] = value


def _align(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment
