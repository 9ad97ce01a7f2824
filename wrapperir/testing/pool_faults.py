"""Faults of pools, placements, events and streams.

Most are in lines that are put before a program's own, so that every program has a place.
"""

from random import Random

from attrs import evolve

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.testing.injection import Faulty, Injector, at_start, line_fault

_POOL = "faulty_pool"
_UNIT = 64


def _type_of(units: int) -> wir.TensorType:
    return wir.tensor(wir.DType.F32, (units * _UNIT // wir.DType.F32.itemsize,))


def _place(name: str, offset: wir.Expr, units: int = 1) -> wir.PlaceLine:
    return wir.PlaceLine(result=name, type=_type_of(units), pool=_POOL, offset=offset)


def _in_pool(
    program: wir.Program, code: Code, *lines: wir.BodyLine, units: int = 4
) -> Faulty:
    """Put a pool and lines that use it, the last at fault, before a program."""
    pool = wir.AllocatePoolLine(result=_POOL, type=wir.PoolType(size=units * _UNIT))
    return at_start(program, code, pool, *lines)


@Injector
def overlapping_placement(program: wir.Program, rng: Random) -> Faulty:
    """Place a buffer over another that is alive by the name of a view."""
    first, second = rng.randint(1, 4), rng.randint(1, 4)
    offset = rng.randrange(first) * _UNIT
    lines: list[wir.BodyLine] = [
        _place("faulty_a", 0, first),
        wir.ReinterpretLine(result="faulty_view", source="faulty_a", type=_type_of(1)),
        wir.FreeLine(buffer="faulty_a"),
        _place("faulty_b", offset, second),
    ]
    return _in_pool(program, Code.PLACEMENT_OVERLAP, *lines, units=8)


@Injector
def placement_outside(program: wir.Program, rng: Random) -> Faulty:
    """Place a buffer so that it ends after its pool does."""
    units = rng.randint(1, 4)
    offset = rng.randint(4 - units + 1, 6) * _UNIT
    return _in_pool(program, Code.OUTSIDE_POOL, _place("faulty_a", offset, units))


@Injector
def misaligned_placement(program: wir.Program, rng: Random) -> Faulty:
    """Place a buffer where its elements are not aligned, or not as it promises."""
    line = _place("faulty_a", rng.choice((1, 2, 3, 5)))
    if rng.random() < 0.5:
        type = evolve(_type_of(1), alignment=_UNIT)
        line = evolve(line, type=type, offset=rng.choice((4, 16, 32)))
    return _in_pool(program, Code.PLACEMENT_ALIGNMENT, line)


@Injector
def foreign_placement(program: wir.Program, rng: Random) -> Faulty:
    """Place a buffer of another device, space or pinning than its pool's."""
    type = _type_of(1)
    others = (
        evolve(type, device=wir.Device("cuda", 0)),
        evolve(type, space="comm"),
        evolve(type, pinned=True),
    )
    line = evolve(_place("faulty_a", 0), type=rng.choice(others))
    return _in_pool(program, Code.PLACEMENT_INCOMPATIBLE, line)


@Injector
def placed_program_workspace(program: wir.Program, rng: Random) -> Faulty:
    """Place a workspace that the program keeps."""
    line = evolve(_place("faulty_a", 0), workspace=wir.ZeroMode.ZERO_PER_PROGRAM)
    return _in_pool(program, Code.UNPLACEABLE, line)


@Injector
def placed_in_buffer(program: wir.Program, rng: Random) -> Faulty:
    """Place a buffer in a value that is not a pool."""
    line = evolve(_place("faulty_b", 0), pool="faulty_a")
    return _in_pool(program, Code.NOT_A_POOL, _place("faulty_a", 0), line)


@Injector
def pool_as_argument(program: wir.Program, rng: Random) -> Faulty:
    """Give a pool to an operator."""
    call = wir.ExternKernelLine(
        operator="aten.sum.default", arguments=(wir.BufferRef(_POOL),)
    )
    return _in_pool(program, Code.MISPLACED_RESOURCE, call)


@Injector
def returned_placement(program: wir.Program, rng: Random) -> Faulty:
    """Return a buffer that a block placed in a pool among its parameters."""
    inner = evolve(_place("faulty_a", rng.randrange(4) * _UNIT), pool="faulty_lent")
    block = wir.Block(
        parameters=(wir.BlockParameter("faulty_lent", wir.PoolType(size=4 * _UNIT)),),
        lines=(inner,),
        results=(wir.BufferRef("faulty_a"),),
    )
    call = wir.SubgraphCallLine(
        results=(wir.Result("faulty_b", _type_of(1)),),
        name="block",
        operands=(wir.BufferRef(_POOL),),
        body=block,
    )
    faulty = _in_pool(program, Code.BORROWED_RESULT, call)
    return evolve(faulty, path=(*faulty.path, "body", "results", 0))


@Injector
def wait_for_buffer(program: wir.Program, rng: Random) -> Faulty:
    """Wait for a value that is not an event."""
    wait = wir.WaitEventLine(event="faulty_a", stream=1)
    return _in_pool(program, Code.NOT_AN_EVENT, _place("faulty_a", 0), wait)


@Injector
def wait_elsewhere(program: wir.Program, rng: Random) -> Faulty:
    """Wait for an event of another kind of device."""
    record = wir.RecordEventLine(result="faulty_event", device=wir.Device("cuda", 0))
    wait = wir.WaitEventLine(event="faulty_event")
    return at_start(program, Code.EVENT_ELSEWHERE, record, wait)


def _unordered_read_of(line: wir.ExternKernelLine, rng: Random) -> list[wir.BodyLine]:
    read = wir.ExternKernelLine(
        operator="aten.sum.default",
        arguments=(wir.BufferRef(rng.choice(line.writes)),),
        device=line.device,
        stream=1000,  # no program has it
    )
    return [line, read]


unordered_read = line_fault(
    wir.ExternKernelLine,
    Code.UNORDERED_USE,
    _unordered_read_of,
    at=1,
    where=lambda line: bool(line.writes),
)
"""Read the result of the previous line on a stream that waits for nothing."""


def _fill(name: str, stream: int) -> wir.ExternKernelLine:
    return wir.ExternKernelLine(
        operator="aten.zero_.default",
        arguments=(wir.BufferRef(name),),
        writes=(name,),
        stream=stream,
    )


@Injector
def unordered_reuse(program: wir.Program, rng: Random) -> Faulty:
    """Reuse or place over memory that another stream is using.

    An event that is recorded too early, or waited for by another stream, orders nothing.
    """
    record = wir.RecordEventLine(result="faulty_event", stream=1)
    wait = wir.WaitEventLine(event="faulty_event", stream=2)
    fill = _fill("faulty_a", 1)
    lines: list[wir.BodyLine] = [fill, record, wait]
    if rng.random() < 0.5:
        lines = [record, evolve(wait, stream=0), fill]
    last = _fill("faulty_b", 0)
    if rng.random() < 0.5:
        buffer = wir.AllocateLine(result="faulty_a", type=_type_of(1))
        reuse = wir.ReuseLine(result="faulty_b", source="faulty_a", type=_type_of(1))
        return at_start(program, Code.UNORDERED_REUSE, buffer, *lines, reuse, last)
    lines = [_place("faulty_a", 0), *lines, wir.FreeLine(buffer="faulty_a")]
    return _in_pool(program, Code.UNORDERED_REUSE, *lines, _place("faulty_b", 0), last)


@Injector
def nested_stream(program: wir.Program, rng: Random) -> Faulty:
    """Launch from a block on another stream than 0."""
    call = wir.ExternKernelLine(
        operator="aten.sum.default", arguments=(1,), stream=rng.randint(1, 9)
    )
    line = wir.SubgraphCallLine(
        results=(), name="block", operands=(), body=wir.Block(lines=(call,))
    )
    faulty = at_start(program, Code.NESTED_STREAM, line)
    return evolve(faulty, path=(*faulty.path, "body", "lines", 0))
