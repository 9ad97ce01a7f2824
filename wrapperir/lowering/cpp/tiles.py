"""Loops over two-dimensional tiles, for loads that are contiguous across the lanes.

A tile of such a buffer is transposed into an array, from which the loop over lanes reads::

    for each tile of 32 points of i0 and 64 of i1:
        t[a][l] = y[i1 + l, i0 + a]     in registers, 16 by 16
        for a < 32:
            for l < 64:                 lanes
                out[i0 + a, i1 + l] = x[i0 + a, i1 + l] + t[a][l]
"""

from collections.abc import Sequence

from wrapperir.lowering.c.lanes import Lanes, varying_values
from wrapperir.lowering.c.points import loops
from wrapperir.lowering.cpp.body import CppWriter
from wrapperir.lowering.cpp.half_arrays import Strip
from wrapperir.lowering.cpp.loop_text import checked_point, write_lane_loop
from wrapperir.lowering.loops import Axis, Load, Nest
from wrapperir.lowering.substitution import instructions

TILE_LANES = 64
TILE_ROWS = 32
"""A multiple of 16; a row of a tile is a cache line of ``f16``, and two of ``f32``."""


def write_tiles(
    writer: CppWriter,
    nest: Nest,
    lanes: Lanes,
    pragma: str | None,
    others: Sequence[Axis],
) -> None:
    """Write a nest in tiles; ``others`` are the axes that no tile runs over.

    ``pragma`` is for the loops over them and over tiles.
    """
    source, indices = writer.source, writer.indices
    axes = {axis.name: axis for axis in nest.axes}
    assert lanes.axis is not None
    assert lanes.across is not None
    lane, across = axes[lanes.axis], axes[lanes.across]
    if pragma is not None:
        source.write(pragma)
    column, columns = writer.add_axis(lane), indices.format(lane.extent)
    row, rows = writer.add_axis(across), indices.format(across.extent)
    first, left = f"{row}_tile", f"{column}_tile"
    heads = (
        f"for (i64 {first} = 0; {first} < {rows}; {first} += {TILE_ROWS})",
        f"for (i64 {left} = 0; {left} < {columns}; {left} += {TILE_LANES})",
    )
    with loops(writer, others), source.block(heads[0]), source.block(heads[1]):
        source.write(
            f"const i64 height = minimum(i64({rows} - {first}), i64({TILE_ROWS}));",
            f"const i64 n = minimum(i64({columns} - {left}), i64({TILE_LANES}));",
        )
        body = list(instructions(nest.body))
        _write_loads(writer, body, lanes, {across.name: first, lane.name: left})
        indices.names.update({across.name: row, lane.name: column})
        with source.block("for (i64 a = 0; a < height; ++a)"), checked_point(writer):
            source.write(f"const i64 {row} = {first} + a;")
            head = (
                "for (i64 l = 0; l < n; ++l)",
                f"const i64 {column} = {left} + l;",
            )
            strip = Strip(axis=lane.name, width=TILE_LANES, base=left)
            varying = varying_values(nest.body, lane.name)
            write_lane_loop(writer, body, varying, head, strip=strip)


def _write_loads(
    writer: CppWriter,
    body: Sequence[object],
    lanes: Lanes,
    starts: dict[str, str],
) -> None:
    """Write the transposition of the tiles of transposed loads."""
    writer.indices.names.update(starts)
    transposed = [
        step for step in body if isinstance(step, Load) and step.result in lanes.transposed
    ]
    for place, step in enumerate(transposed):
        kind = writer.stored_type(step)
        stride = writer.indices.format(lanes.transposed[step.result])
        with writer.source.computing(step.origins):
            writer.source.write(
                f"alignas(64) {kind} t{place}[{TILE_ROWS}][{TILE_LANES}];",
                f"load_transposed<{kind}>"
                f"(t{place}, {writer.place(step)}, {stride}, height, n);",
            )
        writer.elements[step.result] = f"t{place}[a][l]"
