"""Lowering of symbols and checks: sizes read from tensors, items, precomputed sizes."""

from collections.abc import Sequence
from typing import Any

import sympy
from torch._inductor.codegen import wrapper as inductor
from torch._inductor.utils import GPU_ALIGN_BYTES
from torch.fx.experimental.symbolic_shapes import (
    CallMethodKey,
    ConvertIntKey,
    DivideByKey,
)
from torch.utils import _pytree as pytree
from torch.utils._sympy.symbol import SymT, symbol_is_type

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend.aten.arguments import result_subject
from wrapperir.frontend.inductor.scope import BlockScope
from wrapperir.frontend.inductor.values import lower_buffer, lower_shape
from wrapperir.symbolic import lower_sympy

_OPERATORS = "torch.ops."
_FLOAT_SYMBOLS = (SymT.FLOAT, SymT.UNBACKED_FLOAT)


def define_symbol(
    scope: BlockScope, symbol: sympy.Symbol, source: wir.SymbolSource
) -> wir.SymbolDefinitionLine:
    """Return the line that defines a symbol, with the known bounds of its value."""
    scope.symbols.add(symbol.name)
    if symbol_is_type(symbol, _FLOAT_SYMBOLS):
        return wir.SymbolDefinitionLine(
            symbol=symbol.name, kind=wir.SymbolKind.FLOAT, source=source
        )
    bounds = scope.graph.sizevars.shape_env.var_to_range.get(symbol)
    lower, upper = (None, None) if bounds is None else (bounds.lower, bounds.upper)
    return wir.SymbolDefinitionLine(
        symbol=symbol.name,
        lower=int(lower) if isinstance(lower, sympy.Integer) else None,
        upper=int(upper) if isinstance(upper, sympy.Integer) else None,
        source=source,
    )


def lower_dynamic_scalar(scope: BlockScope, line: inductor.DynamicScalarLine) -> None:
    """Lower ``.item()``; check that a divided item is a multiple of its divisor."""
    node = line.node
    item = wir.ItemOf(lower_buffer(scope, node.inputs[0]))
    match tuple(node.keypath):
        case (DivideByKey(divisor=divisor), *_):
            whole, count = f"{node.sym.name}_undivided", int(divisor)
            rest = wir.mod(wir.Symbol(whole), count)
            scope.append(wir.SymbolDefinitionLine(symbol=whole, source=item))
            scope.append(
                wir.AssertScalarLine(
                    condition=wir.compare(wir.ExprOp.EQ, rest, 0),
                    message=f"{whole} is not divisible by {count}",
                )
            )
            quotient = wir.floordiv(wir.Symbol(whole), count)
            scope.append(define_symbol(scope, node.sym, quotient))
        case () | (ConvertIntKey(), *_):
            scope.append(define_symbol(scope, node.sym, item))
        case keys:
            raise _bad_path(node.sym, keys)


def lower_symbolic_argument(scope: BlockScope, line: inductor.SymbolicCallArgLine) -> None:
    """Lower a size that is computed once and passed to kernels.

    A launch extent is substituted where it is used: each launch has its own.  A precomputed
    size is a symbol of the program.  Nested blocks number sizes anew, so there the
    expression is substituted.
    """
    symbol = line.arg.inner
    expr = scope.resolve(lower_sympy(line.arg.inner_expr))
    if scope.nested or not symbol_is_type(symbol, SymT.PRECOMPUTED_SIZE):
        scope.precomputed[symbol.name] = expr
    elif symbol.name not in scope.symbols:
        scope.symbols.add(symbol.name)
        scope.append(wir.SymbolDefinitionLine(symbol=symbol.name, source=expr))


def lower_symbol(scope: BlockScope, symbol: sympy.Symbol, expr: wir.Expr) -> None:
    """Lower a symbol that an expression defines."""
    scope.append(define_symbol(scope, symbol, scope.resolve(expr)))


def lower_unbacked_definitions(
    scope: BlockScope, line: inductor.UnbackedSymbolDefsLine
) -> None:
    """Lower symbols that are read from an operator's results."""
    for symbol, path in (line.unbacked_bindings or {}).items():
        if symbol.name not in scope.symbols:
            _lower_path(scope, symbol, line.output_name, tuple(path))


def _lower_path(
    scope: BlockScope, symbol: sympy.Symbol, name: str, path: tuple[Any, ...]
) -> None:
    """Append the lines that read a symbol from a value, along a path into it."""
    if name in scope.results:
        # A line with blocks defines its results by name.
        name, path = scope.results[name][path[0].idx], path[1:]
    else:
        name = scope.name(name)
    indices: list[int] = []
    while path and isinstance(path[0], pytree.SequenceKey):
        indices.append(path[0].idx)
        path = path[1:]
    if indices and isinstance(scope.types[name], wir.TupleType):
        element = scope.session.temporary("element")
        type = element_type(scope.types[name], indices)
        scope.append(
            wir.MultiOutputLine(
                result=element, source=name, indices=tuple(indices), type=type
            )
        )
        scope.define(element, type)
        scope.temporaries.append(element)
        name = element
    source, rest = _read(name, path, symbol)
    if rest and isinstance(rest[0], DivideByKey):
        whole = f"{symbol.name}_undivided"
        scope.append(wir.SymbolDefinitionLine(symbol=whole, source=source))
        source, rest = wir.floordiv(wir.Symbol(whole), int(rest[0].divisor)), rest[1:]
    if rest and not isinstance(rest[0], ConvertIntKey):
        raise _bad_path(symbol, path)
    scope.append(define_symbol(scope, symbol, source))


def element_type(type: wir.ValueType, indices: Sequence[int]) -> wir.ValueType:
    """Return the type of an element of a nested tuple."""
    for index in indices:
        assert isinstance(type, wir.TupleType)
        type = type.elements[index]
    return type


def _read(
    name: str, path: tuple[Any, ...], symbol: sympy.Symbol
) -> tuple[wir.SymbolSource, tuple[Any, ...]]:
    match path:
        case (CallMethodKey(name="size"), pytree.SequenceKey(idx=dim), *rest):
            return wir.SizeOf(name, dim), tuple(rest)
        case (CallMethodKey(name="stride"), pytree.SequenceKey(idx=dim), *rest):
            return wir.StrideOf(name, dim), tuple(rest)
        case (CallMethodKey(name="storage_offset"), *rest):
            return wir.OffsetOf(name), tuple(rest)
        case (CallMethodKey(name="item"), *rest):
            return wir.ItemOf(name), tuple(rest)
        case () | (DivideByKey(), *_) | (ConvertIntKey(), *_):
            return wir.ValueOf(name), path
        case _:
            raise _bad_path(symbol, path)


def _bad_path(symbol: sympy.Symbol, path: tuple[Any, ...]) -> DiagnosticError:
    return Code.INDUCTOR_LINE.error(
        f"symbol {symbol} is read along a path of an unknown kind: {path}"
    )


def lower_size_stride(
    scope: BlockScope, name: str, size: Sequence[Any], stride: Sequence[Any], message: str
) -> None:
    """Lower a check of a tensor's size and stride; objects have no check."""
    if scope.is_object(scope.name(name)):
        return
    if message.startswith(_OPERATORS):
        message = result_subject(message.removeprefix(_OPERATORS))
    scope.append(
        wir.AssertSizeStrideLine(
            buffer=scope.name(name),
            size=lower_shape(size),
            stride=lower_shape(stride),
            message=message,
        )
    )


def lower_alignment(scope: BlockScope, name: str, message: str) -> None:
    """Lower a check that a tensor is aligned as kernels for GPUs expect."""
    buffer = scope.name(name)
    if scope.is_object(buffer):
        return
    scope.append(
        wir.AssertAlignmentLine(buffer=buffer, bytes=GPU_ALIGN_BYTES, message=message)
    )


def lower_not_nan(scope: BlockScope, name: str) -> None:
    """Lower a check that a tensor holds no NaN and no infinity."""
    scope.append(wir.AssertNotNanLine(buffer=scope.name(name)))
