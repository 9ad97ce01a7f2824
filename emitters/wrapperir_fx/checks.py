"""Inputs, symbols and asserts as nodes: numbers that a call takes, and checks."""

from collections.abc import Callable, Mapping

import torch
from attrs import evolve
from torch.fx import Node
from torch.fx.node import Argument

from wrapperir import ir as wir
from wrapperir.emit.assert_messages import (
    alignment_message,
    layout_subject,
    not_nan_message,
    scalar_message,
)
from wrapperir.emit.number_kinds import kind_of, kind_of_type
from wrapperir.emit.torch_dtypes import torch_dtype
from wrapperir.fx import assert_alignment, functions
from wrapperir_fx.context import GraphContext
from wrapperir_fx.nodes import GraphNumber
from wrapperir_fx.number_nodes import CONVERSIONS
from wrapperir_fx.streams import wait_for_all

_aten = torch.ops.aten


def emit_symbol(graph: GraphContext, line: wir.SymbolDefinitionLine) -> None:
    """Append nodes that read a symbol's value, convert it to its kind and check its range.

    The last of these nodes has the symbol's name.
    """
    val = graph.fakes.number(wir.Symbol(line.symbol))
    checked = line.lower is not None or line.upper is not None
    value = _source(graph, line, None if checked else line.symbol, val)
    if checked:
        args = (value, line.lower, line.upper, line.symbol)
        value = graph.nodes.call(functions.check_range, args, name=line.symbol, val=val)
    graph.numbers.symbols[line.symbol] = value


def _source(
    graph: GraphContext, line: wir.SymbolDefinitionLine, name: str | None, val: object
) -> GraphNumber:
    """Return a symbol's value as a number of its kind."""
    kind: wir.SymbolKind | None = wir.SymbolKind.INT
    target: Callable[..., object]
    args: tuple[Argument, ...]
    match line.source:
        case wir.SizeOf(buffer, dim):
            target, args = _aten.sym_size.int, (graph.values[buffer].node, dim)
        case wir.StrideOf(buffer, dim):
            target, args = _aten.sym_stride.int, (graph.values[buffer].node, dim)
        case wir.OffsetOf(buffer):
            # Known from the type, unless it defines one of its own symbols.
            offset = graph.values[buffer].tensor_type.offset
            if graph.numbers.symbols.keys() >= set(wir.symbols_in(offset)):
                return graph.numbers.of_kind(offset, line.kind)
            target = _aten.sym_storage_offset.default
            args = (graph.values[buffer].node,)
        case wir.ItemOf(buffer):
            wait_for_all(graph)
            kind = kind_of_type(graph.values[buffer].type)
            target, args = _aten.item.default, (graph.values[buffer].node,)
        case wir.ValueOf(scalar):
            value = graph.values[scalar]
            kind = kind_of_type(value.type)
            return _converted(graph, line, value.node, kind, name, val)
        case int() | float() | wir.Symbol() | wir.Operation() as expr:
            return graph.numbers.of_kind(expr, line.kind)
    if kind is line.kind:
        return graph.nodes.call(target, args, name=name, val=val)
    fake = None if kind is None else graph.fakes.unknown(kind)  # complex ones have none
    number = graph.nodes.call(target, args, val=fake)
    return _converted(graph, line, number, kind, name, val)


def _converted(
    graph: GraphContext,
    line: wir.SymbolDefinitionLine,
    number: Node,
    kind: wir.SymbolKind | None,
    name: str | None,
    val: object,
) -> Node:
    if kind is line.kind:
        number.meta["val"] = val  # an element of a tuple has another value
        return number
    return graph.nodes.call(CONVERSIONS[line.kind], (number,), name=name, val=val)


def convert_input(graph: GraphContext, name: str, type: wir.ScalarType) -> None:
    """Append the conversion of a number that the caller gives."""
    given = graph.values[name]
    functions_of: Mapping[wir.SymbolKind, Callable[..., object]] = {
        wir.SymbolKind.INT: functions.given_int,
        wir.SymbolKind.FLOAT: functions.real,
        wir.SymbolKind.BOOL: functions.given_bool,
    }
    target = functions_of[kind_of(type.dtype)]
    given.node = graph.nodes.call(target, (given.node,), val=given.node.meta.get("val"))


_NARROW_FLOATS = frozenset(dtype for dtype in wir.DType if dtype.value.startswith("f8"))


def emit_assert_size_stride(graph: GraphContext, line: wir.AssertSizeStrideLine) -> None:
    """Append a check of a layout."""
    layout = graph.numbers.indices(line.size), graph.numbers.indices(line.stride)
    args = (graph.values[line.buffer].node, *layout, layout_subject(line))
    graph.nodes.call(functions.assert_size_stride, args)


def emit_assert_alignment(graph: GraphContext, line: wir.AssertAlignmentLine) -> None:
    """Append a check of an address."""
    args = (graph.values[line.buffer].node, line.bytes, alignment_message(line))
    graph.nodes.call(assert_alignment, args)


def emit_assert_scalar(graph: GraphContext, line: wir.AssertScalarLine) -> None:
    """Append a check of a condition."""
    condition = graph.numbers.condition(line.condition)
    graph.nodes.call(_aten._assert_scalar.default, (condition, scalar_message(line)))


def emit_assert_not_nan(graph: GraphContext, line: wir.AssertNotNanLine) -> None:
    """Append a check of every element; the host reads its outcome."""
    wait_for_all(graph)
    value = graph.values[line.buffer]
    node, type = value.node, value.tensor_type
    names = {name for entry in (*type.size, *type.stride) for name in wir.symbols_in(entry)}
    samples = {name: graph.fakes.sample(name) for name in names}
    if type.dtype in _NARROW_FLOATS:  # isfinite takes no 8-bit floats
        type = _dense_type(torch.Tensor.float, type, samples)
        type = evolve(type, dtype=wir.DType.F32)
        args = (node, torch.float32)
        node = graph.nodes.call(_aten.to.dtype, args, val=graph.fakes.of(type))
    flags = evolve(_dense_type(torch.isfinite, type, samples), dtype=wir.DType.BOOL)
    node = graph.nodes.call(_aten.isfinite.default, (node,), val=graph.fakes.of(flags))
    flag = evolve(flags, size=(), stride=(), offset=0)
    node = graph.nodes.call(_aten.all.default, (node,), val=graph.fakes.of(flag))
    val = graph.fakes.unknown(wir.SymbolKind.BOOL)
    node = graph.nodes.call(_aten.item.default, (node,), val=val)
    graph.nodes.call(_aten._assert_scalar.default, (node, not_nan_message(line)))


def _dense_type(
    compute: Callable[[torch.Tensor], torch.Tensor],
    type: wir.TensorType,
    samples: Mapping[str, int],
) -> wir.TensorType:
    """Return ``type`` with the layout that ``compute`` gives a tensor of this type.

    ``samples`` has a number for each symbol.  The order of dimensions is that of such a
    run: PyTorch goes by which stride is larger.
    """
    try:
        size = [wir.evaluate_int(entry, samples) for entry in type.size]
        stride = [wir.evaluate_int(entry, samples) for entry in type.stride]
        with torch._C._DisableTorchDispatch():  # the caller may be under a mode
            sample = torch.empty_strided(
                size, stride, dtype=torch_dtype(type.dtype), device="meta"
            )
            found = compute(sample).stride()
    except (wir.EvaluationError, RuntimeError):  # no such tensor: the run will say so
        return evolve(type, stride=wir.contiguous_stride(type.size), offset=0)
    if all(isinstance(entry, int) for entry in type.size):
        return evolve(type, stride=tuple(found), offset=0)
    strides: list[wir.Expr] = [0] * len(found)
    step: wir.Expr = 1
    for dim in sorted(range(len(found)), key=lambda dim: (found[dim], -dim)):
        strides[dim] = step
        step = wir.mul(type.size[dim], step)
    return evolve(type, stride=tuple(strides), offset=0)
