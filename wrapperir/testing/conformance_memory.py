"""Conformance programs with nested blocks, with pools and with streams."""

from wrapperir import ir as wir
from wrapperir.ir.builder import BlockBuilder, NamedValue, Operand, ProgramBuilder
from wrapperir.testing.conformance_case import BOOL, CELL, MATRIX, Case, built
from wrapperir.testing.kernels import KernelKind, library_kernel

_BYTES = 128
"""Of a matrix."""


def _negated(block: BlockBuilder, x: NamedValue) -> NamedValue:
    return block.extern("aten.neg.default", x, type=MATRIX)


def _conditional(on_tensor: bool) -> wir.Program:
    b = ProgramBuilder()
    x = b.input(MATRIX)
    flag = b.input(BOOL)
    cell = b.input(CELL)
    weight = b.constant(wir.tensor("f32", (8, 8)), "weight")
    u0 = b.define_symbol("u0", wir.ItemOf(cell.name), lower=0, upper=3)
    predicate = flag if on_tensor else wir.compare(wir.ExprOp.GT, u0, 1)

    def on_true(block: BlockBuilder, p: NamedValue) -> NamedValue:
        product = block.extern("aten.mm.default", p, weight, type=MATRIX)
        result = block.extern("aten.add.Scalar", product, u0, type=MATRIX)
        block.free(product)
        return result

    (y,) = b.conditional(
        predicate,
        [x],
        on_true,
        _negated,
        results=[MATRIX],
    )
    return b.build(y)


_STACKS = tuple(
    wir.tensor(type.dtype, (wir.Symbol("u0"), *type.size)) for type in (CELL, MATRIX)
)


def _while_loop(begin: int, stacks: tuple[wir.TensorType, ...] = ()) -> wir.Program:
    b = ProgramBuilder()
    x = b.input(MATRIX)
    step = b.input(MATRIX)
    count = b.extern("aten.full.default", (), begin, dtype=wir.DType.I64, type=CELL)

    def condition(
        block: BlockBuilder, i: NamedValue, p: NamedValue, q: NamedValue
    ) -> NamedValue:
        return block.extern("aten.lt.Scalar", i, 3, type=BOOL)

    def body(
        block: BlockBuilder, i: NamedValue, p: NamedValue, q: NamedValue
    ) -> list[NamedValue]:
        following = block.extern("aten.add.Scalar", i, 1, type=CELL)
        return [following, block.extern("aten.add.Tensor", p, q, type=MATRIX)]

    loop = b.while_loop([count, x], condition, body, invariant=[step], stacks=stacks)
    if stacks:
        b.define_symbol("u0", wir.SizeOf(loop[2].name, 0), lower=1)
    b.free(count)
    return b.build(*loop, x)


def _while_on_symbol() -> wir.Program:
    b = ProgramBuilder()
    x = b.input(MATRIX)
    count = b.extern("aten.full.default", (), 0, dtype=wir.DType.I64, type=CELL)

    def condition(block: BlockBuilder, i: NamedValue, p: NamedValue) -> wir.Operation:
        block.define_symbol("u0", wir.ItemOf(i.name), lower=0)
        return wir.Operation(wir.ExprOp.LT, (wir.Symbol("u0"), 2))

    def body(block: BlockBuilder, i: NamedValue, p: NamedValue) -> list[NamedValue]:
        following = block.extern("aten.add.Scalar", i, 1, type=CELL)
        return [following, _negated(block, p)]

    i, y = b.while_loop([count, x], condition, body)
    b.free(count, i)
    return b.build(y)


def _subgraph_calls() -> wir.Program:
    b = ProgramBuilder()
    x = b.input(MATRIX, mutated=True)

    def body(block: BlockBuilder, p: NamedValue) -> NamedValue:
        block.extern_out("aten.add_.Scalar", p, 1, writes=(p,))
        (inner,) = block.subgraph_call(
            "inner",
            [p],
            _negated,
            results=[MATRIX],
        )
        return inner

    (y,) = b.subgraph_call("outer", [x], body, results=[MATRIX])
    return b.build(y)


def _graph_regions() -> wir.Program:
    """A region writes what it is given, and others keep one recording or several."""
    b = ProgramBuilder()
    rows = wir.Symbol("s0")
    matrix = wir.tensor("f32", (rows, 8))
    x = b.input(matrix, mutated=True)
    scale = b.input(wir.ScalarType(wir.DType.F64))
    weight = b.constant(wir.tensor("f32", (8, 8)), "weight")
    b.symbol("s0", wir.SizeOf(x.name, 0), lower=1, upper=9)
    factor = b.symbol("scale", wir.ValueOf(scale.name), kind=wir.SymbolKind.FLOAT)
    out = b.allocate(matrix)

    def writing(block: BlockBuilder, p: NamedValue, q: NamedValue) -> list[NamedValue]:
        block.extern_out("aten.mm.out", p, weight, out=q)
        made = block.extern("aten.mul.Scalar", q, factor, type=matrix)
        block.extern_out("aten.add_.Scalar", p, rows, writes=(p,))
        return [made]

    def choosing(block: BlockBuilder, p: NamedValue) -> NamedValue:
        def half(inner: BlockBuilder, q: NamedValue) -> NamedValue:
            return inner.extern("aten.div.Scalar", q, 2, type=matrix)

        def double(inner: BlockBuilder, q: NamedValue) -> NamedValue:
            return inner.extern("aten.mul.Scalar", q, 2, type=matrix)

        is_long = wir.compare(wir.ExprOp.GT, rows, 3)
        (made,) = block.conditional(is_long, [p], half, double, results=[matrix])
        return made

    (first,) = b.graph_region("writing", [x, out], writing, results=[matrix])
    (second,) = b.graph_region("once", [first], choosing, results=[matrix], recordings=1)
    (third,) = b.graph_region("choosing", [second], choosing, results=[matrix])
    b.free(first)
    return b.build(second, third, out)


def _region_streams(b: ProgramBuilder) -> wir.Program:
    """A region forks another stream, which only shares its number with the program's."""
    x = b.input(MATRIX, mutated=True)
    out = b.allocate(MATRIX)
    b.extern_out("aten.abs.out", x, out=out, stream=2)
    b.wait_event(b.record_event(stream=2), wir.CPU, stream=1)

    def forked(block: BlockBuilder, p: NamedValue, q: NamedValue) -> list[NamedValue]:
        block.extern_out("aten.neg_.default", q, writes=(q,), stream=1)
        block.wait_event(block.record_event(stream=1), stream=2)
        made = block.extern("aten.abs.default", p, type=MATRIX, stream=2)
        block.extern_out("aten.add_.Scalar", q, 1, writes=(q,), stream=1)
        block.wait_event(block.record_event(stream=2), stream=1)
        block.extern_out("aten.mul_.Scalar", p, 2, writes=(p,), stream=1)
        return [made]

    (made,) = b.graph_region("forked", [x, out], forked, results=[MATRIX], stream=1)
    b.wait_event(b.record_event(stream=1))
    total = b.extern("aten.add.Tensor", made, out, type=MATRIX)
    b.free(made)
    return b.build(total, out)


BLOCK_CASES: tuple[Case, ...] = (
    Case("conditional_on_tensor", _conditional(on_tensor=True), seeds=(0, 1, 2, 3)),
    Case("conditional_on_condition", _conditional(on_tensor=False), seeds=(0, 1, 2, 3)),
    Case("while_loop", _while_loop(0)),
    Case("while_loop_without_iterations", _while_loop(5)),
    Case("while_loop_stacked", _while_loop(0, _STACKS)),
    Case("while_loop_stacked_without_iterations", _while_loop(5, _STACKS)),
    Case("while_loop_on_condition", _while_on_symbol()),
    Case("subgraph_calls", _subgraph_calls()),
    Case("graph_regions", _graph_regions(), seeds=(0, 1, 2, 3)),
)


def _pool(b: ProgramBuilder) -> wir.Program:
    """Two buffers share bytes, one after the other; an output outlives the pool's name."""
    x = b.input(MATRIX)
    pool = b.allocate_pool(wir.PoolType(size=2 * _BYTES, alignment=256))
    first = b.place(pool, _BYTES, wir.tensor("f32", (4, 8), alignment=128))
    b.assert_alignment(first, 128)
    b.extern_out("aten.neg.out", x, out=first)
    view = b.reinterpret(first, wir.tensor("f32", (8,), (4,), offset=2))
    b.free(first)
    total = b.place(pool, 0, wir.tensor("f32", ()))
    b.extern_out("aten.sum.IntList_out", view, (0,), out=total)
    b.free(view)
    second = b.place(pool, 64, wir.tensor("f32", (4, 8), offset=8))
    b.free(pool)
    b.extern_out("aten.add.out", x, total, out=second)
    return b.build(second, total)


def _placed_views(b: ProgramBuilder) -> wir.Program:
    """Views of a placement are written, reused and returned as views of an allocation."""
    x = b.input(MATRIX)
    pool = b.allocate_pool(wir.PoolType(size=_BYTES + 64))
    base = b.place(pool, 64, MATRIX)
    for begin in (0, 3):
        size = (4, 3 if begin == 0 else 5)
        half = b.reinterpret(base, wir.tensor("f32", size, (8, 1), offset=begin))
        b.extern_out("aten.fill_.Scalar", half, begin + 1, writes=(half,)).free(half)
    b.extern_out("aten.add_.Tensor", base, x, writes=(base,))
    flat = b.reuse(base, wir.tensor("f32", (30,)))
    tail = b.reinterpret(flat, wir.tensor("f32", (6,), (5,), offset=4))
    none = b.place(pool, 64, wir.tensor("f32", (0, 9)))
    joined = b.extern("aten.cat.default", (tail, tail), type=wir.tensor("f32", (12,)))
    b.free(flat, pool)
    return b.build(tail, joined, none)


def _placed_zeros(b: ProgramBuilder) -> wir.Program:
    """A placed workspace begins with zeros whatever its bytes held before."""
    x = b.input(MATRIX)
    pool = b.allocate_pool(wir.PoolType(size=_BYTES))
    first = b.place(pool, 0, MATRIX)
    b.extern_out("aten.add.Scalar_out", x, 1, out=first).free(first)
    zeros = b.place(pool, 0, MATRIX, workspace=wir.ZeroMode.ZERO_ON_CALL)
    y = b.extern("aten.add.Tensor", x, zeros, type=MATRIX)
    b.free(zeros)
    dirty = b.place(pool, 0, MATRIX, workspace=wir.ZeroMode.UNINITIALIZED)
    b.extern_out("aten.neg.out", x, out=dirty)
    b.free(pool)
    return b.build(y, dirty)


def _symbolic_pool(b: ProgramBuilder) -> wir.Program:
    """Offsets and sizes follow the symbols, among them symbols that are read from data."""
    rows, u0 = wir.Symbol("s0"), wir.Symbol("u0")
    matrix = wir.tensor("f64", (rows, 3))
    x = b.input(matrix)
    cell = b.input(CELL)
    b.symbol("s0", wir.SizeOf(x.name, 0), lower=1, upper=9)
    b.define_symbol("u0", wir.ItemOf(cell.name), lower=0, upper=8)
    step = wir.mul(wir.ceildiv(wir.mul(rows, 24), 64), 64)
    pool = b.allocate_pool(wir.PoolType(size=step + wir.mul(u0, 8)))
    counted = b.place(pool, step, wir.tensor("f64", (u0,)))
    y = b.place(pool, 0, matrix)
    b.extern_out("aten.neg.out", x, out=y)
    b.extern_out("aten.fill_.Scalar", counted, 2, writes=(counted,))
    constant = b.allocate_pool(wir.PoolType(size=9 * 24))
    z = b.place(constant, 0, matrix)
    b.extern_out("aten.abs.out", x, out=z)
    b.free(pool, constant)
    return b.build(y, counted, z)


def _work(block: BlockBuilder, p: NamedValue, pool: NamedValue) -> NamedValue:
    inner = block.place(pool, 0, MATRIX)
    block.extern_out("aten.neg.out", p, out=inner)
    result = block.extern("aten.add.Tensor", p, inner, type=MATRIX)
    block.free(inner)
    return result


def _other_work(block: BlockBuilder, p: NamedValue, pool: NamedValue) -> NamedValue:
    own = block.allocate_pool(wir.PoolType(size=_BYTES))
    inner = block.place(pool, 64, wir.tensor("f32", (4,)))
    result = block.place(own, 0, MATRIX)
    block.extern_out("aten.sum.IntList_out", p, (1,), out=inner)
    column = block.reinterpret(inner, wir.tensor("f32", (4, 1)))
    block.free(inner).extern_out("aten.mul.out", p, column, out=result)
    block.free(own, column)
    return result


def _pools_in_blocks(b: ProgramBuilder) -> wir.Program:
    """Blocks place their buffers in a pool of the caller's, and in their own."""
    x, flag = b.input(MATRIX), b.input(BOOL)
    pool = b.allocate_pool(wir.PoolType(size=3 * _BYTES))
    kept = b.place(pool, 0, MATRIX)
    b.extern_out("aten.abs.out", x, out=kept)
    lent = b.place(pool, _BYTES, wir.PoolType(size=2 * _BYTES))
    types = [MATRIX]
    (y,) = b.conditional(flag, [kept, lent], _work, _other_work, results=types)
    (z,) = b.subgraph_call("again", [y, lent], _other_work, results=types)
    b.free(lent)
    after = b.place(pool, _BYTES, MATRIX)
    b.extern_out("aten.sub.out", z, kept, out=after)
    b.free(kept, pool, z)
    return b.build(y, after)


def _pool_in_loop(b: ProgramBuilder) -> wir.Program:
    """A loop's body places in one pool each time, and a result in a pool of its own."""
    x = b.input(MATRIX)
    pool = b.allocate_pool(wir.PoolType(size=_BYTES))
    count = b.extern("aten.full.default", (), 0, dtype=wir.DType.I64, type=CELL)

    def condition(
        block: BlockBuilder, i: NamedValue, p: NamedValue, lent: NamedValue
    ) -> Operand:
        symbol = block.define_symbol("u0", wir.ItemOf(i.name), lower=0)
        return wir.compare(wir.ExprOp.LT, symbol, 3)

    def body(
        block: BlockBuilder, i: NamedValue, p: NamedValue, lent: NamedValue
    ) -> list[NamedValue]:
        following = block.extern("aten.add.Scalar", i, 1, type=CELL)
        return [following, _other_work(block, p, lent)]

    i, y = b.while_loop([count, x], condition, body, invariant=[pool])
    b.free(count, i, pool)
    return b.build(y)


def _streams(b: ProgramBuilder) -> wir.Program:
    """Two streams share buffers, and the bytes of a pool, after they have met.

    One of the events is freed, which is neither needed nor forbidden.
    """
    x = b.input(MATRIX, mutated=True)
    pool = b.allocate_pool(wir.PoolType(size=2 * _BYTES))
    first = b.place(pool, 0, MATRIX)
    side = b.place(pool, _BYTES, MATRIX)
    b.extern_out("aten.neg.out", x, out=first, stream=1)
    b.extern_out("aten.abs.out", x, out=side)
    done = b.record_event(stream=1)
    b.wait_event(done)
    total = b.extern("aten.add.Tensor", first, side, type=MATRIX)
    b.free(first, side)
    later = b.record_event()
    b.wait_event(later, wir.CPU, stream=1).wait_event(done, stream=1).free(done)
    again = b.place(pool, 64, MATRIX)
    b.extern_out("aten.mul.Scalar_out", total, 2, out=again, stream=1)
    reused = b.reuse(total, wir.tensor("f32", (32,)))
    b.extern_out("aten.fill_.Scalar", reused, 3, writes=(reused,), stream=1)
    b.extern_out("aten.zero_.default", x, writes=(x,), stream=1)
    b.free(pool)
    return b.build(again, reused)


def _donated(b: ProgramBuilder) -> wir.Program:
    """Donated inputs are written, reused as buffers, freed and returned."""
    x, y = b.input(MATRIX, donated=True), b.input(MATRIX, donated=True)
    columns = wir.tensor("f32", (8, 4), (1, 8))
    z = b.input(columns, donated=True)
    b.extern_out("aten.add.out", x, y, out=x)
    flat = b.reuse(y, wir.tensor("f32", (32,)))
    b.extern_out("aten.fill_.Scalar", flat, 2, writes=(flat,))
    view = b.reinterpret(x, wir.tensor("f32", (32,)))
    b.free(x)
    total = b.extern("aten.mul.Tensor", view, flat, type=wir.tensor("f32", (32,)))
    b.free(view, flat)
    again = b.reuse(z, columns)
    b.extern_out("aten.neg_.default", again, writes=(again,))
    return b.build(total, again)


def _pools_and_kernels(language: wir.Language) -> wir.Program:
    rows = wir.Symbol("s0")
    matrix = wir.tensor("f32", (rows, 8))
    b = ProgramBuilder()
    x = b.input(matrix)
    b.symbol("s0", wir.SizeOf(x.name, 0), lower=1, upper=9)
    add = b.kernel(library_kernel(KernelKind.ADD, language))
    scratch = b.kernel(library_kernel(KernelKind.SCRATCH_ADD, language))
    nbytes = wir.mul(rows, 32)
    pool = b.allocate_pool(wir.PoolType(size=wir.mul(nbytes, 2)))
    total, again = b.place(pool, nbytes, matrix), b.place(pool, 0, matrix)
    b.call(add, x, x, total, rows * 8)
    b.call(add, total, x, again, rows * 8, stream=0)
    b.free(total)
    flat = wir.tensor("f32", (rows * 8,))
    workspace = b.place(pool, nbytes, flat, workspace=wir.ZeroMode.ZERO_ON_CALL)
    out = b.allocate(matrix)
    b.call(scratch, again, workspace, out, rows * 8)
    b.free(workspace, pool)
    return b.build(out, again)


MEMORY_CASES: tuple[Case, ...] = (
    *BLOCK_CASES,
    built(_pool),
    built(_placed_views),
    built(_placed_zeros),
    built(_symbolic_pool, 0, 1, 2, 3),
    built(_pools_in_blocks, 0, 1, 2, 3),
    built(_pool_in_loop),
    built(_streams),
    built(_region_streams),
    built(_donated),
    *(
        Case(f"pools_and_kernels_{language.value}", _pools_and_kernels(language))
        for language in (wir.Language.TRITON, wir.Language.CPP)
    ),
)
