"""Asserts as nodes."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false, reportPrivateUsage=false

from typing import TYPE_CHECKING

import torch
from attrs import evolve

from wrapperir.ir.expr import symbols_in
from wrapperir.ir.line import (
    AssertAlignmentLine,
    AssertNotNanLine,
    AssertScalarLine,
    AssertSizeStrideLine,
    SymbolKind,
)
from wrapperir.ir.types import DType
from wrapperir_fx import assert_operator as assert_operator  # registers the operator
from wrapperir_fx import functions
from wrapperir_fx.dense_layouts import dense_type

if TYPE_CHECKING:
    from wrapperir_fx.lines import FxLines

_aten = torch.ops.aten
_NARROW_FLOATS = frozenset(dtype for dtype in DType if dtype.value.startswith("f8"))


def emit_assert_size_stride(lines: "FxLines", line: AssertSizeStrideLine) -> None:
    """Append a check of a layout."""
    layout = lines.numbers.indices(line.size), lines.numbers.indices(line.stride)
    args = (lines.values[line.buffer].node, *layout, line.message)
    lines.nodes.call(functions.assert_size_stride, args)


def emit_assert_alignment(lines: "FxLines", line: AssertAlignmentLine) -> None:
    """Append a check of an address."""
    message = line.message or f"{line.buffer} is not aligned to {line.bytes} bytes"
    args = (lines.values[line.buffer].node, line.bytes, message)
    lines.nodes.call(torch.ops.wrapperir.assert_alignment.default, args)


def emit_assert_scalar(lines: "FxLines", line: AssertScalarLine) -> None:
    """Append a check of a condition."""
    condition = lines.numbers.condition(line.condition)
    message = line.message or "a condition of the program does not hold"
    lines.nodes.call(_aten._assert_scalar.default, (condition, message))


def emit_assert_not_nan(lines: "FxLines", line: AssertNotNanLine) -> None:
    """Append a check of every element; the host reads its outcome."""
    lines.streams.wait_for_all()
    value = lines.values[line.buffer]
    message = line.message or f"{line.buffer} has a NaN or an infinity"
    node, type = value.node, value.tensor_type
    names = {name for entry in (*type.size, *type.stride) for name in symbols_in(entry)}
    samples = {name: lines.fakes.sample(name) for name in names}
    if type.dtype in _NARROW_FLOATS:  # isfinite takes no 8-bit floats
        type = dense_type(torch.Tensor.float, type, samples)
        type = evolve(type, dtype=DType.F32)
        args = (node, torch.float32)
        node = lines.nodes.call(_aten.to.dtype, args, val=lines.fakes.of(type))
    flags = evolve(dense_type(torch.isfinite, type, samples), dtype=DType.BOOL)
    node = lines.nodes.call(_aten.isfinite.default, (node,), val=lines.fakes.of(flags))
    flag = evolve(flags, size=(), stride=(), offset=0)
    node = lines.nodes.call(_aten.all.default, (node,), val=lines.fakes.of(flag))
    val = lines.fakes.unknown(SymbolKind.BOOL)
    node = lines.nodes.call(_aten.item.default, (node,), val=val)
    lines.nodes.call(_aten._assert_scalar.default, (node, message))
