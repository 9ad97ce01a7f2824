"""Have a Triton kernel compute attention of few positions."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from attrs import frozen

from wrapperir import ir as wir
from wrapperir.analysis import Body, rewrite_bodies
from wrapperir.ir.blocks import blocks_of, walk_lines
from wrapperir.ir.line_effects import LineEffects, value_types
from wrapperir.ir.mentions import buffers_in, type_symbols
from wrapperir.passes.added_kernels import AddedKernels, names_of
from wrapperir.passes.remove_dead_lines import remove_dead_lines

MOST_POSITIONS = 256
"""Queries, and keys, of attention that is worth a kernel of its own."""

LEAST_PROGRAMS = 128
"""Programs of 64 queries that are enough for a GPU."""

_SOURCE = """\
import triton
import triton.language as tl


@triton.jit
def attention(
    query, key, value, mask, out, all_heads, heads, rows, columns, scale,
    query_batch, query_head, query_row, key_batch, key_head, key_row,
    value_batch, value_head, value_row, mask_batch, mask_head, mask_row,
    out_batch, out_head, out_row,
    MASKED: tl.constexpr, CAUSAL: tl.constexpr, WIDTH: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):
    blocks = tl.cdiv(rows, ROWS)
    both = tl.program_id(0) // blocks
    batch = (both // heads).to(tl.int64)
    head = (both % heads).to(tl.int64)
    i = tl.program_id(0) % blocks * ROWS + tl.arange(0, ROWS)[:, None]
    d = tl.arange(0, WIDTH)
    query += batch * query_batch + head * query_head + d[None, :]
    key += batch * key_batch + head * key_head + d[:, None]
    value += batch * value_batch + head * value_head + d[None, :]
    mask += batch * mask_batch + head * mask_head + i * mask_row
    out += batch * out_batch + head * out_head + d[None, :]
    q = tl.load(query + i * query_row, i < rows, 0.0)
    largest = tl.full((ROWS,), float("-inf"), tl.float32)
    weight = tl.zeros((ROWS,), tl.float32)
    total = tl.zeros((ROWS, WIDTH), tl.float32)
    for first in range(0, columns, COLUMNS):
        j = first + tl.arange(0, COLUMNS)
        k = tl.load(key + j[None, :] * key_row, j[None, :] < columns, 0.0)
        v = tl.load(value + j[:, None] * value_row, j[:, None] < columns, 0.0)
        score = tl.dot(q, k) * scale
        seen = (j[None, :] < columns) & (i < rows)
        if CAUSAL:
            seen &= j[None, :] <= i
        if MASKED:
            score += tl.load(mask + j[None, :], seen, 0.0).to(tl.float32)
        score = tl.where(seen, score * 1.4426950408889634, float("-inf"))
        found = tl.maximum(largest, tl.max(score, 1))
        # Where nothing is seen, all weights are 0.
        base = tl.where(found == float("-inf"), 0.0, found)
        share = tl.exp2(score - base[:, None])
        fade = tl.exp2(largest - base)
        weight = weight * fade + tl.sum(share, 1)
        total = tl.dot(share.to(v.dtype), v, total * fade[:, None])
        largest = found
    total /= tl.where(weight == 0.0, 1.0, weight)[:, None]
    tl.store(out + i * out_row, total.to(out.dtype.element_ty), i < rows)"""

_STRIDES = tuple(
    f"{name}_{step}"
    for name in ("query", "key", "value", "mask", "out")
    for step in ("batch", "head", "row")
)
_FLAGS = "MASKED", "CAUSAL", "WIDTH", "ROWS", "COLUMNS"

_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "aten._scaled_dot_product_cudnn_attention.default": (
        *("query", "key", "value", "mask", "log_sum", "dropout", "causal", "debug"),
    ),
    "aten._scaled_dot_product_efficient_attention.default": (
        *("query", "key", "value", "mask", "log_sum", "dropout", "causal"),
    ),
    "aten._scaled_dot_product_flash_attention.default": (
        *("query", "key", "value", "dropout", "causal", "debug"),
    ),
}
_MATRICES = "query", "key", "value"
_WIDTHS = 16, 32, 64, 128
_DTYPES = frozenset({wir.DType.F16, wir.DType.BF16})


@frozen
class _Kernel:
    """What a kernel is made for; calls that agree in all of it share one."""

    dtype: wir.DType
    width: int
    masked: bool
    causal: bool
    rows: int
    columns: int
    stages: int

    @property
    def config(self) -> wir.KernelConfig:
        flags = int(self.masked), int(self.causal), self.width, self.rows, self.columns
        return wir.KernelConfig(
            (
                *zip(_FLAGS, flags, strict=True),
                ("num_warps", 4),
                ("num_stages", self.stages),
            )
        )


def tile_attention(program: wir.Program) -> wir.Program:
    """Return the program with attention of few positions in a Triton kernel.

    Before::

        program @main(%q: f16[2, 8, 64, 32]@cuda) {
          %all = extern_kernel aten._scaled_dot_product_efficient_attention.default(\
%q, %q, %q, none, false, scale = 0.25) @cuda : (f16[2, 8, 64, 32]@cuda, \
f32[2, 8, 0; stride 8, 1, 1]@cuda, i64[]@cuda, i64[]@cuda)
          %y = multi_output %all[0] : f16[2, 8, 64, 32]@cuda
          free %all
          return %y
        }

    After::

        kernel_definition @attention0 triton(query: read f16*, key: read f16*, \
value: read f16*, mask: read f16*, out: write f16*, all_heads: i32, heads: i32, \
rows: i32, columns: i32, scale: f32, query_batch: i32, query_head: i32, \
query_row: i32, key_batch: i32, key_head: i32, key_row: i32, value_batch: i32, \
value_head: i32, value_row: i32, mask_batch: i32, mask_head: i32, mask_row: i32, \
out_batch: i32, out_head: i32, out_row: i32, MASKED: constexpr, \
CAUSAL: constexpr, WIDTH: constexpr, ROWS: constexpr, COLUMNS: constexpr) {
          grid = (all_heads * ceildiv(rows, ROWS))
          config MASKED = 0, CAUSAL = 0, WIDTH = 32, ROWS = 16, COLUMNS = 64, \
num_warps = 4, num_stages = 1
          entry = attention
          source {
            | import triton
            | import triton.language as tl
            |
            |
            | @triton.jit
            | def attention(
            |     query, key, value, mask, out, all_heads, heads, rows, columns, scale,
            |     query_batch, query_head, query_row, key_batch, key_head, key_row,
            |     value_batch, value_head, value_row, mask_batch, mask_head, mask_row,
            |     out_batch, out_head, out_row,
            |     MASKED: tl.constexpr, CAUSAL: tl.constexpr, WIDTH: tl.constexpr,
            |     ROWS: tl.constexpr, COLUMNS: tl.constexpr,
            | ):
            |     blocks = tl.cdiv(rows, ROWS)
            |     both = tl.program_id(0) // blocks
            |     batch = (both // heads).to(tl.int64)
            |     head = (both % heads).to(tl.int64)
            |     i = tl.program_id(0) % blocks * ROWS + tl.arange(0, ROWS)[:, None]
            |     d = tl.arange(0, WIDTH)
            |     query += batch * query_batch + head * query_head + d[None, :]
            |     key += batch * key_batch + head * key_head + d[:, None]
            |     value += batch * value_batch + head * value_head + d[None, :]
            |     mask += batch * mask_batch + head * mask_head + i * mask_row
            |     out += batch * out_batch + head * out_head + d[None, :]
            |     q = tl.load(query + i * query_row, i < rows, 0.0)
            |     largest = tl.full((ROWS,), float("-inf"), tl.float32)
            |     weight = tl.zeros((ROWS,), tl.float32)
            |     total = tl.zeros((ROWS, WIDTH), tl.float32)
            |     for first in range(0, columns, COLUMNS):
            |         j = first + tl.arange(0, COLUMNS)
            |         k = tl.load(key + j[None, :] * key_row, j[None, :] < columns, 0.0)
            |         v = tl.load(value + j[:, None] * value_row, j[:, None] < columns, 0.0)
            |         score = tl.dot(q, k) * scale
            |         seen = (j[None, :] < columns) & (i < rows)
            |         if CAUSAL:
            |             seen &= j[None, :] <= i
            |         if MASKED:
            |             score += tl.load(mask + j[None, :], seen, 0.0).to(tl.float32)
            |         score = tl.where(seen, score * 1.4426950408889634, float("-inf"))
            |         found = tl.maximum(largest, tl.max(score, 1))
            |         # Where nothing is seen, all weights are 0.
            |         base = tl.where(found == float("-inf"), 0.0, found)
            |         share = tl.exp2(score - base[:, None])
            |         fade = tl.exp2(largest - base)
            |         weight = weight * fade + tl.sum(share, 1)
            |         total = tl.dot(share.to(v.dtype), v, total * fade[:, None])
            |         largest = found
            |     total /= tl.where(weight == 0.0, 1.0, weight)[:, None]
            |     tl.store(out + i * out_row, total.to(out.dtype.element_ty), i < rows)
          }
        }

        program @main(%q: f16[2, 8, 64, 32]@cuda) {
          %y = allocate f16[2, 8, 64, 32]@cuda
          kernel_call @attention0(%q, %q, %q, %q, %y, 16, 8, 64, 64, 0.25, 16384, \
2048, 32, 16384, 2048, 32, 16384, 2048, 32, 0, 0, 0, 16384, 2048, 32) @cuda
          return %y
        }

    Libraries take some microseconds however few positions there are.  These have at most
    :data:`MOST_POSITIONS` queries and keys, and rows of 16, 32, 64 or 128 elements; no
    dropout; and no result is used but the first.  Tensors are of f16 or bf16 on CUDA with
    dense rows.  Sums are of f32, in another order than the libraries', and weights are
    rounded to the tensors' dtype, as theirs are.  Rows that see nothing are 0.  The
    algorithm is that of FlashAttention (Dao et al., 2022).  Linear in the program.
    """
    if not any(_operator(line) in _PARAMETERS for line in walk_lines(program.lines)):
        return program
    live = remove_dead_lines(program)
    types, uses = value_types(live), _uses(live)
    kernels = AddedKernels(_definition, "attention", names_of(program))
    changed = rewrite_bodies(live, lambda body: _tiled(body, types, uses, kernels))
    return kernels.added_to(changed) if kernels.definitions else program


_Kernels: TypeAlias = AddedKernels[_Kernel]


def _definition(name: str, kernel: _Kernel) -> wir.KernelDefinitionLine:
    dtype, read = kernel.dtype, wir.Access.READ
    sizes = "all_heads", "heads", "rows", "columns"
    blocks = wir.ceildiv(wir.Symbol("rows"), wir.Symbol("ROWS"))
    return wir.KernelDefinitionLine(
        name=name,
        language=wir.Language.TRITON,
        parameters=(
            *(wir.BufferParameter(x, dtype, read) for x in _MATRICES),
            wir.BufferParameter("mask", dtype, read),
            wir.BufferParameter("out", dtype, wir.Access.WRITE),
            *(wir.ScalarParameter(x, wir.DType.I32) for x in sizes),
            wir.ScalarParameter("scale", wir.DType.F32),
            *(wir.ScalarParameter(x, wir.DType.I32) for x in _STRIDES),
            *map(wir.ConstexprParameter, _FLAGS),
        ),
        grid=(wir.mul(wir.Symbol("all_heads"), blocks),),
        configs=(kernel.config,),
        entry="attention",
        source=_SOURCE,
    )


def _operator(line: wir.BodyLine) -> str:
    return line.operator if isinstance(line, wir.ExternKernelLine) else ""


def _uses(program: wir.Program) -> Counter[str]:
    """Count how often each name is used, other than by a ``free``."""
    uses: Counter[str] = Counter()
    effects = LineEffects(None)
    results = [*program.outputs]
    for line in walk_lines(program.lines):
        results += (result for block in blocks_of(line) for result in block.results)
        if not isinstance(line, wir.FreeLine):
            uses.update(effects.visit(line).uses)
    for result in results:
        uses.update(buffers_in(result))
    return uses


def _tiled(
    body: Body,
    types: Mapping[str, wir.ValueType],
    uses: Counter[str],
    kernels: _Kernels,
) -> Iterator[wir.BodyLine]:
    firsts = {
        line.source: line
        for line in body.lines
        if isinstance(line, wir.MultiOutputLine)
        if line.indices == (0,) and uses[line.source] == 1
    }
    replaced: set[str] = set()
    for line in body.lines:
        if isinstance(line, wir.ExternKernelLine) and line.result in firsts:
            made = _lines(line, firsts[line.result], types, kernels)
            if made:
                replaced.add(line.result)
                yield from made
                continue
        if isinstance(line, wir.MultiOutputLine) and line.source in replaced:
            continue
        if isinstance(line, wir.FreeLine) and line.buffer in replaced:
            continue
        yield line


def _lines(
    line: wir.ExternKernelLine,
    first: wir.MultiOutputLine,
    types: Mapping[str, wir.ValueType],
    kernels: _Kernels,
) -> tuple[wir.BodyLine, ...]:
    """Return an allocation and a launch in place of attention, if it suits the kernel."""
    names = _PARAMETERS.get(line.operator, ())
    given = dict(zip(names, line.arguments, strict=False)) | dict(line.keywords)
    if given.get("log_sum") or given.get("dropout") or given.get("debug") or line.writes:
        return ()
    refs: list[wir.BufferRef] = []
    tensors: list[wir.TensorType] = []
    mask = given.get("mask")
    for ref in (*map(given.get, _MATRICES), *([] if mask is None else [mask])):
        found = types[ref.name] if isinstance(ref, wir.BufferRef) else None
        if not isinstance(found, wir.TensorType) or not _suits(found, line):
            return ()
        assert isinstance(ref, wir.BufferRef)
        refs.append(ref)
        tensors.append(found)
    query, key, value, *of_mask = tensors
    out, causal = first.type, given.get("causal", False)
    batch, heads, rows, width = query.size
    columns = key.size[2]
    if not isinstance(rows, int) or not isinstance(columns, int) or width not in _WIDTHS:
        return ()
    assert isinstance(width, int)
    scale = given.get("scale")
    scale = 1 / math.sqrt(width) if scale is None else scale
    known = {symbol for each in tensors for symbol in type_symbols(each)}
    suits = (
        isinstance(out, wir.TensorType)
        and _suits(out, line)
        and out.size == query.size
        and out.offset == 0
        and key.size == value.size == (batch, heads, columns, width)
        and all(
            own in (1, whole)
            for each in of_mask
            for own, whole in zip(each.size, (batch, heads, rows), strict=False)
        )
        and all(each.size[3] == columns for each in of_mask)
        and all(each.dtype is query.dtype for each in (*tensors, out))
        and 0 < rows <= MOST_POSITIONS
        and 0 < columns <= MOST_POSITIONS
        and known.issuperset(type_symbols(out))
    )
    if not suits or not isinstance(causal, bool) or not isinstance(scale, int | float):
        return ()
    assert isinstance(out, wir.TensorType)
    all_heads = wir.mul(batch, heads)
    tile = _tile(all_heads, rows, columns)
    kernel = _Kernel(query.dtype, width, bool(of_mask), causal, *tile)
    steps_of_mask = [
        0 if extent == 1 else step
        for each in of_mask
        for extent, step in zip(each.size[:3], each.stride[:3], strict=True)
    ] or [0, 0, 0]
    launch = wir.KernelCallLine(
        kernel=kernels.name(kernel),
        arguments=(
            # Without a mask, the kernel does not read the fourth.
            *(*refs[:3], (*refs, refs[0])[3], wir.BufferRef(first.result)),
            *(all_heads, heads, rows, columns, float(scale)),
            *(step for each in (query, key, value) for step in each.stride[:3]),
            *steps_of_mask,
            *out.stride[:3],
        ),
        device=line.device,
        stream=line.stream,
        provenance=line.provenance,
    )
    allocation = wir.AllocateLine(result=first.result, type=out, provenance=line.provenance)
    return allocation, launch


def _suits(type: wir.TensorType, line: wir.ExternKernelLine) -> bool:
    """Say whether a tensor has four dimensions and dense rows, in usual memory of a GPU."""
    usual = type.space == wir.DEFAULT_SPACE and type.layout is None
    return (
        type.device == line.device
        and type.device.kind == "cuda"
        and usual
        and type.dtype in _DTYPES
        and len(type.size) == 4
        and type.stride[3] == 1
    )


def _tile(all_heads: wir.Expr, rows: int, columns: int) -> tuple[int, int, int]:
    """Return a program's queries, the keys that it sees at once, and stages of its loop.

    Of a few, those that were fastest on an H200.
    """
    power = max(16, 1 << (columns - 1).bit_length())
    programs = all_heads * math.ceil(rows / 64) if isinstance(all_heads, int) else None
    if rows <= 16 or (programs is not None and programs < LEAST_PROGRAMS):
        seen = min(power, 128)
        return 16, seen, 1 if seen >= columns else 2
    return 64, min(power, 32 if columns <= 64 else 64), 2
