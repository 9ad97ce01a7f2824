"""Ranks of one process: threads that take turns, and meet in collectives.

One thread runs at a time, until it waits for a collective that others have not started;
then the next one that can go on runs.  So a run has one order, and a deadlock is seen when
no thread can go on.
"""

from collections.abc import Callable, Mapping, Sequence
from threading import Condition, Thread
from typing import TypeVar

import torch
from attrs import define, evolve, field, frozen

from wrapperir.analysis.meetings import CollectiveCall, Meeting, Meetings
from wrapperir.diagnostics import Code, DiagnosticError, FaultError, LinePath, Note
from wrapperir.interp.reductions import Exchange, exchange
from wrapperir.ir import ProcessGroup, Program

T = TypeVar("T")


class AbandonedError(Exception):
    """Ends a rank after another one had a fault."""


@frozen(eq=False)
class Brought:
    """What a program brings to a collective: copies of its tensors, and its place."""

    index: int
    path: LinePath
    sent: tuple[torch.Tensor, ...]


@define(eq=False)
class Work:
    """A collective that a rank started; ``rank`` is that in the group."""

    group: ProcessGroup
    rank: int
    call: CollectiveCall
    meeting: Meeting[Brought]
    path: LinePath


@define(eq=False)
class Turns:
    """Has one of ``count`` threads run at a time."""

    count: int
    _turn: int = 0
    _ready: dict[int, Callable[[], bool]] = field(factory=dict[int, Callable[[], bool]])
    _ended: set[int] = field(factory=set[int])
    _changed: Condition = field(factory=Condition)
    failed: bool = False
    stuck: bool = False

    def begin(self, index: int) -> None:
        """Wait for the first turn of a thread."""
        with self._changed:
            self._changed.wait_for(lambda: self._turn == index)

    def wait_until(self, index: int, ready: Callable[[], bool]) -> None:
        """Let others run until something is so.

        Raises:
            AbandonedError: a thread had a fault, or no thread can go on.
        """
        with self._changed:
            self._ready[index] = ready
            self._pass_on(index)
            self._changed.wait_for(lambda: self._turn == index or self.failed or self.stuck)
            if self.failed or self.stuck:
                raise AbandonedError
            del self._ready[index]

    def end(self, index: int, *, failed: bool) -> None:
        """End a thread, and let another one run."""
        with self._changed:
            self._ended.add(index)
            self.failed = self.failed or failed
            self._pass_on(index)

    def _pass_on(self, index: int) -> None:
        """Give the turn to the next thread that can go on."""
        order = [(index + step) % self.count for step in range(1, self.count + 1)]
        left = [each for each in order if each not in self._ended]
        can_go = [each for each in left if each not in self._ready or self._ready[each]()]
        if can_go:
            self._turn = can_go[0]
        elif left:
            self.stuck = True
        if self.failed and left:
            self._turn = left[0]
        self._changed.notify_all()


@define(eq=False)
class RankWorld:
    """The groups of programs that run together, and the works that ranks wait for."""

    programs: Sequence[Program]
    turns: Turns
    members: dict[str, list[int]] = field(factory=dict[str, list[int]])
    meetings: dict[str, Meetings[Brought]] = field(factory=dict[str, Meetings[Brought]])
    waiting: dict[int, Work] = field(factory=dict[int, Work])

    def __attrs_post_init__(self) -> None:
        """Find the members of each group."""
        for index, program in enumerate(self.programs):
            for group in program.groups:
                self.members.setdefault(group.name, []).append(index)
                self.meetings.setdefault(group.name, Meetings(group.size))

    def rank_of(self, group: ProcessGroup, index: int) -> int:
        """Return the rank in a group of a program, by its index."""
        if group.rank is not None:
            return group.rank
        return self.members[group.name].index(index)


@frozen(eq=False)
class RankSession:
    """The part of a world that one rank, with the program at ``index``, sees."""

    world: RankWorld
    index: int

    @classmethod
    def alone(cls, program: Program) -> "RankSession":
        """Return the session of a program that runs alone."""
        return cls(RankWorld((program,), Turns(1)), 0)

    def start(
        self,
        name: str,
        call: CollectiveCall,
        sent: tuple[torch.Tensor, ...],
        path: LinePath,
    ) -> Work:
        """Start a collective of the group of a name.

        Raises:
            FaultError: ranks of the group do not run, or one started something else.
        """
        groups = {group.name: group for group in self.world.programs[self.index].groups}
        group, there = groups.get(name), len(self.world.members.get(name, ()))
        if group is None:
            message = f"the program declares no group {name!r}"
            raise FaultError(Code.RUN_GROUP, message, subject=name)
        if there != group.size:
            message = f"the group {name!r} has {group.size} ranks, and {there} of them run"
            hint = "run a program for each rank with `interpret_ranks`"
            raise FaultError(Code.RUN_GROUP, message, subject=name, hint=hint)
        rank = self.world.rank_of(group, self.index)
        brought = Brought(self.index, path, sent)
        meeting, differs = self.world.meetings[name].join(rank, call, brought)
        if differs is not None:
            other, problem = differs
            known, place = meeting.calls[other]
            message = (
                f"rank {rank} of group {name!r} starts {call}, and rank {other} {known}: "
                f"{problem}"
            )
            where = f"program {place.index} starts it here"
            note = Note(message=where, path=place.path)
            raise FaultError(Code.RUN_RANKS_DIFFER, message, subject=name, notes=(note,))
        return Work(group, rank, call, meeting, path)

    def finish(self, work: Work) -> tuple[torch.Tensor, ...]:
        """Wait for a collective, and return the elements for each tensor that it writes."""
        if not work.meeting.is_complete and self.world.turns.count == 1:
            message = f"{work.call} of group {work.group.name!r} waits for itself"
            raise FaultError(Code.RUN_DEADLOCK, message, subject=work.group.name)
        if not work.meeting.is_complete:
            self.world.waiting[self.index] = work
            self.world.turns.wait_until(self.index, lambda: work.meeting.is_complete)
            del self.world.waiting[self.index]
        calls = {rank: call for rank, (call, _) in work.meeting.calls.items()}
        sent = {rank: brought.sent for rank, (_, brought) in work.meeting.calls.items()}
        return exchange(Exchange(work.rank, work.group.size, calls, sent))


def run_ranks(
    programs: Sequence[Program], runs: Sequence[Callable[[RankSession], T]]
) -> tuple[T, ...]:
    """Return what each function returns that runs one rank.

    Raises:
        DiagnosticError: a rank had a fault, or all ranks that are left wait; each
            diagnostic names its rank.
    """
    world = RankWorld(programs, Turns(len(programs)))
    found: dict[int, T] = {}
    errors: dict[int, BaseException] = {}

    def run(index: int) -> None:
        world.turns.begin(index)
        try:
            found[index] = runs[index](RankSession(world, index))
        except BaseException as error:  # raised again below
            errors[index] = error
        world.turns.end(index, failed=index in errors)

    threads = [Thread(target=run, args=(index,)) for index in range(len(programs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, error in errors.items():
        if not isinstance(error, AbandonedError):
            raise _of_rank(error, index)
    if world.turns.stuck:
        raise _deadlock(world.waiting)
    return tuple(found[index] for index in range(len(programs)))


def _of_rank(error: BaseException, index: int) -> BaseException:
    """Return the error of a rank, whose messages name it."""
    if not isinstance(error, DiagnosticError):
        return error
    return DiagnosticError(
        *(evolve(d, message=f"program {index}: {d.message}") for d in error.diagnostics)
    )


def _deadlock(waiting: Mapping[int, Work]) -> DiagnosticError:
    """Return the error that all ranks which are left wait."""
    texts: list[str] = []
    for index, work in sorted(waiting.items()):
        absent = sorted(set(range(work.group.size)) - set(work.meeting.calls))
        if work.call.operation.is_pairwise:
            absent = [rank for rank in (work.call.peer,) if rank is not None]
        ranks = " and ".join(map(str, absent))
        texts.append(
            f"program {index} waits for {work.call} of group {work.group.name!r}, which "
            f"rank {ranks} does not start"
        )
    first, *others = sorted(waiting)
    notes = [
        Note(message=f"program {each} started it here", path=waiting[each].path)
        for each in others
    ]
    return Code.RUN_DEADLOCK.error(
        "; ".join(texts), path=waiting[first].path, notes=tuple(notes)
    )
