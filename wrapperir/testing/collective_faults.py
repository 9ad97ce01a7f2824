"""Faults of collectives, of a group that is declared for them, before a program's lines."""

from random import Random

from attrs import evolve

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.testing.injection import Faulty, Injector, at_start

_GROUP = wir.ProcessGroup(name="faulty", size=2)
_TYPE = wir.tensor(wir.DType.F32, (4,))
_SOURCE = wir.ExternKernelLine(
    result="faulty_a", type=_TYPE, operator="aten.full.default", arguments=((4,), 1.0)
)
_GATHERED = wir.AllocateLine(result="faulty_b", type=wir.tensor(wir.DType.F32, (8,)))
_START = wir.CollectiveLine(
    result="faulty_work",
    operation=wir.Collective.ALL_GATHER,
    group=_GROUP.name,
    reads=("faulty_a",),
    writes=("faulty_b",),
)
_WAIT = wir.WaitCollectiveLine(
    work="faulty_work", reads=("faulty_a",), writes=("faulty_b",)
)


def _with_group(program: wir.Program) -> wir.Program:
    return evolve(program, groups=(*program.groups, _GROUP))


def _faulty(program: wir.Program, code: Code, at: int, *lines: wir.BodyLine) -> Faulty:
    """Put lines after two that define tensors; the line at index ``at`` is at fault."""
    found = at_start(_with_group(program), code, _SOURCE, _GATHERED, *lines)
    return evolve(found, path=("lines", at + 2))


def _write(name: str) -> wir.ExternKernelLine:
    return wir.ExternKernelLine(
        operator="aten.zero_.default", arguments=(wir.BufferRef(name),), writes=(name,)
    )


@Injector
def use_before_wait(program: wir.Program, rng: Random) -> Faulty:
    """Use what a collective may still write."""
    use = evolve(
        _SOURCE,
        result="faulty_c",
        type=_GATHERED.type,
        operator="aten.neg.default",
        arguments=(wir.BufferRef("faulty_b"),),
    )
    line = rng.choice((use, _write("faulty_b")))
    return _faulty(program, Code.USED_BEFORE_WAIT, 1, _START, line, _WAIT)


@Injector
def write_in_flight(program: wir.Program, rng: Random) -> Faulty:
    """Write what a collective may still read, by its name or by that of a view."""
    view = wir.ReinterpretLine(result="faulty_v", source="faulty_a", type=_TYPE)
    lines = (_START, view, _write(rng.choice(("faulty_a", "faulty_v"))), _WAIT)
    return _faulty(program, Code.WRITTEN_IN_FLIGHT, 2, *lines)


@Injector
def drop_in_flight(program: wir.Program, rng: Random) -> Faulty:
    """Free or reuse a tensor of a collective before the wait."""
    name = rng.choice(("faulty_a", "faulty_b"))
    lines: tuple[wir.BodyLine, ...] = (
        wir.FreeLine(buffer=name),
        wir.ReuseLine(result="faulty_r", source=name, type=_TYPE),
    )
    return _faulty(program, Code.DROPPED_IN_FLIGHT, 1, _START, rng.choice(lines), _WAIT)


@Injector
def never_waited(program: wir.Program, rng: Random) -> Faulty:
    """Return a tensor from a block in which nothing waits for its collective."""
    body = wir.Block(lines=_started(), results=(wir.BufferRef("faulty_a"),))
    call = wir.SubgraphCallLine(
        results=(wir.Result("faulty_r", _TYPE),), name="faulty", operands=(), body=body
    )
    found = at_start(_with_group(program), Code.NEVER_WAITED, call)
    return evolve(found, path=("lines", 0, "body", "lines", 1))


def _started() -> tuple[wir.BodyLine, ...]:
    """Return a tensor, and a collective in place."""
    start = evolve(
        _START,
        operation=wir.Collective.ALL_REDUCE,
        reduction=wir.RankReduction.SUM,
        writes=("faulty_a",),
    )
    return (_SOURCE, start)


@Injector
def waited_twice(program: wir.Program, rng: Random) -> Faulty:
    """Wait for a collective a second time."""
    return _faulty(program, Code.WAITED_TWICE, 2, _START, _WAIT, _WAIT)


@Injector
def unknown_group(program: wir.Program, rng: Random) -> Faulty:
    """Name a group that is not declared."""
    start = evolve(_START, group="missing")
    return _faulty(program, Code.UNKNOWN_GROUP, 0, start, _WAIT)


@Injector
def invalid_group(program: wir.Program, rng: Random) -> Faulty:
    """Declare a group twice, without ranks, or with a rank that it does not have."""
    groups = (
        *(evolve(_GROUP, size=0), evolve(_GROUP, rank=2), evolve(_GROUP, rank=-1)),
        *((program.groups[0],) if program.groups else ()),
    )
    changed = evolve(program, groups=(*program.groups, rng.choice(groups)))
    return Faulty(changed, Code.INVALID_GROUP, ("groups", len(program.groups)))


@Injector
def collective_operands(program: wir.Program, rng: Random) -> Faulty:
    """Give a collective a reduction, peer, split or tensor that it does not have."""
    start = rng.choice(
        (
            evolve(_START, reduction=wir.RankReduction.SUM),
            evolve(_START, peer=0),
            evolve(_START, read_splits=(4,)),
            evolve(_START, operation=wir.Collective.REDUCE_SCATTER),
            evolve(_START, operation=wir.Collective.BROADCAST, peer=0),
        )
    )
    return _faulty(program, Code.COLLECTIVE_OPERANDS, 0, start, _WAIT)


@Injector
def collective_shape(program: wir.Program, rng: Random) -> Faulty:
    """Give a collective a result of another size or dtype."""
    dtype, count = rng.choice(((wir.DType.F32, 7), (wir.DType.I32, 8)))
    gathered = evolve(_GATHERED, type=wir.tensor(dtype, (count,)))
    found = at_start(
        *(_with_group(program), Code.COLLECTIVE_SHAPE, _SOURCE, gathered, _START, _WAIT)
    )
    return evolve(found, path=("lines", 2))


@Injector
def wait_for_event(program: wir.Program, rng: Random) -> Faulty:
    """Wait for an event as if it was a collective, or the reverse."""
    event = wir.RecordEventLine(result="faulty_event")
    if rng.random() < 0.5:
        wait = evolve(_WAIT, work="faulty_event", writes=())
        return _faulty(program, Code.NOT_A_WORK, 1, event, wait)
    wrong = wir.WaitEventLine(event="faulty_work")
    return _faulty(program, Code.NOT_A_WORK, 1, _START, wrong, _WAIT)


@Injector
def recorded_collective(program: wir.Program, rng: Random) -> Faulty:
    """Start a collective in a block of a graph region."""
    wait = evolve(_WAIT, writes=("faulty_a",))
    inner = wir.Block(lines=(*_started(), wait, wir.FreeLine(buffer="faulty_a")))
    call = wir.SubgraphCallLine(results=(), name="inner", operands=(), body=inner)
    region = wir.GraphRegionLine(
        results=(), name="faulty", operands=(), body=wir.Block(lines=(call,))
    )
    found = at_start(_with_group(program), Code.GRAPH_LINE, region)
    return evolve(found, path=("lines", 0, "body", "lines", 0, "body", "lines", 1))
