"""Conformance programs with nested blocks that call kernels only."""

from wrapperir import ir as wir
from wrapperir.ir.builder import BlockBuilder, NamedValue, ProgramBuilder
from wrapperir.testing.cell_kernels import below_kernel, count_kernel
from wrapperir.testing.conformance_case import BOOL, CELL, MATRIX, Case, SmallKernels


def _conditional(
    language: wir.Language, *, on_tensor: bool, with_constant: bool = False
) -> wir.Program:
    """Run one of two blocks, which may use a constant of the program around them."""
    b = ProgramBuilder()
    kernels = SmallKernels(b, language)
    x, y, flag, cell = (b.input(type) for type in (MATRIX, MATRIX, BOOL, CELL))
    weight = b.constant(MATRIX, "weight") if with_constant else None
    u0 = b.define_symbol("u0", wir.ItemOf(cell.name), lower=0, upper=3)
    predicate = flag if on_tensor else wir.compare(wir.ExprOp.GT, u0, 1)

    def on_true(block: BlockBuilder, p: NamedValue, q: NamedValue) -> NamedValue:
        inner = kernels.subtract(block, p, q if weight is None else weight)
        made = kernels.subtract(block, inner, q)
        block.free(inner)
        return made

    def on_false(block: BlockBuilder, p: NamedValue, q: NamedValue) -> NamedValue:
        return kernels.subtract(block, q, p)

    (made,) = b.conditional(predicate, [x, y], on_true, on_false, results=[MATRIX])
    return b.build(made)


_STACKS = tuple(
    wir.tensor(type.dtype, (wir.Symbol("u1"), *type.size)) for type in (CELL, MATRIX)
)


def _loop(
    language: wir.Language,
    *,
    on_tensor: bool,
    begin: int = 2,
    stacks: tuple[wir.TensorType, ...] = (),
) -> wir.Program:
    """Count from ``begin`` more than an input's element, from -3 to 3, to 3."""
    b = ProgramBuilder()
    kernels = SmallKernels(b, language)
    count, below = b.kernel(count_kernel(language)), b.kernel(below_kernel(language))
    x, step, cell = b.input(MATRIX), b.input(MATRIX), b.input(CELL)
    start = b.allocate(CELL)
    b.call(count, cell, start, begin)

    def condition(
        block: BlockBuilder, i: NamedValue, p: NamedValue, q: NamedValue
    ) -> NamedValue | wir.Operation:
        if on_tensor:
            flag = block.allocate(BOOL)
            block.call(below, i, flag, 3)
            return flag
        symbol = block.define_symbol("u0", wir.ItemOf(i.name))
        return wir.Operation(wir.ExprOp.LT, (symbol, 3))

    def body(
        block: BlockBuilder, i: NamedValue, p: NamedValue, q: NamedValue
    ) -> list[NamedValue]:
        following = block.allocate(CELL)
        block.call(count, i, following, 1)
        return [following, kernels.subtract(block, p, q)]

    loop = b.while_loop([start, x], condition, body, invariant=[step], stacks=stacks)
    if stacks:
        b.define_symbol("u1", wir.SizeOf(loop[2].name, 0), lower=1)
    b.free(start)
    return b.build(*loop, x)


def _loop_results(language: wir.Language) -> wir.Program:
    """Change a result of a loop without iterations: it is a copy, and no other changes."""
    b = ProgramBuilder()
    kernels = SmallKernels(b, language)
    count = b.kernel(count_kernel(language))
    x, cell = b.input(MATRIX), b.input(CELL)
    start = b.allocate(CELL)
    b.call(count, cell, start, 9)

    def condition(
        block: BlockBuilder, i: NamedValue, p: NamedValue, q: NamedValue
    ) -> wir.Operation:
        symbol = block.define_symbol("u0", wir.ItemOf(i.name))
        return wir.Operation(wir.ExprOp.LT, (symbol, 3))

    def body(
        block: BlockBuilder, i: NamedValue, p: NamedValue, q: NamedValue
    ) -> list[NamedValue]:
        following = block.allocate(CELL)
        block.call(count, i, following, 1)
        return [following, kernels.negate(block, q), kernels.negate(block, p)]

    i, y, z = b.while_loop([start, x, x], condition, body)
    kernels.subtract(b, y, x, y)
    b.call(count, i, start, 1)
    return b.build(x, y, z, i, start)


def _subgraphs(language: wir.Language) -> wir.Program:
    b = ProgramBuilder()
    kernels = SmallKernels(b, language)
    x = b.input(MATRIX, mutated=True)

    def inner(block: BlockBuilder, p: NamedValue) -> NamedValue:
        return kernels.negate(block, p)

    def outer(block: BlockBuilder, p: NamedValue) -> NamedValue:
        kernels.negate(block, p, p)
        (made,) = block.subgraph_call("inner", [p], inner, results=[MATRIX])
        return made

    (y,) = b.subgraph_call("outer", [x], outer, results=[MATRIX])
    return b.build(y)


def _graph_region(language: wir.Language) -> wir.Program:
    """A region writes what it is given, and its result outlives the next run of it."""
    b = ProgramBuilder()
    kernels = SmallKernels(b, language)
    x = b.input(MATRIX, mutated=True)
    out = b.allocate(MATRIX)

    def body(block: BlockBuilder, p: NamedValue, q: NamedValue) -> NamedValue:
        kernels.negate(block, p, q)
        made = kernels.subtract(block, p, q)
        kernels.negate(block, made, p)
        return made

    (made,) = b.graph_region("region", [x, out], body, results=[MATRIX])
    return b.build(made, out)


def _region_streams(language: wir.Language) -> wir.Program:
    """A region on a stream of its own has another stream, which it joins again."""
    b = ProgramBuilder()
    kernels = SmallKernels(b, language)
    x = b.input(MATRIX, mutated=True)
    out = kernels.negate(b, x, stream=2)
    b.wait_event(b.record_event(stream=2), wir.CPU, stream=1)

    def forked(block: BlockBuilder, p: NamedValue, q: NamedValue) -> NamedValue:
        inner = kernels.negate(block, q, stream=1)
        block.wait_event(block.record_event(stream=1), stream=2)
        made = kernels.subtract(block, p, inner, stream=2)
        kernels.negate(block, inner, q, stream=1)
        block.wait_event(block.record_event(stream=2), stream=1)
        kernels.subtract(block, made, q, p, stream=1)
        block.free(inner)
        return made

    (made,) = b.graph_region("forked", [x, out], forked, results=[MATRIX], stream=1)
    b.wait_event(b.record_event(stream=1))
    total = kernels.subtract(b, made, out)
    b.free(made)
    return b.build(total, out)


def kernel_block_cases(language: wir.Language) -> tuple[Case, ...]:
    """Return the programs with blocks whose kernels are in a language."""
    programs = {
        "conditional_on_tensor": _conditional(language, on_tensor=True),
        "conditional": _conditional(language, on_tensor=False),
        "conditional_with_constant": _conditional(
            language, on_tensor=False, with_constant=True
        ),
        "loop_on_tensor": _loop(language, on_tensor=True),
        "loop": _loop(language, on_tensor=False),
        "loop_without_iterations": _loop(language, on_tensor=False, begin=9),
        "loop_results": _loop_results(language),
        "subgraphs": _subgraphs(language),
        "graph_region": _graph_region(language),
        "region_streams": _region_streams(language),
        "loop_stacked": _loop(language, on_tensor=False, stacks=_STACKS),
        "loop_stacked_without_iterations": _loop(
            language, on_tensor=True, begin=9, stacks=_STACKS
        ),
    }
    return tuple(
        Case(f"kernel_{name}_{language.value}", program)
        for name, program in programs.items()
    )
