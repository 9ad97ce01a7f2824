"""Faults of pools, placements and events, in lines that are put before a program's own.

They need nothing of the program, so every program has a place for them.
"""

import random
from collections.abc import Sequence

from attrs import evolve

from wrapperir.diagnostics import Code
from wrapperir.ir import (
    AllocatePoolLine,
    Block,
    BlockParameter,
    BodyLine,
    BufferRef,
    Device,
    DType,
    Expr,
    ExternKernelLine,
    FreeLine,
    PlaceLine,
    PoolType,
    Program,
    RecordEventLine,
    ReinterpretLine,
    Result,
    SubgraphCallLine,
    TensorType,
    WaitEventLine,
    ZeroMode,
    tensor,
)
from wrapperir.testing.injection import Faulty, at_line, with_lines

_POOL = "faulty_pool"
_UNIT = 64


def _type_of(units: int) -> TensorType:
    return tensor(DType.F32, (units * _UNIT // DType.F32.itemsize,))


def _place(name: str, offset: Expr, units: int = 1) -> PlaceLine:
    return PlaceLine(result=name, type=_type_of(units), pool=_POOL, offset=offset)


def _with_pool(
    program: Program,
    lines: Sequence[BodyLine],
    code: Code,
    index: int,
    *,
    units: int,
    freed: Sequence[str],
) -> Faulty:
    """Return the program with a pool and ``lines`` of it before all else.

    The fault is in line ``index`` of ``lines``.
    """
    pool = AllocatePoolLine(result=_POOL, type=PoolType(size=units * _UNIT))
    frees = [FreeLine(buffer=name) for name in (*freed, _POOL)]
    changed = with_lines(program, 0, pool, *lines, *frees, replacing=0)
    return at_line(changed, code, index + 1)


def overlapping_placement(program: Program, rng: random.Random) -> Faulty:
    """Place a buffer over one of whose names a view still lives."""
    first, second = rng.randint(1, 4), rng.randint(1, 4)
    offset = rng.randrange(first) * _UNIT
    view = ReinterpretLine(result="faulty_view", source="faulty_a", type=_type_of(1))
    lines: list[BodyLine] = [
        _place("faulty_a", 0, first),
        view,
        FreeLine(buffer="faulty_a"),
        _place("faulty_b", offset, second),
    ]
    freed = ("faulty_b", "faulty_view")
    return _with_pool(program, lines, Code.PLACEMENT_OVERLAP, 3, units=8, freed=freed)


def placement_outside(program: Program, rng: random.Random) -> Faulty:
    """Place a buffer so that it ends after its pool does."""
    units = rng.randint(1, 4)
    offset = rng.randint(4 - units + 1, 6) * _UNIT
    lines = [_place("faulty_a", offset, units)]
    return _with_pool(program, lines, Code.OUTSIDE_POOL, 0, units=4, freed=("faulty_a",))


def misaligned_placement(program: Program, rng: random.Random) -> Faulty:
    """Place a buffer where its elements are not aligned, or not as it promises."""
    line = _place("faulty_a", rng.choice((1, 2, 3, 5)))
    if rng.random() < 0.5:
        type = evolve(_type_of(1), alignment=_UNIT)
        line = evolve(line, type=type, offset=rng.choice((4, 16, 32)))
    return _with_pool(
        program, [line], Code.PLACEMENT_ALIGNMENT, 0, units=4, freed=("faulty_a",)
    )


def foreign_placement(program: Program, rng: random.Random) -> Faulty:
    """Place a buffer of another device, space or pinning than its pool's."""
    type = _type_of(1)
    other = rng.choice(
        (
            evolve(type, device=Device("cuda", 0)),
            evolve(type, space="comm"),
            evolve(type, pinned=True),
        )
    )
    lines = [evolve(_place("faulty_a", 0), type=other)]
    return _with_pool(
        program, lines, Code.PLACEMENT_INCOMPATIBLE, 0, units=4, freed=("faulty_a",)
    )


def placed_program_workspace(program: Program, rng: random.Random) -> Faulty:
    """Place a workspace that the program keeps."""
    mode = ZeroMode.ZERO_PER_PROGRAM
    lines = [evolve(_place("faulty_a", 0), workspace=mode)]
    return _with_pool(program, lines, Code.UNPLACEABLE, 0, units=4, freed=("faulty_a",))


def placed_in_buffer(program: Program, rng: random.Random) -> Faulty:
    """Place a buffer in a value that is not a pool."""
    lines = [_place("faulty_a", 0), evolve(_place("faulty_b", 0), pool="faulty_a")]
    freed = ("faulty_b", "faulty_a")
    return _with_pool(program, lines, Code.NOT_A_POOL, 1, units=4, freed=freed)


def pool_as_argument(program: Program, rng: random.Random) -> Faulty:
    """Give a pool to an operator."""
    call = ExternKernelLine(operator="aten.sum.default", arguments=(BufferRef(_POOL),))
    pool = AllocatePoolLine(result=_POOL, type=PoolType(size=_UNIT))
    changed = with_lines(program, 0, pool, call, replacing=0)
    return at_line(changed, Code.MISPLACED_RESOURCE, 1)


def returned_placement(program: Program, rng: random.Random) -> Faulty:
    """Return a buffer that a block placed in a pool among its parameters."""
    pool = PoolType(size=4 * _UNIT)
    inner = evolve(_place("faulty_a", rng.randrange(4) * _UNIT), pool="faulty_lent")
    block = Block(
        parameters=(BlockParameter("faulty_lent", pool),),
        lines=(inner,),
        results=(BufferRef("faulty_a"),),
    )
    call = SubgraphCallLine(
        results=(Result("faulty_b", _type_of(1)),),
        name="block",
        operands=(BufferRef(_POOL),),
        body=block,
    )
    faulty = _with_pool(
        program, [call], Code.BORROWED_RESULT, 0, units=4, freed=("faulty_b",)
    )
    return evolve(faulty, path=(*faulty.path, "body", "results", 0))


def wait_for_buffer(program: Program, rng: random.Random) -> Faulty:
    """Wait for a value that is not an event."""
    wait = WaitEventLine(event="faulty_a", stream=1)
    lines: list[BodyLine] = [_place("faulty_a", 0), wait]
    return _with_pool(program, lines, Code.NOT_AN_EVENT, 1, units=4, freed=("faulty_a",))


def wait_elsewhere(program: Program, rng: random.Random) -> Faulty:
    """Wait for an event of another kind of device."""
    record = RecordEventLine(result="faulty_event", device=Device("cuda", 0))
    wait = WaitEventLine(event="faulty_event")
    return at_line(
        with_lines(program, 0, record, wait, replacing=0), Code.EVENT_ELSEWHERE, 1
    )
