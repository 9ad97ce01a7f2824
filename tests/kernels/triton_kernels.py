"""Hand-written kernels; load it with ``load_kernels``, never by importing it."""
# ruff: noqa: N803 - block sizes are capitals in Triton
# mypy: ignore-errors

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def add_one(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(y + i, tl.load(x + i, mask) + 1, mask)


@triton.jit
def scale(x, y, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    value = tl.load(x + i, mask)
    tl.store(y + i, value * value + value * factor, mask)


@triton.jit
def row_sum(x, y, columns, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * stride + i, i < columns, other=0.0)
    tl.store(y + row, tl.sum(total, 0))


@triton.jit
def normalise(value):
    value = value - tl.max(value, 1)[:, None]
    value = libdevice.exp(value)
    return value / tl.sum(value, 1)[:, None]


@triton.jit
def softmax(x, y, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    mask = (row < rows) & (column < columns)
    value = tl.load(x + row * columns + column, mask, other=float("-inf"))
    value = tl.where(row < rows, value, 0.0)
    tl.store(y + row * columns + column, normalise(value), mask)


@triton.jit
def matmul(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)[:, None]
    columns = tl.program_id(1) * N + tl.arange(0, N)[None, :]
    accumulator = tl.zeros([M, N], tl.float32)
    for start in range(0, k, K):
        inner = start + tl.arange(0, K)
        left = tl.load(
            a + rows * k + inner[None, :], (rows < m) & (inner[None, :] < k), 0.0
        )
        right = tl.load(
            b + inner[:, None] * n + columns, (inner[:, None] < k) & (columns < n), 0.0
        )
        accumulator = tl.dot(left, right, accumulator, input_precision="ieee")
    tl.store(c + rows * n + columns, accumulator, (rows < m) & (columns < n))


@triton.jit
def last_block_sum(x, partial, semaphore, out, n, BLOCK: tl.constexpr):
    """Each program leaves its sum; the last to arrive adds them and resets."""
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(partial + pid, tl.sum(tl.load(x + i, i < n, other=0.0), 0))
    arrived = tl.atomic_add(semaphore, 1)
    programs = tl.num_programs(0)
    if arrived == programs - 1:
        total = 0.0
        for other in range(0, programs):
            total += tl.load(partial + other)
        tl.store(out, total)
        tl.store(semaphore, 0)


@triton.jit
def histogram(x, counts, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.atomic_add(counts + tl.load(x + i, mask, other=0), 1, mask)


@triton.jit
def column_sums(x, sums, rows, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    i = tl.arange(0, ROWS)[:, None]
    j = tl.arange(0, COLUMNS)[None, :]
    mask = i < rows  # of one column
    values = tl.load(x + i * COLUMNS + j, mask, other=0.0)
    tl.atomic_add(sums + tl.broadcast_to(j, [ROWS, COLUMNS]), values, mask)


@triton.jit
def integers(x, y, quotient, remainder, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    left = tl.load(x + i, mask, other=0)
    right = tl.load(y + i, mask, other=1)
    tl.store(quotient + i, left // right, mask)
    tl.store(remainder + i, left % right, mask)


@triton.jit
def _multiply_add(left_scale, left_offset, right_scale, right_offset):
    return left_scale * right_scale, left_offset * right_scale + right_offset


@triton.jit
def recurrence(scales, offsets, y, N: tl.constexpr):
    """h[i] = scales[i] * h[i - 1] + offsets[i], by a scan whose operator has an order."""
    i = tl.arange(0, N)
    pair = (tl.load(scales + i), tl.load(offsets + i))
    _, result = tl.associative_scan(pair, 0, _multiply_add)
    tl.store(y + i, result)


@triton.jit
def compose_all(scales, offsets, y, N: tl.constexpr):
    i = tl.arange(0, N)
    pair = (tl.load(scales + i), tl.load(offsets + i))
    scale, offset = tl.reduce(pair, 0, _multiply_add)
    tl.store(y, scale)
    tl.store(y + 1, offset)


@triton.jit
def methods(x, y, N: tl.constexpr):
    value = tl.load(x + tl.arange(0, N))
    tl.store(y, value.sum(0) + value.max(0))
