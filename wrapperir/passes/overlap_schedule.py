"""Orders lines so that work runs while collectives are in flight.

This is list scheduling (Graham, 1966) for operations whose results come later (Gibbons and
Muchnick, *Efficient instruction scheduling for a pipelined architecture*, 1986): lines keep
their order, but the end of a collective is held back until the collective is predicted to
be over, and lines that do not need it come first.  Backward, the same holds a start back
until as much work lies behind it as the collective takes.  Either takes n log n steps.
"""

from collections.abc import Sequence
from heapq import heappop, heappush

from attrs import define, evolve, field, frozen

from wrapperir.passes.line_dependences import Dependences
from wrapperir.passes.live_units import RangeMaximum

_MOST_TRIED = 16
"""Lines that do not fit into memory, before a collective is ended to make room."""


@frozen(eq=False)
class LineRun:
    """Consecutive nodes, from ``begin`` up to ``end``, that may change places.

    ``graph`` numbers them from 0.
    """

    begin: int
    end: int
    graph: Dependences


@frozen(eq=False)
class CollectiveNodes:
    """The nodes that start a collective and wait for it.

    It takes ``seconds`` after those of the same ``queue`` that were started before.
    """

    start: int
    wait: int
    seconds: float
    queue: str


@frozen(eq=False)
class OverlapProblem:
    """Nodes in order: the ``work`` of each in seconds, and the ``memory`` that it touches.

    Memory takes its ``sizes`` from the first node that touches it to the last; some is
    there ``at_begin`` or stays ``at_end``.  Between the ``runs`` are nodes that stay.  A
    collective that ``begins_late`` does so when the next node with work ends.
    """

    work: Sequence[float]
    collectives: Sequence[CollectiveNodes]
    runs: Sequence[LineRun]
    memory: Sequence[Sequence[int]]
    sizes: Sequence[int]
    at_begin: Sequence[bool]
    at_end: Sequence[bool]
    begins_late: bool = False

    def backward(self) -> "OverlapProblem":
        """Return the problem with time reversed: starts are waits, and waits starts."""
        last = len(self.work) - 1
        return OverlapProblem(
            self.work[::-1],
            [
                evolve(each, start=last - each.wait, wait=last - each.start)
                for each in self.collectives
            ],
            [
                LineRun(last + 1 - run.end, last + 1 - run.begin, _backward(run.graph))
                for run in reversed(self.runs)
            ],
            self.memory[::-1],
            self.sizes,
            self.at_end,
            self.at_begin,
            self.begins_late,
        )

    def ordered(self, order: Sequence[int]) -> "OverlapProblem":
        """Return the problem with its nodes in another order, each in its run."""
        place = [0] * len(order)
        for index, node in enumerate(order):
            place[node] = index
        runs: list[LineRun] = []
        for run in self.runs:
            count = run.end - run.begin
            graph = Dependences([[] for _ in range(count)], [[] for _ in range(count)])
            for node, later in enumerate(run.graph.after):
                at = place[run.begin + node] - run.begin
                for other in later:
                    graph.add(at, place[run.begin + other] - run.begin)
            runs.append(LineRun(run.begin, run.end, graph))
        return OverlapProblem(
            [self.work[node] for node in order],
            [
                evolve(each, start=place[each.start], wait=place[each.wait])
                for each in self.collectives
            ],
            runs,
            [self.memory[node] for node in order],
            self.sizes,
            self.at_begin,
            self.at_end,
            self.begins_late,
        )


def _backward(graph: Dependences) -> Dependences:
    last = len(graph.after) - 1
    return Dependences(
        [[last - node for node in each] for each in reversed(graph.before)],
        [[last - node for node in each] for each in reversed(graph.after)],
    )


def delay_waits(
    problem: OverlapProblem, limit: int, share: float, *, looks_ahead: bool
) -> list[int]:
    """Return the nodes in an order in which waits come later, and work before them.

    No node that moves may take the bytes alive over ``limit``, but one that stays may.
    With ``looks_ahead``, a node is not moved either if it is expected to take the bytes of
    later nodes over it.  Collectives count as the ``share`` of their seconds.
    """
    return _Scheduler(problem, limit, share, looks_ahead).run()


def raise_starts(
    problem: OverlapProblem, limit: int, share: float, *, looks_ahead: bool
) -> list[int]:
    """Return the nodes in an order in which starts come earlier, and work after them."""
    last = len(problem.work) - 1
    order = _Scheduler(problem.backward(), limit, share, looks_ahead).run()
    return [last - node for node in reversed(order)]


@define(eq=False)
class _LiveMemory:
    """The bytes alive while nodes are placed one after the other."""

    problem: OverlapProblem
    live: int = 0
    left: list[int] = field(factory=list[int])
    is_live: list[bool] = field(factory=list[bool])

    def __attrs_post_init__(self) -> None:
        problem = self.problem
        self.left = [0] * len(problem.sizes)
        for touched in problem.memory:
            for each in touched:
                self.left[each] += 1
        self.is_live = [
            begins and (ends or left > 0)
            for begins, ends, left in zip(
                problem.at_begin, problem.at_end, self.left, strict=True
            )
        ]
        pairs = zip(problem.sizes, self.is_live, strict=True)
        self.live = sum(size for size, is_there in pairs if is_there)

    def added(self, node: int) -> int:
        """Return the bytes that a node needs in addition."""
        return sum(
            self.problem.sizes[each]
            for each in self.problem.memory[node]
            if not self.is_live[each]
        )

    def closed(self, node: int) -> int:
        """Return the bytes that only a node still touches."""
        problem = self.problem
        return sum(
            problem.sizes[each]
            for each in problem.memory[node]
            if self.left[each] == 1 and not problem.at_end[each]
        )

    def place(self, node: int) -> int:
        """Have a node be the next one; return the bytes alive while it runs."""
        most = self.live = self.live + self.added(node)
        for each in self.problem.memory[node]:
            self.is_live[each] = True
            self.left[each] -= 1
            if not self.left[each] and not self.problem.at_end[each]:
                self.live -= self.problem.sizes[each]
        return most


@frozen
class Prediction:
    """The seconds of a step, the peak of bytes, and the seconds that each wait stalls."""

    seconds: float
    peak: int
    stalls: tuple[float, ...]


def predict(problem: OverlapProblem) -> Prediction:
    """Return what is predicted for nodes in their order."""
    memory, peak, time = _LiveMemory(problem), 0, 0.0
    starts = {each.start: number for number, each in enumerate(problem.collectives)}
    waits = {each.wait: number for number, each in enumerate(problem.collectives)}
    ends = [0.0] * len(problem.collectives)
    stalls = [0.0] * len(problem.collectives)
    busy: dict[str, float] = {}
    late: list[int] = []

    def begin(numbers: Sequence[int]) -> None:
        for number in numbers:
            each = problem.collectives[number]
            ends[number] = max(time, busy.get(each.queue, 0.0)) + each.seconds
            busy[each.queue] = ends[number]

    for node, work in enumerate(problem.work):
        peak = max(peak, memory.place(node))
        time += work
        if late and (work or node in waits):  # they keep their order in a queue
            begin(late)
            late.clear()
        if node in starts:
            if problem.begins_late:
                late.append(starts[node])
            else:
                begin([starts[node]])
        elif node in waits:
            number = waits[node]
            stalls[number] = max(0.0, ends[number] - time)
            time = max(time, ends[number])
    return Prediction(time, peak, tuple(stalls))


@define(eq=False)
class _Scheduler:
    """Places nodes one after the other; a closing node ends what an opening one began."""

    problem: OverlapProblem
    limit: int
    share: float
    looks_ahead: bool
    order: list[int] = field(factory=list[int])
    time: float = 0.0
    reached: float = 0.0
    busy: dict[str, float] = field(factory=dict[str, float])
    due: dict[int, float] = field(factory=dict[int, float])
    opening: dict[int, CollectiveNodes] = field(factory=dict[int, CollectiveNodes])
    closing: frozenset[int] = frozenset()
    memory: _LiveMemory = field(init=False)
    waiting: list[int] = field(factory=list[int])
    ready: list[int] = field(factory=list[int])
    held: list[tuple[float, int]] = field(factory=list[tuple[float, int]])
    aside: set[int] = field(factory=set[int])
    placed: list[bool] = field(factory=list[bool])
    is_held: list[bool] = field(factory=list[bool])
    live_before: list[int] = field(factory=list[int])
    peaks: RangeMaximum = field(init=False)

    def __attrs_post_init__(self) -> None:
        problem = self.problem
        self.memory = _LiveMemory(problem)
        peaks: list[int] = []
        for node in range(len(problem.work)):
            self.live_before.append(self.memory.live)
            peaks.append(self.memory.place(node))
        self.peaks = RangeMaximum(peaks)
        self.memory = _LiveMemory(problem)
        self.opening = {each.start: each for each in problem.collectives}
        self.closing = frozenset(each.wait for each in problem.collectives)
        self.placed = [False] * len(problem.work)
        self.is_held = [False] * len(problem.work)

    def run(self) -> list[int]:
        """Return the nodes in their new order."""
        done = 0
        for run in self.problem.runs:
            for node in range(done, run.begin):
                self._take(node)
            self._run(run)
            done = run.end
        for node in range(done, len(self.problem.work)):
            self._take(node)
        return self.order

    def _take(self, node: int) -> None:
        """Place a node, and let time pass."""
        self.order.append(node)
        self.placed[node] = True
        self.memory.place(node)
        before, work = self.time, self.problem.work[node]
        self.time = max(before + work, self.due.get(node, 0.0))
        if not self.problem.begins_late:
            self.reached = self.time
        elif work:  # the last node with work hides nothing: a collective begins after one
            self.reached = before
        each = self.opening.get(node)
        if each is not None:
            begin = max(self.time, self.busy.get(each.queue, 0.0))
            end = begin + each.seconds * self.share
            self.due[each.wait] = self.busy[each.queue] = end

    def _run(self, run: LineRun) -> None:
        """Place the nodes of a run."""
        before = [len(each) for each in run.graph.before]
        self.waiting = before
        self.ready = [run.begin + i for i, count in enumerate(before) if not count]
        turn = run.begin
        tried = 0
        while len(self.order) < run.end:
            while self.held and self.held[0][0] <= self.reached:
                heappush(self.ready, self._released())
            while turn < run.end and (self.placed[turn] or self.is_held[turn]):
                turn += 1
            if turn in self.aside:
                self.aside.remove(turn)
                heappush(self.ready, turn)
            if not self.ready or tried > _MOST_TRIED:
                if self.held:
                    self._place(run, self._released())
                self._retry()
                tried = 0
                continue
            node = heappop(self.ready)
            if node in self.closing and self.due.get(node, 0.0) > self.reached:
                heappush(self.held, (self.due[node], node))
                self.is_held[node] = True
            elif node in self.opening and node != turn and self.held:
                self.aside.add(node)
            elif self.held and self._is_too_much(node, turn):
                self.aside.add(node)
                tried += _MOST_TRIED + 1 if node <= turn else 1
            else:
                self._place(run, node)

    def _is_too_much(self, node: int, turn: int) -> bool:
        """Say whether a node takes too many bytes here, or until its turn comes."""
        memory, added = self.memory, self.memory.added(node)
        if added > 0 and memory.live + added > self.limit:
            return True
        if node <= turn or not self.looks_ahead:  # held nodes may be late
            return False
        until = self.peaks.maximum(turn, node) - self.live_before[turn] + memory.live
        return until + added - memory.closed(node) > self.limit

    def _released(self) -> int:
        """Return the held node that is due first; it is held no longer."""
        _, node = heappop(self.held)
        self.is_held[node] = False
        return node

    def _retry(self) -> None:
        for node in self.aside:
            heappush(self.ready, node)
        self.aside.clear()

    def _place(self, run: LineRun, node: int) -> None:
        self._take(node)
        if node in self.closing:
            self._retry()
        for later in run.graph.after[node - run.begin]:
            self.waiting[later] -= 1
            if not self.waiting[later]:
                heappush(self.ready, run.begin + later)
