"""Short spellings of nests for tests of the Triton renderer, and sample nests."""

from collections.abc import Sequence

from wrapperir.ir import DType, Expr, Symbol
from wrapperir.lowering.loops import (
    Apply,
    Axis,
    InnerLoop,
    Instruction,
    Literal,
    Load,
    Nest,
    Reduce,
    Scan,
    Step,
    Store,
)
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp

I0, I1, I2 = Symbol("i0"), Symbol("i1"), Symbol("i2")
R0, R1, R2 = Symbol("r0"), Symbol("r1"), Symbol("r2")
F32 = DType.F32


def load(result: str, buffer: str, *index: Expr, dtype: DType = F32) -> Load:
    return Load(result=result, dtype=dtype, buffer=buffer, index=index)


def apply(result: str, op: ScalarOp, *operands: str, dtype: DType = F32) -> Apply:
    return Apply(result=result, dtype=dtype, op=op, operands=operands)


def store(buffer: str, value: str, *index: Expr) -> Store:
    return Store(buffer=buffer, index=index, value=value)


def constant(result: str, value: float, dtype: DType = F32) -> Literal:
    return Literal(result=result, dtype=dtype, value=value)


def reduce(results: str, op: ReduceOp, *operands: str, dtype: DType = F32) -> Reduce:
    return Reduce(results=tuple(results.split()), dtype=dtype, op=op, operands=operands)


def scan(results: str, op: ReduceOp, *operands: str, dtype: DType = F32) -> Scan:
    return Scan(results=tuple(results.split()), dtype=dtype, op=op, operands=operands)


def axes(letter: str, extents: Sequence[Expr]) -> tuple[Axis, ...]:
    return tuple(Axis(f"{letter}{n}", extent) for n, extent in enumerate(extents))


def inner(name: str, extent: Expr, *body: Instruction) -> InnerLoop:
    return InnerLoop(axes=(Axis(name, extent),), body=body)


def nest(name: str, extents: Sequence[Expr], *body: Step) -> Nest:
    return Nest(name=name, axes=axes("i", extents), body=body)


def softmax(rows: Expr, columns: Expr) -> Nest:
    """Return ``out0 = softmax(in0, 1)``."""
    return nest(
        "softmax",
        (rows,),
        inner("r0", columns, load("v0", "in0", I0, R0), reduce("v1", ReduceOp.MAX, "v0")),
        inner(
            "r1",
            columns,
            load("v2", "in0", I0, R1),
            apply("v3", ScalarOp.SUB, "v2", "v1"),
            apply("v4", ScalarOp.EXP, "v3"),
            reduce("v5", ReduceOp.SUM, "v4"),
        ),
        inner(
            "r2",
            columns,
            load("v6", "in0", I0, R2),
            apply("v7", ScalarOp.SUB, "v6", "v1"),
            apply("v8", ScalarOp.EXP, "v7"),
            apply("v9", ScalarOp.DIV, "v8", "v5"),
            store("out0", "v9", I0, R2),
        ),
    )


def row_quotients(rows: Expr, columns: Expr) -> Nest:
    """Return the quotients of rows by a divisor each."""
    return nest(
        "scaled",
        (rows,),
        load("v0", "in1", I0),
        inner(
            "r0",
            columns,
            load("v1", "in0", I0, R0),
            apply("v2", ScalarOp.DIV, "v1", "v0"),
            store("out0", "v2", I0, R0),
        ),
    )


def biased(rows: Expr, columns: Expr) -> Nest:
    """Return ``out0 = exp(in0 + in1)``; ``in1`` has a number for each column."""
    return nest(
        "biased",
        (rows, columns),
        load("v0", "in0", I0, I1),
        load("v1", "in1", I1),
        apply("v2", ScalarOp.ADD, "v0", "v1"),
        apply("v3", ScalarOp.EXP, "v2"),
        store("out0", "v3", I0, I1),
    )


def transposed(rows: Expr, columns: Expr) -> Nest:
    """Return ``out0 = in0.T``."""
    return nest(
        "transposed",
        (rows, columns),
        load("v0", "in0", I1, I0),
        store("out0", "v0", I0, I1),
    )


def moments(rows: Expr, columns: Expr) -> Nest:
    """Return the mean and the sum of squared differences of each row."""
    return nest(
        "moments",
        (rows,),
        inner(
            "r0",
            columns,
            load("v0", "in0", I0, R0),
            reduce("v1 v2 v3", ReduceOp.WELFORD, "v0"),
        ),
        store("out0", "v1", I0),
        store("out1", "v2", I0),
    )
