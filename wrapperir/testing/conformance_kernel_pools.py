"""Conformance programs with pools and with streams that call kernels only."""

from wrapperir import ir as wir
from wrapperir.ir.builder import BlockBuilder, NamedValue, ProgramBuilder
from wrapperir.testing.cell_kernels import count_kernel
from wrapperir.testing.conformance_case import CELL, FLAT, MATRIX, Case, SmallKernels
from wrapperir.testing.kernels import KernelKind, library_kernel

_BYTES = 128
"""Of a matrix."""


def _pools(language: wir.Language) -> wir.Program:
    """Buffers share bytes, one after the other; outputs outlive the pool's name."""
    b = ProgramBuilder()
    kernels = SmallKernels(b, language)
    x = b.input(MATRIX)
    scratch = b.kernel(library_kernel(KernelKind.SCRATCH_ADD, language))
    pool = b.allocate_pool(wir.PoolType(size=5 * 128))
    first, second = b.place(pool, 128, MATRIX), b.place(pool, 0, MATRIX)
    kernels.negate(b, x, first)
    kernels.subtract(b, x, first, second)
    b.free(first)
    part = b.place(pool, 128, wir.PoolType(size=256))
    zeros = b.place(part, 128, FLAT, workspace=wir.ZeroMode.ZERO_ON_CALL)
    third = b.place(part, 0, MATRIX)
    b.call(scratch, second, zeros, third, 32)
    b.free(zeros, part)
    fourth = b.place(pool, 3 * 128, wir.tensor("f32", (4, 8), offset=8))
    b.free(pool)
    kernels.negate(b, third, fourth)
    b.free(third)
    return b.build(second, fourth)


def _views(language: wir.Language) -> wir.Program:
    """Views of a placement are written, reused and returned as views of an allocation."""
    b = ProgramBuilder()
    kernels = SmallKernels(b, language)
    x = b.input(MATRIX)
    pool = b.allocate_pool(wir.PoolType(size=_BYTES + 64))
    base = b.place(pool, 64, MATRIX)
    for source, begin in ((0, 16), (16, 0)):
        half = b.reinterpret(base, wir.tensor("f32", (2, 8), offset=begin))
        part = b.reinterpret(x, wir.tensor("f32", (2, 8), offset=source))
        kernels.negate(b, part, half, count=16)
        b.free(half, part)
    flat = b.reuse(base, wir.tensor("f32", (30,)))
    tail = b.reinterpret(flat, wir.tensor("f32", (6,), (5,), offset=4))
    none = b.place(pool, 64, wir.tensor("f32", (0, 9)))
    made = kernels.subtract(b, flat, x, count=30)
    b.free(flat, pool)
    part = b.reuse(made, wir.tensor("f32", (30,)))
    return b.build(tail, part, none)


def _symbolic(language: wir.Language) -> wir.Program:
    """Offsets and sizes follow the symbols, among them symbols that are read from data."""
    rows, u0 = wir.Symbol("s0"), wir.Symbol("u0")
    matrix = wir.tensor("f32", (rows, 3))
    b = ProgramBuilder()
    kernels = SmallKernels(b, language)
    x, cell = b.input(matrix), b.input(CELL)
    b.symbol("s0", wir.SizeOf(x.name, 0), lower=1, upper=9)
    b.define_symbol("u0", wir.ItemOf(cell.name), lower=0, upper=2)
    step = wir.mul(wir.ceildiv(wir.mul(rows, 12), 64), 64)
    pool = b.allocate_pool(wir.PoolType(size=step + wir.mul(u0, 4)))
    counted = b.place(pool, step, wir.tensor("f32", (u0,)))
    y = b.place(pool, 0, matrix)
    kernels.negate(b, x, y, count=rows * 3)
    kernels.negate(b, y, counted, count=u0)
    constant = b.allocate_pool(wir.PoolType(size=9 * 12))
    z = b.place(constant, 0, matrix)
    kernels.subtract(b, y, x, z, count=rows * 3)
    b.free(pool, constant)
    return b.build(y, counted, z)


class _BlockWork:
    """Work of blocks in a pool that they are given."""

    def __init__(self, builder: ProgramBuilder, language: wir.Language) -> None:
        self.kernels = SmallKernels(builder, language)

    def plain(self, block: BlockBuilder, p: NamedValue, pool: NamedValue) -> NamedValue:
        """Return memory of the block's own."""
        inner = block.place(pool, 0, MATRIX)
        self.kernels.negate(block, p, inner)
        result = self.kernels.subtract(block, p, inner)
        block.free(inner)
        return result

    def placed(self, block: BlockBuilder, p: NamedValue, pool: NamedValue) -> NamedValue:
        """Return memory in a pool of the block's own."""
        own = block.allocate_pool(wir.PoolType(size=2 * _BYTES))
        inner = block.place(pool, 64, FLAT)
        result = block.place(own, _BYTES, MATRIX)
        self.kernels.subtract(block, p, p, inner)
        self.kernels.subtract(block, inner, p, result)
        block.free(own, inner)
        return result


def _in_blocks(language: wir.Language) -> wir.Program:
    """Blocks place their buffers in a pool of the caller's, and in their own."""
    b = ProgramBuilder()
    work = _BlockWork(b, language)
    x, cell = b.input(MATRIX), b.input(CELL)
    u0 = b.define_symbol("u0", wir.ItemOf(cell.name), lower=0, upper=3)
    pool = b.allocate_pool(wir.PoolType(size=4 * _BYTES))
    kept = b.place(pool, 0, MATRIX)
    work.kernels.negate(b, x, kept)
    lent = b.place(pool, _BYTES, wir.PoolType(size=2 * _BYTES))
    test = wir.compare(wir.ExprOp.GT, u0, 1)
    ways = work.plain, work.placed
    (y,) = b.conditional(test, [kept, lent], *ways, results=[MATRIX])
    (z,) = b.conditional(test, [y, lent], *reversed(ways), results=[MATRIX])
    b.free(lent)
    after = b.place(pool, _BYTES, MATRIX)
    work.kernels.subtract(b, z, kept, after)
    b.free(kept, pool, z)
    return b.build(y, after)


def _in_loop(language: wir.Language) -> wir.Program:
    """A loop's body places in one pool each time, and a result in a pool of its own."""
    b = ProgramBuilder()
    work, count = _BlockWork(b, language), b.kernel(count_kernel(language))
    x, cell = b.input(MATRIX), b.input(CELL)
    pool = b.allocate_pool(wir.PoolType(size=2 * _BYTES))
    start = b.allocate(CELL)
    b.call(count, cell, start, 0)

    def condition(
        block: BlockBuilder, i: NamedValue, p: NamedValue, lent: NamedValue
    ) -> wir.Operation:
        symbol = block.define_symbol("u0", wir.ItemOf(i.name))
        return wir.Operation(wir.ExprOp.LT, (symbol, 3))

    def body(
        block: BlockBuilder, i: NamedValue, p: NamedValue, lent: NamedValue
    ) -> list[NamedValue]:
        following = block.allocate(CELL)
        block.call(count, i, following, 1)
        return [following, work.placed(block, p, lent)]

    i, y = b.while_loop([start, x], condition, body, invariant=[pool])
    b.free(start, i, pool)
    return b.build(y)


def _streams(language: wir.Language) -> wir.Program:
    """Two streams share buffers, one after the other."""
    b = ProgramBuilder()
    kernels = SmallKernels(b, language)
    x = b.input(MATRIX, mutated=True)
    first = kernels.negate(b, x, stream=1)
    second = kernels.negate(b, first, stream=1)
    b.wait_event(b.record_event(stream=1))
    third = kernels.subtract(b, x, second)
    b.wait_event(b.record_event(), stream=1)
    kernels.negate(b, third, x, stream=1)
    kernels.subtract(b, third, x, first, stream=1)
    return b.build(first, second, third)


def _pool_of_streams(language: wir.Language) -> wir.Program:
    """Two streams share the bytes of a pool, after they have met; an event is freed."""
    b = ProgramBuilder()
    kernels = SmallKernels(b, language)
    x = b.input(MATRIX, mutated=True)
    pool = b.allocate_pool(wir.PoolType(size=2 * _BYTES))
    first, side = b.place(pool, 0, MATRIX), b.place(pool, _BYTES, MATRIX)
    kernels.negate(b, x, first, stream=1)
    kernels.negate(b, x, side)
    done = b.record_event(stream=1)
    b.wait_event(done)
    total = kernels.subtract(b, first, x)
    b.free(first, side)
    later = b.record_event()
    b.wait_event(later, wir.CPU, stream=1).wait_event(done, stream=1).free(done)
    again = b.place(pool, 64, MATRIX)
    kernels.subtract(b, total, x, again, stream=1)
    reused = b.reuse(total, FLAT)
    kernels.negate(b, again, reused, stream=1)
    kernels.negate(b, reused, x, stream=1)
    b.free(pool)
    return b.build(again, reused)


def kernel_pool_cases(language: wir.Language) -> tuple[Case, ...]:
    """Return the programs with pools or streams whose kernels are in a language."""
    of, few = language.value, (0, 1)
    programs = {
        "pools": (_pools, few),
        "placed_views": (_views, few),
        "symbolic_pool": (_symbolic, (0, 1, 2, 3)),
        "pools_in_blocks": (_in_blocks, (0, 1, 2, 3)),
        "pool_in_loop": (_in_loop, (0, 1, 2)),
        "streams": (_streams, few),
        "pool_of_streams": (_pool_of_streams, few),
    }
    return tuple(
        Case(f"kernel_{name}_{of}", build(language), seeds)
        for name, (build, seeds) in programs.items()
    )
