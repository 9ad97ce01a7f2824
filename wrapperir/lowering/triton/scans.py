"""Scans of a tile along its last dimension, at once or with a carry from block to block."""

from collections.abc import Mapping, Sequence

from wrapperir.ir import DType
from wrapperir.lowering.dtypes import identity
from wrapperir.lowering.loops import Scan
from wrapperir.lowering.scalar_op import ReduceOp
from wrapperir.lowering.triton.device_functions import in_parts
from wrapperir.lowering.triton.dtypes import TYPES, widened
from wrapperir.lowering.triton.tile import BlockDimension
from wrapperir.lowering.triton.writer import LOOP, BlockValue, Writer

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
    step: Scan,
    writer: Writer,
    dim: BlockDimension,
    operands: Sequence[BlockValue],
    place: BlockValue,
    *,
    is_in_parts: bool,
) -> Mapping[str, BlockValue]:
    """Write a scan; return its results by name.

    ``place`` is the index of the axis that is scanned along.  ``is_in_parts``: the
    dimension has other axes too, so that the scan begins again at each place 0.
    """
    full = frozenset({*writer.tile.parallel, dim})
    level = writer.level_of(dim)
    value = writer.converted(operands[0], widened(operands[0].dtype))
    scanned = [writer.broadcast(value, full)]
    if step.op in (ReduceOp.ARGMIN, ReduceOp.ARGMAX):
        scanned.append(writer.broadcast(place, full))
    start = identity(step.op, scanned[0].dtype)
    assert start is not None
    starts: list[float] = [start, 0]
    function = _FUNCTIONS[step.op]
    if is_in_parts:
        function = in_parts(function)
        at = writer.broadcast(place, full)
        flag = BlockValue(f"({at.text} == 0).to(tl.int32)", DType.I32, full, at.level)
        scanned.insert(0, writer.define(flag))
        starts.insert(0, 0)
    names = [writer.names.fresh("t") for _ in scanned]
    given = ", ".join(value.text for value in scanned)
    given = f"({given})" if len(scanned) > 1 else given
    scan = f"tl.associative_scan({given}, {dim.place}, {function})"
    writer.add(f"{', '.join(names)} = {scan}")
    if level == LOOP:
        dtypes = [value.dtype for value in scanned]
        _carry(writer, dim, function, names, starts, dtypes)
    results: dict[str, BlockValue] = {}
    made = list(zip(names, scanned, strict=True))[is_in_parts:]
    for name, (text, value), dtype in zip(
        step.results, made, (step.dtype, DType.I64), strict=False
    ):
        made_value = BlockValue(text, value.dtype, full, level)
        results[name] = writer.converted(made_value, dtype, name)
    return results


def _carry(
    writer: Writer,
    dim: BlockDimension,
    function: str,
    names: Sequence[str],
    starts: Sequence[float],
    dtypes: Sequence[DType],
) -> None:
    """Combine a block's scan with the last element of the block before."""
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
