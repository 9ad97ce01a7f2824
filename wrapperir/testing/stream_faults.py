"""Faults of streams: uses of memory that no event orders."""

import random

from attrs import evolve

from wrapperir.diagnostics import Code
from wrapperir.ir import (
    AllocateLine,
    AllocatePoolLine,
    Block,
    BodyLine,
    BufferRef,
    DType,
    ExternKernelLine,
    FreeLine,
    PlaceLine,
    PoolType,
    Program,
    RecordEventLine,
    ReuseLine,
    SubgraphCallLine,
    WaitEventLine,
    tensor,
)
from wrapperir.testing.injection import Faulty, at_line, choose, places_of, with_lines

_TYPE = tensor(DType.F32, (16,))
_FAR = 1000
"""A stream that no program has."""


def _fill(name: str, stream: int) -> ExternKernelLine:
    return ExternKernelLine(
        operator="aten.zero_.default",
        arguments=(BufferRef(name),),
        writes=(name,),
        stream=stream,
    )


def unordered_read(program: Program, rng: random.Random) -> Faulty | None:
    """Read, on a stream that waits for nothing, what the line before has written."""
    places = ((i, ln) for i, ln in places_of(program, ExternKernelLine) if ln.writes)
    found = choose(places, rng)
    if found is None:
        return None
    index, line = found
    read = ExternKernelLine(
        operator="aten.sum.default",
        arguments=(BufferRef(rng.choice(line.writes)),),
        device=line.device,
        stream=_FAR,
    )
    changed = with_lines(program, index, line, read)
    return at_line(changed, Code.UNORDERED_USE, index + 1)


def unordered_reuse(program: Program, rng: random.Random) -> Faulty:
    """Use memory anew, by ``reuse`` or ``place``, that another stream was using.

    An event that is recorded too early, or waited for by another stream, orders nothing.
    """
    pool = AllocatePoolLine(result="faulty_pool", type=PoolType(size=64))
    place = PlaceLine(result="faulty_a", type=_TYPE, pool="faulty_pool", offset=0)
    record = RecordEventLine(result="faulty_event", stream=1)
    wait = WaitEventLine(event="faulty_event", stream=2)
    fill = _fill("faulty_a", 1)
    lines: list[BodyLine] = [fill, record, wait]
    if rng.random() < 0.5:
        lines = [record, evolve(wait, stream=0), fill]
    if rng.random() < 0.5:
        lines = [AllocateLine(result="faulty_a", type=_TYPE), *lines]
        lines.append(ReuseLine(result="faulty_b", source="faulty_a", type=_TYPE))
    else:
        lines = [pool, place, *lines, FreeLine(buffer="faulty_a")]
        lines += [evolve(place, result="faulty_b"), FreeLine(buffer="faulty_pool")]
    lines += [_fill("faulty_b", 0), FreeLine(buffer="faulty_b")]
    changed = with_lines(program, 0, *lines, replacing=0)
    return at_line(changed, Code.UNORDERED_REUSE, len(lines) - 2)


def nested_stream(program: Program, rng: random.Random) -> Faulty:
    """Launch from a block on another stream than 0."""
    call = ExternKernelLine(
        operator="aten.sum.default", arguments=(1,), stream=rng.randint(1, 9)
    )
    line = SubgraphCallLine(
        results=(), name="block", operands=(), body=Block(lines=(call,))
    )
    changed = with_lines(program, 0, line, replacing=0)
    return Faulty(changed, Code.NESTED_STREAM, ("lines", 0, "body", "lines", 0))
