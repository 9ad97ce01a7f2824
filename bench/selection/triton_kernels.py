"""Triton kernels to choose from: persistent and looped reductions, and a matrix product.

A persistent kernel holds whole rows (``RBLOCK`` is at least ``n``); a looped one goes
over them in blocks, as Inductor's do.  All matrices are dense, row by row.
"""
# ruff: noqa: N803 - block sizes are capitals in Triton
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["m", "n"])
def softmax_persistent(x, y, m, n, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):
    rows = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    columns = tl.arange(0, RBLOCK)[None, :]
    mask = (rows < m) & (columns < n)
    value = tl.load(x + rows * n + columns, mask, other=-float("inf"))
    value = tl.where(rows < m, value, 0.0)
    power = tl.exp(value - tl.max(value, 1)[:, None])
    tl.store(y + rows * n + columns, power / tl.sum(power, 1)[:, None], mask)


@triton.jit(do_not_specialize=["m", "n"])
def softmax_looped(x, y, m, n, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):
    rows = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    base = tl.arange(0, RBLOCK)[None, :]
    top = tl.full([XBLOCK, RBLOCK], -1e30, tl.float32)
    total = tl.zeros([XBLOCK, RBLOCK], tl.float32)
    for start in range(0, n, RBLOCK):
        columns = start + base
        mask = (rows < m) & (columns < n)
        value = tl.load(x + rows * n + columns, mask, other=-1e30)
        higher = tl.maximum(top, value)
        total = total * tl.exp(top - higher) + tl.where(mask, tl.exp(value - higher), 0.0)
        top = higher
    most = tl.max(top, 1)[:, None]
    whole = tl.sum(total * tl.exp(top - most), 1)[:, None]
    for start in range(0, n, RBLOCK):
        columns = start + base
        mask = (rows < m) & (columns < n)
        value = tl.load(x + rows * n + columns, mask, other=0.0)
        tl.store(y + rows * n + columns, tl.exp(value - most) / whole, mask)


@triton.jit(do_not_specialize=["m", "n"])
def layer_norm_persistent(x, y, m, n, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):
    rows = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    columns = tl.arange(0, RBLOCK)[None, :]
    mask = (rows < m) & (columns < n)
    value = tl.load(x + rows * n + columns, mask, other=0.0)
    mean = tl.sum(value, 1)[:, None] / n
    centred = tl.where(mask, value - mean, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, 1)[:, None] / n + 1e-5)
    tl.store(y + rows * n + columns, centred * scale, mask)


@triton.jit(do_not_specialize=["m", "n"])
def layer_norm_looped(x, y, m, n, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):
    rows = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    base = tl.arange(0, RBLOCK)[None, :]
    mean = tl.zeros([XBLOCK, RBLOCK], tl.float32)
    squares = tl.zeros([XBLOCK, RBLOCK], tl.float32)
    count = tl.zeros([XBLOCK, RBLOCK], tl.float32)
    for start in range(0, n, RBLOCK):
        columns = start + base
        mask = (rows < m) & (columns < n)
        value = tl.load(x + rows * n + columns, mask, other=0.0)
        more = count + tl.where(mask, 1.0, 0.0)
        change = value - mean
        moved = mean + change / tl.maximum(more, 1.0)
        squares += tl.where(mask, change * (value - moved), 0.0)
        mean = tl.where(mask, moved, mean)
        count = more
    average = tl.sum(mean * count, 1)[:, None] / n
    away = mean - average
    variance = (tl.sum(squares, 1) + tl.sum(count * away * away, 1))[:, None] / n
    scale = 1.0 / tl.sqrt(variance + 1e-5)
    for start in range(0, n, RBLOCK):
        columns = start + base
        mask = (rows < m) & (columns < n)
        value = tl.load(x + rows * n + columns, mask, other=0.0)
        tl.store(y + rows * n + columns, (value - average) * scale, mask)


@triton.jit(do_not_specialize=["m", "n"])
def sum_persistent(x, y, m, n, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):
    rows = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    columns = tl.arange(0, RBLOCK)[None, :]
    mask = (rows < m)[:, None] & (columns < n)
    value = tl.load(x + rows[:, None] * n + columns, mask, other=0.0)
    tl.store(y + rows, tl.sum(value, 1), rows < m)


@triton.jit(do_not_specialize=["m", "n"])
def sum_looped(x, y, m, n, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):
    rows = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    base = tl.arange(0, RBLOCK)[None, :]
    total = tl.zeros([XBLOCK, RBLOCK], tl.float32)
    for start in range(0, n, RBLOCK):
        columns = start + base
        mask = (rows < m)[:, None] & (columns < n)
        total += tl.load(x + rows[:, None] * n + columns, mask, other=0.0)
    tl.store(y + rows, tl.sum(total, 1), rows < m)


@triton.jit(do_not_specialize=["m", "n", "k"])
def matmul(
    a,
    b,
    c,
    m,
    n,
    k,
    a_stride,
    b_stride,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
):
    program = tl.program_id(0)
    down = tl.cdiv(m, BM)
    across = tl.cdiv(n, BN)
    group = program // (GROUP * across)
    height = tl.minimum(down - group * GROUP, GROUP)
    row = group * GROUP + (program % (GROUP * across)) % height
    column = (program % (GROUP * across)) // height
    rows = row * BM + tl.arange(0, BM)
    columns = column * BN + tl.arange(0, BN)
    steps = tl.arange(0, BK)
    left = a + (rows % m)[:, None] * a_stride + steps[None, :]
    right = b + steps[:, None] * b_stride + (columns % n)[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(0, tl.cdiv(k, BK)):
        rest = k - step * BK
        first = tl.load(left, mask=steps[None, :] < rest, other=0.0)
        second = tl.load(right, mask=steps[:, None] < rest, other=0.0)
        total = tl.dot(first, second, total)
        left += BK
        right += BK * b_stride
    mask = (rows < m)[:, None] & (columns < n)[None, :]
    tl.store(
        c + rows[:, None] * b_stride + columns[None, :], total.to(c.dtype.element_ty), mask
    )
