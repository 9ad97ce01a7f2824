"""The loops of a nest in C++, over single points or over lanes.

Lanes are the iterations of a loop that the compiler turns into vector instructions, which
``omp simd`` allows.  Parallel axes also run on several threads where that pays.
"""

from collections.abc import Sequence
from functools import partial

from wrapperir.ir import mul
from wrapperir.lowering.c.lanes import Lanes, varying_values
from wrapperir.lowering.c.points import loops, points, write_inner_loop
from wrapperir.lowering.cpp.body import CppWriter
from wrapperir.lowering.cpp.language import CPP
from wrapperir.lowering.cpp.loop_text import checked_point, unless_empty
from wrapperir.lowering.cpp.near_angles import FLAG, may_run_again, write_near
from wrapperir.lowering.cpp.rows import find_rows
from wrapperir.lowering.cpp.strips import ParallelStrips, write_inner_strips, write_lanes
from wrapperir.lowering.cpp.tiles import write_tiles
from wrapperir.lowering.loops import Axis, InnerLoop, Nest, Store, StoreMode
from wrapperir.lowering.substitution import instructions

_PARALLEL_WORK = 1 << 18
"""Instructions of lanes, counted for each point, from which several threads pay."""
_SCALAR_COST = 8
"""Cost of an instruction of a single point, compared to one of a lane."""
_CHUNK = 4096
"""Points of a lane axis that one thread takes at once."""


def write_nest(writer: CppWriter, nest: Nest, lanes: Lanes) -> None:
    """Write the loops of a nest, with the given lanes."""
    if lanes.axis is None:
        _write_points(writer, nest, lanes)
        return
    (lane,) = (axis for axis in nest.axes if axis.name == lanes.axis)
    others = [axis for axis in nest.axes if axis is not lane]
    if any(isinstance(step, InnerLoop) for step in nest.body):
        pragma = _parallel(writer, nest, len(nest.axes), cost=1)
        ParallelStrips(writer, nest, lane, lanes.apart).write(pragma, others)
    elif lanes.across is not None:
        others = [axis for axis in others if axis.name != lanes.across]
        pragma = _parallel(writer, nest, len(nest.axes), cost=1)
        write_tiles(writer, nest, lanes, pragma, others)
    else:
        _write_lanes(writer, nest, others, lane)


def _parallel(writer: CppWriter, nest: Nest, depth: int, cost: int) -> str | None:
    """Return the pragma that runs ``depth`` loops on several threads, if that pays."""
    combines = any(
        isinstance(step, Store) and step.mode is not StoreMode.OVERWRITE
        for step in instructions(nest.body)
    )
    if combines or not depth:
        return None
    work = mul(points(nest.axes), max(_work_of(nest), 1) * cost)
    collapse = f" collapse({depth})" if depth > 1 else ""
    # Copies of the parameters have no address, so that stores do not change them.
    pragma = f"#pragma omp parallel for{collapse} firstprivate({writer.parameters})"
    if isinstance(work, int):
        return pragma if work >= _PARALLEL_WORK else None
    return f"{pragma} if({writer.indices.format(work)} >= {_PARALLEL_WORK})"


def _work_of(nest: Nest) -> int:
    """Return instructions for each point; a loop of unknown length counts once."""
    total = 0
    for step in nest.body:
        if isinstance(step, InnerLoop):
            length = points(step.axes)
            total += len(step.body) * (length if isinstance(length, int) else 1)
        else:
            total += 1
    return total


def _write_lanes(writer: CppWriter, nest: Nest, others: Sequence[Axis], lane: Axis) -> None:
    """Write a nest without inner loops; lanes of a long axis come in chunks."""
    extent = writer.indices.format(lane.extent)
    varying = varying_values(nest.body, lane.name)
    in_chunks = not others or not isinstance(lane.extent, int) or lane.extent > _CHUNK
    pragma = _parallel(writer, nest, len(others) + in_chunks, cost=1)
    in_chunks = in_chunks and pragma is not None
    if pragma is not None:
        writer.source.write(pragma)
    with loops(writer, others):
        if in_chunks:
            writer.source.write(
                f"for (i64 chunk = 0; chunk < {extent}; chunk += {_CHUNK}) {{",
                f"const i64 end = minimum(i64(chunk + {_CHUNK}), i64({extent}));",
            )
        writer.add_axis(lane)
        part = ("chunk", "end") if in_chunks else None
        with unless_empty(writer, lane), checked_point(writer):
            _write_lane_loops(writer, nest, varying, lane, part)
        if in_chunks:
            writer.source.write("}")


def _write_lane_loops(
    writer: CppWriter,
    nest: Nest,
    varying: frozenset[str],
    lane: Axis,
    part: tuple[str, str] | None,
) -> None:
    """Write the loop over lanes, twice if the second is for huge angles."""
    steps = tuple(instructions(nest.body))
    if not may_run_again(nest):
        write_lanes(writer, steps, varying, lane, part)
        return
    writer.source.write(f"i32 {FLAG} = 0;")
    near = partial(write_near, writer)
    with writer.forgetting():
        write_lanes(writer, steps, varying, lane, part, near, (FLAG,))
    with writer.source.block(f"if ({FLAG})"):
        write_lanes(writer, steps, varying, lane, part)


def _write_points(writer: CppWriter, nest: Nest, lanes: Lanes) -> None:
    """Write a nest point by point, with lanes in some of its inner loops."""
    axes = nest.axes or (Axis("", 1),)
    cost = 1 if lanes.loops else _SCALAR_COST
    pragma = _parallel(writer, nest, len(axes), cost)
    if pragma is not None:
        writer.source.write(pragma)
    writer.rows = find_rows(nest, lanes.loops)
    with loops(writer, axes), checked_point(writer):
        for row in writer.rows.arrays:
            kind = CPP.scalar(row.dtype)
            writer.source.write(f"alignas(64) {kind} {row.name}[{row.length}];")
        for place, step in enumerate(nest.body):
            if not isinstance(step, InnerLoop):
                writer.write(step)
            elif place in lanes.loops:
                write_inner_strips(writer, step, f"a{place}")
            else:
                write_inner_loop(writer, step, f"a{place}")
