"""Have a Triton kernel compute attention of few positions."""

from collections.abc import Iterator

from wrapperir import ir as wir
from wrapperir.analysis import Body, rewrite_bodies
from wrapperir.passes.added_kernels import names_of
from wrapperir.passes.attention_calls import AttentionFacts, has_attention
from wrapperir.passes.attention_kernel import AttentionKernels
from wrapperir.passes.remove_dead_lines import remove_dead_lines


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
    :data:`~.attention_calls.MOST_POSITIONS` queries and keys, and rows of 16, 32, 64 or 128
    elements; no dropout; and no result is used but the first.  Tensors are of f16 or bf16
    on CUDA with dense rows.  Sums are of f32, in another order than the libraries', and
    weights are rounded to the tensors' dtype, as theirs are.  Rows that see nothing are 0.
    The algorithm is that of FlashAttention (Dao et al., 2022).  Linear in the program.

    The ranges of symbols may tell that there are so few, or a conditional of
    :func:`~.branch_attention.branch_attention` around the call.  Where the best kernel
    depends on symbols, a multi-kernel chooses among two or three.
    """
    if not has_attention(program):
        return program
    live = remove_dead_lines(program)
    facts = AttentionFacts.of_program(live)
    kernels = AttentionKernels(names_of(program))
    changed = rewrite_bodies(live, lambda body: _tiled(body, facts, kernels))
    return kernels.added_to(changed) if kernels.are_used else program


def _tiled(
    body: Body, facts: AttentionFacts, kernels: AttentionKernels
) -> Iterator[wir.BodyLine]:
    replaced = {
        name: call
        for name, call in facts.calls(body.lines).items()
        if facts.has_few_positions(call) is True
    }
    for line in body.lines:
        if isinstance(line, wir.ExternKernelLine) and line.result in replaced:
            call = replaced[line.result]
            yield wir.AllocateLine(
                result=call.result, type=call.out, provenance=line.provenance
            )
            yield kernels.launch(call, facts.bounds)
        elif isinstance(line, wir.MultiOutputLine) and line.source in replaced:
            continue
        elif not (isinstance(line, wir.FreeLine) and line.buffer in replaced):
            yield line
