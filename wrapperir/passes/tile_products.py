"""Have a Triton kernel compute matrix products that libraries compute slowly."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from attrs import frozen

from wrapperir import ir as wir
from wrapperir.analysis import rewrite_bodies
from wrapperir.ir.line_effects import value_types
from wrapperir.passes.added_kernels import AddedKernels, names_of
from wrapperir.passes.matrix_products import (
    HalfProduct,
    find_product,
    has_aligned_rows,
)

LEAST_COLUMNS = 2048
"""Columns of a product that is worth a kernel of its own."""

LEAST_DEPTH = 64
"""Terms of each sum in such a product."""

_SOURCE = """\
import triton
import triton.language as tl


@triton.jit
def product(
    x, w, out, rows, columns, depth, x_step, w_step, out_step,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):
    # Programs that read the same columns of w are neighbors.
    blocks = tl.cdiv(rows, ROWS)
    at = tl.program_id(0).to(tl.int64)
    i = at % blocks * ROWS + tl.arange(0, ROWS)
    j = at // blocks * COLUMNS + tl.arange(0, COLUMNS)
    k = tl.arange(0, DEPTH)
    left = x + (i % rows)[:, None] * x_step + k[None, :]
    right = w + (j % columns)[None, :] * w_step + k[:, None]
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for done in range(0, depth, DEPTH):
        a = tl.load(left, k[None, :] < depth - done, 0.0)
        b = tl.load(right, k[:, None] < depth - done, 0.0)
        total = tl.dot(a, b, total)
        left += DEPTH
        right += DEPTH
    inside = (i < rows)[:, None] & (j < columns)[None, :]
    value = total.to(out.dtype.element_ty)
    tl.store(out + i[:, None] * out_step + j[None, :], value, inside)"""

_NUMBERS = ("rows", "columns", "depth", "x_step", "w_step", "out_step")


@frozen
class _Tile:
    """What one program of the kernel computes, and how."""

    rows: int
    columns: int
    depth: int
    stages: int

    @property
    def config(self) -> wir.KernelConfig:
        return wir.KernelConfig(
            (
                ("ROWS", self.rows),
                ("COLUMNS", self.columns),
                ("DEPTH", self.depth),
                ("num_warps", 4),
                ("num_stages", self.stages),
            )
        )


# By the most rows of a product; the fastest of a few on an H200.
_TILES = ((16, _Tile(16, 64, 128, 4)), (128, _Tile(64, 64, 64, 4)))
_TILE_OF_MORE_ROWS = _Tile(64, 128, 64, 4)
_TILE_OF_MANY_ROWS = 512, _Tile(128, 128, 64, 3)
_TILE_OF_ANY_ROWS = _Tile(64, 64, 64, 4)


def tile_products(program: wir.Program) -> wir.Program:
    """Return the program with products of an odd number of columns in a Triton kernel.

    Before::

        program @main(%x: f16[8, 64]@cuda, %w: f16[64, 2049; stride 1, 64]@cuda) {
          %y = allocate f16[8, 2049]@cuda
          extern_kernel aten.mm.out(%x, %w, out = %y) writes(%y) @cuda
          return %y
        }

    After::

        kernel_definition @product0 triton(x: read f16*, w: read f16*, out: write f16*, \
rows: i32, columns: i32, depth: i32, x_step: i32, w_step: i32, out_step: i32, \
ROWS: constexpr, COLUMNS: constexpr, DEPTH: constexpr) {
          grid = (ceildiv(rows, ROWS) * ceildiv(columns, COLUMNS))
          config ROWS = 16, COLUMNS = 64, DEPTH = 128, num_warps = 4, num_stages = 4
          entry = product
          source {
            | import triton
            | import triton.language as tl
            |
            |
            | @triton.jit
            | def product(
            |     x, w, out, rows, columns, depth, x_step, w_step, out_step,
            |     ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
            | ):
            |     # Programs that read the same columns of w are neighbors.
            |     blocks = tl.cdiv(rows, ROWS)
            |     at = tl.program_id(0).to(tl.int64)
            |     i = at % blocks * ROWS + tl.arange(0, ROWS)
            |     j = at // blocks * COLUMNS + tl.arange(0, COLUMNS)
            |     k = tl.arange(0, DEPTH)
            |     left = x + (i % rows)[:, None] * x_step + k[None, :]
            |     right = w + (j % columns)[None, :] * w_step + k[:, None]
            |     total = tl.zeros((ROWS, COLUMNS), tl.float32)
            |     for done in range(0, depth, DEPTH):
            |         a = tl.load(left, k[None, :] < depth - done, 0.0)
            |         b = tl.load(right, k[:, None] < depth - done, 0.0)
            |         total = tl.dot(a, b, total)
            |         left += DEPTH
            |         right += DEPTH
            |     inside = (i < rows)[:, None] & (j < columns)[None, :]
            |     value = total.to(out.dtype.element_ty)
            |     tl.store(out + i[:, None] * out_step + j[None, :], value, inside)
          }
        }

        program @main(%x: f16[8, 64]@cuda, %w: f16[64, 2049; stride 1, 64]@cuda) {
          %y = allocate f16[8, 2049]@cuda
          kernel_call @product0(%x, %w, %y, 8, 2049, 64, 64, 64, 2049) @cuda
          return %y
        }

    Rows of odd length are not aligned, unless they are padded, and cuBLAS has only slow
    kernels for them.  These products are of f16 or bf16 on CUDA, with at least two rows,
    :data:`LEAST_COLUMNS` columns and sums of :data:`LEAST_DEPTH` terms.  Their operands are
    aligned: the rows of the first and the columns of the second are dense, and begin at
    multiples of :data:`~.matrix_products.ALIGNED` elements.  Sums are of f32, in another
    order than the library's.  Linear in the program.
    """
    types = value_types(program)
    kernels = AddedKernels(_definition, "product", names_of(program))
    changed = rewrite_bodies(program, lambda body: _tiled(body.lines, types, kernels))
    return kernels.added_to(changed) if kernels.definitions else program


_Tiles: TypeAlias = AddedKernels[tuple[wir.DType, _Tile]]


def _definition(name: str, key: tuple[wir.DType, _Tile]) -> wir.KernelDefinitionLine:
    dtype, tile = key
    rows, columns = (
        wir.ceildiv(wir.Symbol(extent), wir.Symbol(block))
        for extent, block in (("rows", "ROWS"), ("columns", "COLUMNS"))
    )
    return wir.KernelDefinitionLine(
        name=name,
        language=wir.Language.TRITON,
        parameters=(
            wir.BufferParameter("x", dtype, wir.Access.READ),
            wir.BufferParameter("w", dtype, wir.Access.READ),
            wir.BufferParameter("out", dtype, wir.Access.WRITE),
            *(wir.ScalarParameter(number, wir.DType.I32) for number in _NUMBERS),
            *map(wir.ConstexprParameter, ("ROWS", "COLUMNS", "DEPTH")),
        ),
        grid=(wir.mul(rows, columns),),
        configs=(tile.config,),
        entry="product",
        source=_SOURCE,
    )


def _tiled(
    lines: Iterable[wir.BodyLine],
    types: Mapping[str, wir.ValueType],
    kernels: _Tiles,
) -> Iterable[wir.BodyLine]:
    for line in lines:
        product = find_product(line, types)
        call = None if product is None else _call(product, kernels)
        yield line if call is None else call


def _call(product: HalfProduct, kernels: _Tiles) -> wir.KernelCallLine | None:
    """Return the launch that computes a product, if it is one for the kernel."""
    x, w, out = product.x, product.w, product.out
    rows, depth, columns = x.size[0], x.size[1], w.size[1]
    suits = (
        isinstance(columns, int)
        and isinstance(depth, int)
        and columns >= LEAST_COLUMNS
        and columns % 2
        and depth >= LEAST_DEPTH
        and rows not in (0, 1)
        and has_aligned_rows(x.stride, x.offset)
        and has_aligned_rows(w.stride[::-1], w.offset)
        and out.stride[1] == 1
        and not has_aligned_rows(out.stride, out.offset)
    )
    if not suits:
        return None
    numbers = rows, columns, depth, x.stride[0], w.stride[1], out.stride[0]
    return wir.KernelCallLine(
        kernel=kernels.name((x.dtype, _tile_of(rows))),
        arguments=(*product.refs, *numbers),
        device=product.line.device,
        stream=product.line.stream,
        provenance=product.line.provenance,
    )


def _tile_of(rows: wir.Expr) -> _Tile:
    if not isinstance(rows, int):
        return _TILE_OF_ANY_ROWS
    many, largest = _TILE_OF_MANY_ROWS
    if rows > many:
        return largest
    return next((tile for most, tile in _TILES if rows <= most), _TILE_OF_MORE_ROWS)
