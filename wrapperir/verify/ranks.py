"""Agreement of the programs of several ranks, found without running them.

The collectives of each program are followed in the order of its lines, as if every block
ran once.  A rank that waits goes on when all ranks of the group have started the same.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from attrs import define, field, frozen

from wrapperir import ir as wir
from wrapperir.analysis.meetings import CollectiveCall, Meeting, Meetings
from wrapperir.diagnostics import Code, Diagnostic, LinePath, Note
from wrapperir.ir.blocks import walk_places
from wrapperir.ir.line_effects import value_types

_ProgramLine: TypeAlias = tuple[int, LinePath]
"""A program, and a line of it."""
_StartKey: TypeAlias = tuple[LinePath, str]
"""A block, and the handle of a collective that it starts."""


@frozen(eq=False)
class _Start:
    """A line that starts a collective of the group ``name``."""

    key: _StartKey
    name: str
    call: CollectiveCall
    path: LinePath


@frozen(eq=False)
class _Wait:
    """A line that waits for the collective with a key."""

    key: _StartKey


def verify_ranks(programs: Sequence[wir.Program]) -> tuple[tuple[Diagnostic, ...], ...]:
    """Return the faults of each program that is to run with the others, one a rank.

    The programs are verified.  The members of a group are the programs that declare it; a
    group that does not say its rank has the ranks of its members in their order.  WIR450:
    the declared groups differ.  WIR451: two ranks start different collectives.  WIR452:
    ranks wait for collectives that others never start.  The time is linear in the programs
    for a constant number of ranks.
    """
    found: list[list[Diagnostic]] = [[] for _ in programs]
    members = _check_groups(programs, found)
    if not any(found):
        _Followed(programs, members, found).run()
    return tuple(map(tuple, found))


def _check_groups(
    programs: Sequence[wir.Program], found: list[list[Diagnostic]]
) -> dict[str, dict[int, int]]:
    """Return the rank of each program in each group; report groups that differ."""
    members: dict[str, dict[int, int]] = {}
    sizes: dict[str, int] = {}
    for index, program in enumerate(programs):
        for place, group in enumerate(program.groups):
            ranks = members.setdefault(group.name, {})
            rank = len(ranks) if group.rank is None else group.rank
            problem = None
            if sizes.setdefault(group.name, group.size) != group.size:
                problem = f"has {group.size} ranks here and {sizes[group.name]} elsewhere"
            elif rank in ranks.values():
                problem = f"has two programs of rank {rank}"
            if problem is not None:
                _report_group(found[index], group, place, problem)
            ranks[index] = rank
    for name, ranks in members.items():
        index = next(iter(ranks))
        if len(ranks) != sizes[name] and not any(found):
            groups = [group.name for group in programs[index].groups]
            place = groups.index(name)
            declaring = "1 program declares" if len(ranks) == 1 else f"{len(ranks)} declare"
            problem = f"has {sizes[name]} ranks, and {declaring} it"
            _report_group(found[index], programs[index].groups[place], place, problem)
    return members


def _report_group(
    found: list[Diagnostic], group: wir.ProcessGroup, place: int, problem: str
) -> None:
    message = f"the group {group.name!r} {problem}"
    path: LinePath = ("groups", place)
    found.append(Diagnostic(Code.RANK_GROUPS, message, path=path, subject=group.name))


@define(eq=False)
class _Followed:
    """Programs whose collectives are followed."""

    programs: Sequence[wir.Program]
    members: dict[str, dict[int, int]]
    found: list[list[Diagnostic]]
    meetings: dict[str, Meetings[_ProgramLine]] = field(
        factory=dict[str, Meetings[_ProgramLine]]
    )
    started: dict[tuple[int, _StartKey], tuple[_Start, Meeting[_ProgramLine]]] = field(
        factory=dict[tuple[int, _StartKey], tuple[_Start, Meeting[_ProgramLine]]]
    )

    def run(self) -> None:
        """Follow the programs until all have ended, or wait; report what differs."""
        for program in self.programs:
            for group in program.groups:
                self.meetings.setdefault(group.name, Meetings(group.size))
        left = {index: _steps_of(program) for index, program in enumerate(self.programs)}
        waiting: dict[int, _Wait] = {}
        moved = True
        while moved:
            moved = False
            for index, steps in list(left.items()):
                if index in waiting and not self._is_over(index, waiting[index]):
                    continue
                moved = True
                waiting.pop(index, None)
                wait = self._advance(index, steps)
                if wait is None:
                    del left[index]
                else:
                    waiting[index] = wait
        if not any(self.found):
            self._report_waiting(waiting)

    def _advance(self, index: int, steps: Iterator[_Start | _Wait]) -> _Wait | None:
        """Follow a program to its next wait that is not over; ``None`` at its end."""
        for step in steps:
            if isinstance(step, _Start):
                self._start(index, step)
            elif not self._is_over(index, step):
                return step
        return None

    def _start(self, index: int, step: _Start) -> None:
        rank = self.members[step.name][index]
        meeting, differs = self.meetings[step.name].join(
            rank, step.call, (index, step.path)
        )
        self.started[index, step.key] = step, meeting
        if differs is None:
            return
        other, problem = differs
        known, (program, path) = meeting.calls[other]
        note = Note(message=f"rank {other} starts this", path=path, program=program)
        message = (
            f"rank {rank} of group {step.name!r} starts {step.call}, and rank {other} "
            f"{known}: {problem}"
        )
        self.found[index].append(
            Diagnostic(Code.RANKS_DIFFER, message, path=step.path, notes=(note,))
        )

    def _is_over(self, index: int, wait: _Wait) -> bool:
        started = self.started.get((index, wait.key))
        return started is None or started[1].is_complete

    def _report_waiting(self, waiting: dict[int, _Wait]) -> None:
        """Report the programs that wait for others."""
        stuck = {index: self.started[index, wait.key] for index, wait in waiting.items()}
        for index, (step, meeting) in stuck.items():
            members = self.members[step.name]
            absent = set(members.values()) - set(meeting.calls)
            if step.call.operation.is_pairwise and step.call.peer is not None:
                absent = {step.call.peer}
            late = {members[other] for other in stuck if other in members} & absent
            why = f"never starts on {_ranks(absent - late)}" if absent - late else ""
            if late:
                why += " and " if why else ""
                why += f"does not start on {_ranks(late)} before a wait there"
            message = (
                f"rank {members[index]} of group {step.name!r} waits for {step.call}, "
                f"which {why}"
            )
            notes = [
                Note(
                    message=f"rank {self.members[there.name][other]} of group "
                    f"{there.name!r} waits for this",
                    path=there.path,
                    program=other,
                )
                for other, (there, _) in stuck.items()
                if other != index
            ]
            self.found[index].append(
                Diagnostic(Code.RANKS_DEADLOCK, message, path=step.path, notes=tuple(notes))
            )


def _ranks(ranks: Iterable[int]) -> str:
    return " and ".join(f"rank {rank}" for rank in sorted(ranks))


def _steps_of(program: wir.Program) -> Iterator[_Start | _Wait]:
    """Yield the starts and waits of a program, in the order of its lines."""
    types = value_types(program)
    for line, path in walk_places(program.lines):
        block = path[:-1]
        if isinstance(line, wir.CollectiveLine):
            key = block, line.result
            yield _Start(key, line.group, _call_of(line, types), path)
        elif isinstance(line, wir.WaitCollectiveLine):
            yield _Wait((block, line.work))


def _call_of(line: wir.CollectiveLine, types: dict[str, wir.ValueType]) -> CollectiveCall:
    def look(names: Sequence[str]) -> tuple[tuple[wir.DType, int | None], ...]:
        found: list[tuple[wir.DType, int | None]] = []
        for name in names:
            type = types.get(name)
            if isinstance(type, wir.TensorType):
                found.append((type.dtype, _constant(wir.product(type.size))))
        return tuple(found)

    return CollectiveCall(
        operation=line.operation,
        reduction=line.reduction,
        peer=line.peer,
        read=look(line.reads),
        written=look(line.writes),
        read_splits=tuple(map(_constant, line.read_splits)),
        write_splits=tuple(map(_constant, line.write_splits)),
    )


def _constant(size: wir.Expr) -> int | None:
    return size if isinstance(size, int) else None
