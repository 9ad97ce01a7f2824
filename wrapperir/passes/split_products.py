"""Compute matrix products of odd extents by aligned ones and narrow ones."""

from collections.abc import Iterable, Iterator, Mapping

from attrs import evolve

from wrapperir import ir as wir
from wrapperir.analysis import rewrite_bodies
from wrapperir.ir.line_effects import value_types
from wrapperir.passes.matrix_products import (
    ALIGNED,
    HalfProduct,
    find_product,
    has_aligned_rows,
)

LEAST = 2048
"""The least extent that is worth another call."""


def split_products(program: wir.Program) -> wir.Program:
    """Return the program with products of an odd extent as an aligned and a narrow one.

    Before::

        program @main(%x: f16[64, 2049; stride 2056, 1]@cuda, %w: f16[2049, 64]@cuda) {
          %y = allocate f16[64, 64]@cuda
          extern_kernel aten.mm.out(%x, %w, out = %y) writes(%y) @cuda
          return %y
        }

    After::

        program @main(%x: f16[64, 2049; stride 2056, 1]@cuda, %w: f16[2049, 64]@cuda) {
          %y = allocate f16[64, 64]@cuda
          %part0 = reinterpret %x as f16[64, 1; stride 2056, 1; offset 2048]@cuda
          %part1 = reinterpret %w as f16[1, 64; offset 131072]@cuda
          extern_kernel aten.mm.out(%part0, %part1, out = %y) writes(%y) @cuda
          free %part0
          free %part1
          %part2 = reinterpret %x as f16[64, 2048; stride 2056, 1]@cuda
          %part3 = reinterpret %w as f16[2048, 64]@cuda
          extern_kernel aten.addmm.out(%y, %part2, %part3, out = %y) writes(%y) @cuda
          free %part2
          free %part3
          return %y
        }

    If an extent is not a multiple of :data:`~.matrix_products.ALIGNED`, cuBLAS takes a slow
    kernel, however the matrices are laid out.  Here one extent, the odd one, is not such a
    multiple, and is at least :data:`LEAST`.  Rows or columns of all three matrices begin at
    such multiples.  Where sums are split, the narrow product comes first, since its result
    is rounded before the other is added.  ``python -m bench.gpu.split_products`` compares
    both.  Linear in the program.
    """
    types = value_types(program)
    names = wir.FreshNames(types)
    return rewrite_bodies(program, lambda body: _split_lines(body.lines, types, names))


def _split_lines(
    lines: Iterable[wir.BodyLine], types: Mapping[str, wir.ValueType], names: wir.FreshNames
) -> Iterator[wir.BodyLine]:
    for line in lines:
        found = find_product(line, types)
        parts = None if found is None else _parts(found, names)
        if parts is None:
            yield line
        else:
            yield from parts


def _parts(product: HalfProduct, names: wir.FreshNames) -> list[wir.BodyLine] | None:
    """Return the lines that compute a product in parts, if it is worth that."""
    matrices = (product.x, product.w, product.out)
    if not all(map(_is_aligned, matrices)):
        return None
    (rows, depth), columns = product.x.size, product.w.size[1]
    extents = [extent for extent in (rows, depth, columns) if isinstance(extent, int)]
    odd = [extent for extent in extents if extent % ALIGNED]
    if len(extents) < 3 or len(odd) != 1 or odd[0] < LEAST:
        return None
    # The dimensions of x, w and out that have the odd extent.
    places = {
        extents[0]: (0, None, 0),
        extents[1]: (1, 0, None),
        extents[2]: (None, 1, 1),
    }[odd[0]]
    end = odd[0] - odd[0] % ALIGNED
    lines: list[wir.BodyLine] = []
    for begin, extent in ((end, odd[0] - end), (0, end)):
        given: list[wir.BufferRef] = []
        made: list[str] = []
        for ref, type, place in zip(product.refs, matrices, places, strict=True):
            if place is None:
                given.append(ref)
                continue
            made.append(names.new(None, "part"))
            given.append(wir.BufferRef(made[-1]))
            part = _narrowed(type, place, begin, extent)
            lines.append(wir.ReinterpretLine(result=made[-1], source=ref.name, type=part))
        x, w, out = given
        adds = places[2] is None and begin == 0
        call = evolve(
            product.line,
            operator="aten.addmm.out" if adds else "aten.mm.out",
            arguments=(out, x, w) if adds else (x, w),
            keywords=(("out", out),),
            writes=(out.name,),
        )
        lines += [call, *(wir.FreeLine(buffer=name) for name in made)]
    return lines


def _is_aligned(type: wir.TensorType) -> bool:
    """Say whether the rows or the columns of a matrix are aligned."""
    return has_aligned_rows(type.stride, type.offset) or has_aligned_rows(
        type.stride[::-1], type.offset
    )


def _narrowed(type: wir.TensorType, place: int, begin: int, extent: int) -> wir.TensorType:
    size = list(type.size)
    size[place] = extent
    offset = wir.add(type.offset, wir.mul(type.stride[place], begin))
    return evolve(type, size=tuple(size), offset=offset, alignment=None)
