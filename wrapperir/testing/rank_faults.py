"""Faults of one rank's program, by which it no longer runs with the others."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from random import Random
from types import MappingProxyType

from attrs import evolve, frozen

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.ir.line_effects import LineEffects, value_types

Plant = Callable[[wir.Program, Random], wir.Program | None]
"""Returns a program with a fault, or ``None`` if there is no place for it."""


@frozen
class RankFault:
    """A kind of fault: how to plant it in a program, and the codes that it is found by."""

    plant: Plant
    codes: frozenset[Code]


def _starts(program: wir.Program, rng: Random) -> list[tuple[int, wir.CollectiveLine]]:
    """Return the collectives of a program with their indices, in a random order."""
    lines = enumerate(program.lines)
    found = [(i, line) for i, line in lines if isinstance(line, wir.CollectiveLine)]
    rng.shuffle(found)
    return found


def _replaced(program: wir.Program, index: int, *lines: wir.BodyLine) -> wir.Program:
    before, after = program.lines[:index], program.lines[index + 1 :]
    return evolve(program, lines=(*before, *lines, *after))


def _in_other_order(program: wir.Program, rng: Random) -> wir.Program | None:
    """Start a collective after the next one of its group, which is another one."""
    types = value_types(program)
    starts = sorted(_starts(program, rng), key=lambda found: found[0])
    for number, (first, one) in enumerate(starts):
        later = (found for found in starts[number + 1 :] if found[1].group == one.group)
        second, other = next(later, (0, one))
        if one.operation.is_pairwise or other.operation.is_pairwise:
            continue
        if _look(one, types) == _look(other, types):
            continue
        between = program.lines[first + 1 : second]
        own = {*one.reads, *one.writes, one.result}
        waits = [line for line in between if _ends(line, one, own)]
        rest = [line for line in between if line not in waits]
        if waits and not own.isdisjoint(chain(*map(_names, (*rest, other)))):
            continue
        lines = (*program.lines[:first], *rest, other, one, *waits)
        return evolve(program, lines=(*lines, *program.lines[second + 1 :]))
    return None


def _look(line: wir.CollectiveLine, types: Mapping[str, wir.ValueType]) -> object:
    """Return what other ranks see of a collective."""
    sizes: list[object] = []
    for name in line.reads:
        type = types[name]
        assert isinstance(type, wir.TensorType)
        sizes.append((type.dtype, wir.product(type.size)))
    splits = bool(line.read_splits)  # the rows of each may differ
    return line.operation, line.reduction, line.peer, [] if splits else sizes


def _ends(line: wir.BodyLine, start: wir.CollectiveLine, own: set[str]) -> bool:
    """Say whether a line waits for a collective, or frees what only it has."""
    return _is_wait(line, start) or (isinstance(line, wir.FreeLine) and line.buffer in own)


def _is_wait(line: wir.BodyLine, start: wir.CollectiveLine) -> bool:
    return isinstance(line, wir.WaitCollectiveLine) and line.work == start.result


def _names(line: wir.BodyLine) -> Iterator[str]:
    done = LineEffects(None).visit(line)
    yield from done.uses


def _of_other_shape(program: wir.Program, rng: Random) -> wir.Program | None:
    """Give a collective halves of its tensors."""
    types = value_types(program)
    sizes = {group.name: group.size for group in program.groups}
    for _, start in _starts(program, rng):
        names = tuple(dict.fromkeys((*start.reads, *start.writes)))
        parts = sizes[start.group] if start.operation in _DIVIDED else 1
        halves = {name: _half(types[name], parts) for name in names}
        if start.read_splits or None in halves.values():
            continue
        views = [
            wir.ReinterpretLine(result=f"{name}_half", source=name, type=half)
            for name, half in halves.items()
            if half is not None
        ]
        lines: list[wir.BodyLine] = []
        for line in program.lines:
            if line is start:  # halves of results do not leave the others unwritten
                written = (name for name in start.writes if name not in start.reads)
                lines += [*chain(*map(_written, written)), *views]
            if line is start or _is_wait(line, start):
                assert isinstance(line, wir.CollectiveLine | wir.WaitCollectiveLine)
                reads = tuple(f"{name}_half" for name in line.reads)
                writes = tuple(f"{name}_half" for name in line.writes)
                line = evolve(line, reads=reads, writes=writes)
            lines.append(line)
            if isinstance(line, wir.WaitCollectiveLine) and line.work == start.result:
                lines += [wir.FreeLine(buffer=view.result) for view in views]
        return evolve(program, lines=tuple(lines))
    return None


_DIVIDED = frozenset({wir.Collective.REDUCE_SCATTER, wir.Collective.ALL_TO_ALL})


def _half(type: wir.ValueType, parts: int) -> wir.TensorType | None:
    """Return the type of half of a vector, which can be divided into equal parts."""
    assert isinstance(type, wir.TensorType)
    if len(type.size) != 1 or not isinstance(type.size[0], int):
        return None
    half, odd = divmod(type.size[0], 2)
    return None if odd or half % parts or not half else evolve(type, size=(half,))


def _of_other_group(program: wir.Program, rng: Random) -> wir.Program | None:
    """Start a collective of another group, or of one that is not declared."""
    for index, start in _starts(program, rng):
        known = [group.name for group in program.groups if group.name != start.group]
        other = rng.choice((*known, "missing"))
        return _replaced(program, index, evolve(start, group=other))
    return None


def _with_other_reduction(program: wir.Program, rng: Random) -> wir.Program | None:
    """Reduce by another operation than the others."""
    for index, start in _starts(program, rng):
        if start.operation.reduces:
            product = wir.RankReduction.PRODUCT
            return _replaced(program, index, evolve(start, reduction=product))
    return None


def _waits(program: wir.Program) -> list[int]:
    lines = enumerate(program.lines)
    return [i for i, line in lines if isinstance(line, wir.WaitCollectiveLine)]


def _without_wait(program: wir.Program, rng: Random) -> wir.Program | None:
    """Leave out a wait."""
    waits = _waits(program)
    return _replaced(program, rng.choice(waits)) if waits else None


def _with_two_waits(program: wir.Program, rng: Random) -> wir.Program | None:
    """Wait for a collective twice."""
    waits = _waits(program)
    if not waits:
        return None
    index = rng.choice(waits)
    return _replaced(program, index, program.lines[index], program.lines[index])


def _in_flight(make: Callable[[str], Sequence[wir.BodyLine]]) -> Plant:
    """Return a plant of lines with a tensor of a collective, right after its start."""

    def plant(program: wir.Program, rng: Random) -> wir.Program | None:
        for index, start in _starts(program, rng):
            name = rng.choice((*start.reads, *start.writes))
            return _replaced(program, index, start, *make(name))
        return None

    return plant


def _freed(name: str) -> Sequence[wir.BodyLine]:
    return (wir.FreeLine(buffer=name),)


def _reused(name: str) -> Sequence[wir.BodyLine]:
    type = wir.tensor("f32", (1,))
    return (wir.ReuseLine(result=f"{name}_again", source=name, type=type),)


def _written(name: str) -> Sequence[wir.BodyLine]:
    operator, given = "aten.zero_.default", (wir.BufferRef(name),)
    return (wir.ExternKernelLine(operator=operator, arguments=given, writes=(name,)),)


_DO_NOT_MEET = frozenset({Code.RANKS_DIFFER, Code.RANKS_DEADLOCK})
_WRONG_GROUP = frozenset(
    {Code.UNKNOWN_GROUP, Code.COLLECTIVE_OPERANDS, Code.COLLECTIVE_SHAPE}
)
_USED = frozenset({Code.USED_BEFORE_WAIT, Code.WRITTEN_IN_FLIGHT})
_LATE = frozenset({*_USED, Code.PLACEMENT_OVERLAP})
"""What is wrong, too, if a collective is in flight later than it was."""

RANK_FAULTS: Mapping[str, RankFault] = MappingProxyType(
    {
        "order": RankFault(_in_other_order, _DO_NOT_MEET | _LATE),
        "shape": RankFault(_of_other_shape, frozenset({Code.RANKS_DIFFER})),
        "group": RankFault(_of_other_group, _DO_NOT_MEET | _WRONG_GROUP),
        "reduction": RankFault(_with_other_reduction, frozenset({Code.RANKS_DIFFER})),
        "missing wait": RankFault(_without_wait, frozenset({Code.NEVER_WAITED})),
        "double wait": RankFault(_with_two_waits, frozenset({Code.WAITED_TWICE})),
        "early free": RankFault(_in_flight(_freed), frozenset({Code.DROPPED_IN_FLIGHT})),
        "early reuse": RankFault(_in_flight(_reused), frozenset({Code.DROPPED_IN_FLIGHT})),
        "write in flight": RankFault(_in_flight(_written), _USED),
    }
)
"""The kinds of faults by their names."""
