"""Scans of a tile along its last dimension, at once or with a carry from block to block."""

from collections.abc import Mapping, Sequence

from wrapperir.ir import DType
from wrapperir.lowering.loops import Scan
from wrapperir.lowering.scalar_op import ReduceOp
from wrapperir.lowering.triton.dtypes import HALF, TYPES, limits
from wrapperir.lowering.triton.tile import Dimension
from wrapperir.lowering.triton.writer import LOOP, Value, Writer

_FUNCTIONS: Mapping[ReduceOp, str] = {
    ReduceOp.SUM: "added",
    ReduceOp.PROD: "multiplied",
    ReduceOp.MIN: "minimum",
    ReduceOp.MAX: "maximum",
    ReduceOp.ARGMIN: "last_minimum",
    ReduceOp.ARGMAX: "last_maximum",
}
SCANNED = frozenset(_FUNCTIONS)
"""The operators that there are scans of."""


def write_scan(
    step: Scan, writer: Writer, dim: Dimension, operands: Sequence[Value]
) -> Mapping[str, Value]:
    """Write a scan; return its results by name."""
    full = frozenset({*writer.tile.parallel, dim})
    level = writer.level_of(dim)
    function = writer.call(_FUNCTIONS[step.op])
    value = operands[0]
    computed = DType.F32 if value.dtype in HALF else value.dtype
    if computed is DType.BOOL:
        computed = DType.I32
    if computed is not value.dtype:
        text = f"{value.text}.to({TYPES[computed]})"
        value = writer.define(Value(text, computed, value.dims, value.level))
    scanned = [writer.broadcast(value, full)]
    if step.op in (ReduceOp.ARGMIN, ReduceOp.ARGMAX):
        place = Value(dim.index, writer.index_dtype, frozenset({dim}), level)
        scanned.append(writer.broadcast(place, full))
    names = [writer.names.fresh("t") for _ in scanned]
    given = ", ".join(value.text for value in scanned)
    given = f"({given})" if len(scanned) > 1 else given
    writer.add(
        f"{', '.join(names)} = tl.associative_scan({given}, {dim.place}, {function})"
    )
    if level == LOOP:
        _carry(step, writer, dim, function, names, [value.dtype for value in scanned])
    results: dict[str, Value] = {}
    wanted = (step.dtype, DType.I64)
    for name, text, source, dtype in zip(
        step.results, names, (value.dtype for value in scanned), wanted, strict=False
    ):
        if dtype is DType.BOOL:
            text = f"({text} != 0)"
        elif source is not dtype:
            text = f"{text}.to({TYPES[dtype]})"
        results[name] = writer.define(Value(text, dtype, full, level), name)
    return results


def _carry(
    step: Scan,
    writer: Writer,
    dim: Dimension,
    function: str,
    names: Sequence[str],
    dtypes: Sequence[DType],
) -> None:
    """Combine a block's scan with the last element of the block before."""
    starts = [_identity(step.op, dtypes[0]), 0]
    carries = [writer.names.fresh("carry") for _ in names]
    shape = writer.shape(writer.tile.parallel)
    for carry, start, dtype in zip(carries, starts, dtypes, strict=False):
        text = writer.constant(start, dtype).text
        writer.add_before(f"{carry} = tl.full({shape}, {text}, {TYPES[dtype]})")
    before, after = ", ".join(carries), ", ".join(names)
    writer.add(f"{after} = {function}({before}, {after})")
    lanes = writer.column(f"tl.arange(0, {dim.block})", dim.place)
    for carry, name in zip(carries, names, strict=True):
        last = f"tl.where({lanes} == {dim.block} - 1, {name}, 0)"
        total = f"tl.sum({last}, {dim.place}).to({name}.dtype)"
        writer.add(f"{carry} = {writer.expanded(total)}")


def _identity(op: ReduceOp, dtype: DType) -> float:
    low, high = limits(dtype)
    match op:
        case ReduceOp.SUM:
            return 0
        case ReduceOp.PROD:
            return 1
        case ReduceOp.MIN | ReduceOp.ARGMIN:
            return high
        case _:
            return low
