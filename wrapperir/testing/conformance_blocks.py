"""Conformance programs with nested blocks."""

from wrapperir.ir import DType, ExprOp, ItemOf, Operation, Program, Symbol, compare, tensor
from wrapperir.ir.builder import BlockBuilder, ProgramBuilder, Value
from wrapperir.testing.conformance_case import Case

_MATRIX = tensor("f32", (4, 8))
_FLAT = tensor("f32", (32,))
_BOOL = tensor("bool", ())
_CELL = tensor("i64", ())


def _negated(block: BlockBuilder, x: Value) -> Value:
    return block.extern("aten.neg.default", x, type=_MATRIX)


def _conditional(on_tensor: bool) -> Program:
    b = ProgramBuilder()
    x = b.input(_MATRIX)
    flag = b.input(_BOOL)
    cell = b.input(_CELL)
    weight = b.constant(tensor("f32", (8, 8)), "weight")
    u0 = b.define_symbol("u0", ItemOf(cell.name), lower=0, upper=3)
    predicate = flag if on_tensor else compare(ExprOp.GT, u0, 1)

    def on_true(block: BlockBuilder, p: Value) -> Value:
        product = block.extern("aten.mm.default", p, weight, type=_MATRIX)
        result = block.extern("aten.add.Scalar", product, u0, type=_MATRIX)
        block.free(product)
        return result

    (y,) = b.conditional(
        predicate,
        [x],
        on_true,
        _negated,
        results=[_MATRIX],
    )
    return b.build(y)


def _while_loop(begin: int) -> Program:
    b = ProgramBuilder()
    x = b.input(_MATRIX)
    step = b.input(_MATRIX)
    count = b.extern("aten.full.default", (), begin, dtype=DType.I64, type=_CELL)

    def condition(block: BlockBuilder, i: Value, p: Value, q: Value) -> Value:
        return block.extern("aten.lt.Scalar", i, 3, type=_BOOL)

    def body(block: BlockBuilder, i: Value, p: Value, q: Value) -> list[Value]:
        following = block.extern("aten.add.Scalar", i, 1, type=_CELL)
        return [following, block.extern("aten.add.Tensor", p, q, type=_MATRIX)]

    i, y = b.while_loop([count, x], condition, body, invariant=[step])
    b.free(count)
    return b.build(i, y, x)


def _while_on_symbol() -> Program:
    b = ProgramBuilder()
    x = b.input(_MATRIX)
    count = b.extern("aten.full.default", (), 0, dtype=DType.I64, type=_CELL)

    def condition(block: BlockBuilder, i: Value, p: Value) -> Operation:
        block.define_symbol("u0", ItemOf(i.name), lower=0)
        return Operation(ExprOp.LT, (Symbol("u0"), 2))

    def body(block: BlockBuilder, i: Value, p: Value) -> list[Value]:
        following = block.extern("aten.add.Scalar", i, 1, type=_CELL)
        return [following, _negated(block, p)]

    i, y = b.while_loop([count, x], condition, body)
    b.free(count, i)
    return b.build(y)


def _subgraph_calls() -> Program:
    b = ProgramBuilder()
    x = b.input(_MATRIX, mutated=True)

    def body(block: BlockBuilder, p: Value) -> Value:
        block.extern_out("aten.add_.Scalar", p, 1, writes=(p,))
        (inner,) = block.subgraph_call(
            "inner",
            [p],
            _negated,
            results=[_MATRIX],
        )
        return inner

    (y,) = b.subgraph_call("outer", [x], body, results=[_MATRIX])
    return b.build(y)


BLOCK_CASES: tuple[Case, ...] = (
    Case("conditional_on_tensor", _conditional(on_tensor=True), seeds=(0, 1, 2, 3)),
    Case("conditional_on_condition", _conditional(on_tensor=False), seeds=(0, 1, 2, 3)),
    Case("while_loop", _while_loop(0)),
    Case("while_loop_without_iterations", _while_loop(5)),
    Case("while_loop_on_condition", _while_on_symbol()),
    Case("subgraph_calls", _subgraph_calls()),
)
