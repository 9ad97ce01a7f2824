"""Programs of several ranks whose collectives belong together, and faults put into them."""

from collections.abc import Callable, Mapping
from itertools import pairwise
from random import Random

import torch
from attrs import define, evolve, field
from hypothesis import strategies as st

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.interp import interpret_ranks
from wrapperir.ir.builder import NamedValue, ProgramBuilder
from wrapperir.verify import verify, verify_ranks

ROWS = 4


@define
class _Rank:
    """The program of one rank while it grows; ``works`` are in flight."""

    builder: ProgramBuilder
    x: NamedValue
    groups: dict[str, int]
    made: list[NamedValue] = field(factory=list[NamedValue])
    works: dict[int, NamedValue] = field(factory=dict[int, NamedValue])


@st.composite
def rank_programs(draw: st.DrawFn, most: int = 6) -> list[wir.Program]:
    """Draw a program for each of two to four ranks; all start the same in each group.

    There is a group of all ranks, and one of each half where there are four.
    """
    count = draw(st.integers(2, 4))
    parts: dict[str, list[int]] = {"all": list(range(count))}
    if count == 4:
        parts |= {"low": [0, 1], "high": [2, 3]}
    ranks = [_new_rank(index, parts) for index in range(count)]
    for number in range(draw(st.integers(1, most))):
        name = draw(st.sampled_from(sorted(parts)))
        members = [ranks[index] for index in parts[name]]
        _add(draw, number, name, members)
        for rank in ranks:
            if draw(st.booleans()):
                _compute(rank)
        # Ranks wait when they like, but before work that needs the first of a deadlock.
        if draw(st.booleans()):
            for rank in ranks:
                _wait_all(draw, rank)
    programs: list[wir.Program] = []
    for rank in ranks:
        _wait_all(draw, rank)
        programs.append(rank.builder.build(rank.x, *rank.made))
    return programs


def _new_rank(index: int, parts: Mapping[str, list[int]]) -> _Rank:
    builder = ProgramBuilder(f"rank{index}")
    x = builder.input(wir.tensor("f32", (ROWS,)), name="x", mutated=True)
    groups = {name: ranks.index(index) for name, ranks in parts.items() if index in ranks}
    for name, rank in groups.items():
        builder.process_group(name, len(parts[name]), rank)
    return _Rank(builder, x, groups)


def _compute(rank: _Rank) -> None:
    """Add work that touches nothing in flight."""
    rank.made.append(
        rank.builder.extern(
            "aten.full.default", (ROWS,), 2.0, type=wir.tensor("f32", (ROWS,))
        )
    )


def _source(rank: _Rank, value: int, rows: int = ROWS) -> NamedValue:
    type = wir.tensor("f32", (rows,))
    made = rank.builder.extern("aten.full.default", (rows,), float(value), type=type)
    rank.made.append(made)
    return made


def _add(draw: st.DrawFn, number: int, name: str, members: list[_Rank]) -> None:
    """Start one collective, or a send and a receive, on the members of a group."""
    operation = draw(st.sampled_from(list(wir.Collective)))
    size = len(members)
    if operation.is_pairwise:
        first, second = draw(st.permutations(range(size)))[:2]
        given, taken = members[first], members[second]
        given.works[number] = given.builder.collective(
            "send", name, [_source(given, first)], [], peer=second
        )
        taken.works[number] = taken.builder.collective(
            "receive", name, [], [_source(taken, second)], peer=first
        )
        return
    reduction = draw(st.sampled_from(["sum", "max"])) if operation.reduces else None
    peer = draw(st.integers(0, size - 1)) if operation.has_peer else None
    for index, rank in enumerate(members):
        rows = size * ROWS if operation is wir.Collective.REDUCE_SCATTER else ROWS
        if operation is wir.Collective.ALL_TO_ALL:
            rows = size
        source = _source(rank, index, rows)
        out = None
        if not operation.in_place:
            rows = {wir.Collective.ALL_GATHER: ROWS * size}.get(operation, ROWS)
            rows = size if operation is wir.Collective.ALL_TO_ALL else rows
            out = [rank.builder.allocate(wir.tensor("f32", (rows,)))]
            rank.made += out
        rank.works[number] = rank.builder.collective(
            operation, name, [source], out, reduction=reduction, peer=peer
        )


def _wait_all(draw: st.DrawFn, rank: _Rank) -> None:
    """Wait for what is in flight, in any order: all members have started it."""
    works = list(rank.works.values())
    rank.works.clear()
    for place in draw(st.permutations(range(len(works)))):
        rank.builder.wait_collective(works[place])


def _starts(program: wir.Program) -> list[int]:
    lines = enumerate(program.lines)
    return [i for i, line in lines if isinstance(line, wir.CollectiveLine)]


def _waits(program: wir.Program) -> list[int]:
    lines = enumerate(program.lines)
    return [i for i, line in lines if isinstance(line, wir.WaitCollectiveLine)]


def _replaced(program: wir.Program, index: int, *lines: wir.BodyLine) -> wir.Program:
    before, after = program.lines[:index], program.lines[index + 1 :]
    return evolve(program, lines=(*before, *lines, *after))


def _swap_order(program: wir.Program, rng: Random) -> wir.Program | None:
    """Start two different collectives of one group in the other order."""
    starts = _starts(program)
    for first, second in pairwise(starts):
        one, other = program.lines[first], program.lines[second]
        between = program.lines[first + 1 : second]
        assert isinstance(one, wir.CollectiveLine)
        assert isinstance(other, wir.CollectiveLine)
        look = [(x.operation, x.reduction, x.peer) for x in (one, other)]
        if (
            one.group != other.group
            or look[0] == look[1]
            or one.operation.is_pairwise
            or other.operation.is_pairwise
            or any(isinstance(line, wir.WaitCollectiveLine) for line in between)
        ):
            continue
        moved = (*between, other, one)
        lines = program.lines
        return evolve(program, lines=(*lines[:first], *moved, *lines[second + 1 :]))
    return None


def _on_start(
    change: Callable[[wir.CollectiveLine], wir.CollectiveLine | None],
) -> Callable[[wir.Program, Random], wir.Program | None]:
    def put(program: wir.Program, rng: Random) -> wir.Program | None:
        places = _starts(program)
        rng.shuffle(places)
        for index in places:
            line = program.lines[index]
            assert isinstance(line, wir.CollectiveLine)
            changed = change(line)
            if changed is not None:
                return _replaced(program, index, changed)
        return None

    return put


def _other_reduction(line: wir.CollectiveLine) -> wir.CollectiveLine | None:
    if not line.operation.reduces:
        return None
    return evolve(line, reduction=wir.RankReduction.PRODUCT)


def _other_group(line: wir.CollectiveLine) -> wir.CollectiveLine | None:
    return evolve(line, group="missing")


def _other_shape(program: wir.Program, rng: Random) -> wir.Program | None:
    """Give an all_reduce of one rank half of its tensor."""
    places = _starts(program)
    for index in places:
        line = program.lines[index]
        assert isinstance(line, wir.CollectiveLine)
        if line.operation is not wir.Collective.ALL_REDUCE:
            continue
        (name,) = line.reads
        half = wir.ReinterpretLine(
            result="half", source=name, type=wir.tensor("f32", (ROWS // 2,))
        )
        start = evolve(line, reads=("half",), writes=("half",))
        lines: list[wir.BodyLine] = []
        for other in program.lines:
            if other is line:
                lines += [half, start]
            elif isinstance(other, wir.WaitCollectiveLine) and other.work == line.result:
                lines += [evolve(other, reads=("half",), writes=("half",))]
                lines += [wir.FreeLine(buffer="half")]
            else:
                lines.append(other)
        return evolve(program, lines=tuple(lines))
    return None


def _missing_wait(program: wir.Program, rng: Random) -> wir.Program | None:
    waits = [
        i
        for i, line in enumerate(program.lines)
        if isinstance(line, wir.WaitCollectiveLine)
    ]
    return _replaced(program, rng.choice(waits)) if waits else None


def _double_wait(program: wir.Program, rng: Random) -> wir.Program | None:
    waits = [
        i
        for i, line in enumerate(program.lines)
        if isinstance(line, wir.WaitCollectiveLine)
    ]
    if not waits:
        return None
    index = rng.choice(waits)
    return _replaced(program, index, program.lines[index], program.lines[index])


def _after_start(
    make: Callable[[str], wir.BodyLine],
) -> Callable[[wir.Program, Random], wir.Program | None]:
    """Return a fault that adds a line with a tensor of a collective after its start."""

    def put(program: wir.Program, rng: Random) -> wir.Program | None:
        places = _starts(program)
        if not places:
            return None
        index = rng.choice(places)
        line = program.lines[index]
        assert isinstance(line, wir.CollectiveLine)
        return _replaced(program, index, line, make((*line.reads, *line.writes)[0]))

    return put


def _write(name: str) -> wir.BodyLine:
    return wir.ExternKernelLine(
        operator="aten.zero_.default", arguments=(wir.BufferRef(name),), writes=(name,)
    )


def _free(name: str) -> wir.BodyLine:
    return wir.FreeLine(buffer=name)


def _reuse(name: str) -> wir.BodyLine:
    return wir.ReuseLine(result="again", source=name, type=wir.tensor("f32", (1,)))


RANK_FAULTS: Mapping[
    str, tuple[Callable[[wir.Program, Random], wir.Program | None], set[Code]]
] = {
    "order": (_swap_order, {Code.RANKS_DIFFER, Code.RANKS_DEADLOCK}),
    "shape": (_other_shape, {Code.RANKS_DIFFER}),
    "reduction": (_on_start(_other_reduction), {Code.RANKS_DIFFER}),
    "group": (_on_start(_other_group), {Code.UNKNOWN_GROUP}),
    "missing wait": (_missing_wait, {Code.NEVER_WAITED}),
    "double wait": (_double_wait, {Code.WAITED_TWICE}),
    "early free": (_after_start(_free), {Code.DROPPED_IN_FLIGHT}),
    "early reuse": (_after_start(_reuse), {Code.DROPPED_IN_FLIGHT}),
    "write in flight": (
        _after_start(_write),
        {Code.USED_BEFORE_WAIT, Code.WRITTEN_IN_FLIGHT},
    ),
}
"""Each kind of fault: a change of one rank's program, and the codes it is found by."""


def codes_of(programs: list[wir.Program]) -> set[Code]:
    """Return the codes of the faults of programs, each alone and then together."""
    alone = {d.code for program in programs for d in verify(program)}
    return alone or {d.code for found in verify_ranks(programs) for d in found}


def run(programs: list[wir.Program]) -> list[tuple[torch.Tensor, ...]]:
    """Run the programs on inputs that differ from rank to rank."""
    inputs = [[torch.full((ROWS,), float(rank))] for rank in range(len(programs))]
    outputs = interpret_ranks(programs, inputs, [{} for _ in programs])
    return [tuple(x for x in each if isinstance(x, torch.Tensor)) for each in outputs]
