"""Give the memory of freed buffers to buffers that begin later."""

from wrapperir.analysis import Body, Footprints, order_streams, rewrite_bodies
from wrapperir.ir import BodyLine, Program
from wrapperir.passes.live_units import LiveUnits
from wrapperir.passes.reuse_choice import ReuseSearch, reuse_line


def reuse_buffers(program: Program) -> Program:
    """Return the program with buffers in the memory of buffers freed before.

    Before::

        program @main(%x: f32[16, 16]) {
          %buf0 = allocate f32[16, 16]
          extern_kernel aten.mm.out(%x, %x, out = %buf0) writes(%buf0)
          %buf1 = extern_kernel aten.relu.default(%buf0) : f32[16, 16]
          free %buf0
          %buf2 = allocate f32[256]
          extern_kernel aten.view_copy.out(%buf1, [256], out = %buf2) writes(%buf2)
          free %buf1
          return %buf2
        }

    After::

        program @main(%x: f32[16, 16]) {
          %buf0 = allocate f32[16, 16]
          extern_kernel aten.mm.out(%x, %x, out = %buf0) writes(%buf0)
          %buf1 = extern_kernel aten.relu.default(%buf0) : f32[16, 16]
          %buf2 = reuse %buf0 as f32[256]
          extern_kernel aten.view_copy.out(%buf1, [256], out = %buf2) writes(%buf2)
          free %buf1
          return %buf2
        }

    A buffer takes the smallest freed buffer that is large enough, and among equal sizes
    the one freed last; an output takes only its own size.  Reuse keeps memory alive in
    between, so it happens only where the peak of the block does not rise, and only if
    all uses of the old buffer are ordered before all uses of the new one.  Donated inputs
    that are dense give their memory as buffers do.  Buffers in pools stay where they are.
    """
    footprints = Footprints.of_program(program)
    return rewrite_bodies(program, lambda body: _reused(body, footprints))


def _reused(body: Body, footprints: Footprints) -> list[BodyLine]:
    """Return the lines of a body with its buffers reused."""
    lines = body.lines
    found, footprint = footprints.of(lines, body.results, body.entry)
    search = ReuseSearch(
        lines,
        found,
        order_streams(found.effects),
        footprints,
        LiveUnits(footprint, len(lines)),
        {name: type for name, type, _ in body.entry},
    )
    search.run()
    freed_later = {freed.line for freed in search.chosen.values()}
    return [
        reuse_line(line, search.chosen[index].name) if index in search.chosen else line
        for index, line in enumerate(lines)
        if index not in freed_later
    ]
