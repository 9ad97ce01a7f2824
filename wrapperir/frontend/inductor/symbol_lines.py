"""Lowering of symbols: sizes read from tensors, items, precomputed sizes, checks."""

from typing import Any

import sympy
from torch._inductor.codegen.wrapper import (
    DynamicScalarLine,
    SymbolicCallArgLine,
    UnbackedSymbolDefsLine,
)
from torch.fx.experimental.symbolic_shapes import (
    CallMethodKey,
    ConvertIntKey,
    DivideByKey,
)
from torch.utils import _pytree as pytree
from torch.utils._sympy.symbol import SymT, symbol_is_type

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend.inductor.layouts import lower_shape
from wrapperir.frontend.inductor.operands import lower_operand
from wrapperir.frontend.inductor.records import (
    AlignmentLine,
    NotNanLine,
    SizeStrideLine,
    SymbolLine,
)
from wrapperir.frontend.inductor.scope import Scope, symbol_range
from wrapperir.ir import (
    ExprOp,
    Symbol,
    SymbolKind,
    SymbolSource,
    TupleType,
    ValueType,
    compare,
    floordiv,
    mod,
)
from wrapperir.ir import line as wir
from wrapperir.symbolic import lower_sympy

_FLOAT_SYMBOLS = (SymT.FLOAT, SymT.UNBACKED_FLOAT)


def define_symbol(
    scope: Scope, symbol: sympy.Symbol, source: SymbolSource
) -> wir.SymbolDefinitionLine:
    """Return the line that defines a symbol, with what is known of its range."""
    scope.symbols.add(symbol.name)
    if symbol_is_type(symbol, _FLOAT_SYMBOLS):
        return wir.SymbolDefinitionLine(
            symbol=symbol.name, kind=SymbolKind.FLOAT, source=source
        )
    lower, upper = symbol_range(scope.graph, symbol)
    return wir.SymbolDefinitionLine(
        symbol=symbol.name, lower=lower, upper=upper, source=source
    )


def lower_dynamic_scalar(scope: Scope, line: DynamicScalarLine) -> None:
    """Lower ``.item()``; an item that a size divides is checked to be a multiple."""
    node = line.node
    temporaries: list[str] = []
    operand = lower_operand(scope, node.inputs[0], temporaries, None)
    assert isinstance(operand, wir.BufferRef)
    item = wir.ItemOf(operand.name)
    keys = tuple(node.keypath)
    if keys and isinstance(keys[0], DivideByKey):
        whole = f"{node.sym.name}_undivided"
        divisor = int(keys[0].divisor)
        scope.append(wir.SymbolDefinitionLine(symbol=whole, source=item))
        scope.append(
            wir.AssertScalarLine(
                condition=compare(ExprOp.EQ, mod(Symbol(whole), divisor), 0),
                message=f"{whole} is not divisible by {divisor}",
            )
        )
        scope.append(define_symbol(scope, node.sym, floordiv(Symbol(whole), divisor)))
    elif not keys or isinstance(keys[0], ConvertIntKey):
        scope.append(define_symbol(scope, node.sym, item))
    else:
        raise _bad_path(node.sym, keys)
    scope.free_all(temporaries)


def lower_symbolic_argument(scope: Scope, line: SymbolicCallArgLine) -> None:
    """Lower a size that is computed once and passed to kernels.

    A launch extent is put in where it is used: each launch has its own.  A precomputed
    size is a symbol of the program; a nested block, whose numbering is its own, has the
    expression put in.
    """
    symbol = line.arg.inner
    expr = scope.resolve(lower_sympy(line.arg.inner_expr))
    if scope.nested or not symbol_is_type(symbol, SymT.PRECOMPUTED_SIZE):
        scope.precomputed[symbol.name] = expr
    elif symbol.name not in scope.symbols:
        scope.symbols.add(symbol.name)
        scope.append(wir.SymbolDefinitionLine(symbol=symbol.name, source=expr))


def lower_symbol(scope: Scope, line: SymbolLine) -> None:
    """Lower a symbol that an expression defines."""
    scope.append(define_symbol(scope, line.symbol, scope.resolve(line.expr)))


def lower_unbacked_definitions(scope: Scope, line: UnbackedSymbolDefsLine) -> None:
    """Lower symbols that are read from an operator's results."""
    temporaries: list[str] = []
    for symbol, path in (line.unbacked_bindings or {}).items():
        if symbol.name not in scope.symbols:
            _lower_path(scope, symbol, line.output_name, tuple(path), temporaries)
    # Only after the last: nothing but definitions may stand between an operator and the
    # symbols of its results' types.
    scope.free_all(temporaries)


def _lower_path(
    scope: Scope,
    symbol: sympy.Symbol,
    name: str,
    path: tuple[Any, ...],
    temporaries: list[str],
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
    if indices and isinstance(scope.types[name], TupleType):
        element = scope.session.temporary("element")
        type = element_type(scope.types[name], indices)
        scope.append(
            wir.MultiOutputLine(
                result=element, source=name, indices=tuple(indices), type=type
            )
        )
        scope.define(element, type)
        temporaries.append(element)
        name = element
    source, rest = _read(name, path, symbol)
    if rest and isinstance(rest[0], DivideByKey):
        whole = f"{symbol.name}_undivided"
        scope.append(wir.SymbolDefinitionLine(symbol=whole, source=source))
        source, rest = floordiv(Symbol(whole), int(rest[0].divisor)), rest[1:]
    if rest and not isinstance(rest[0], ConvertIntKey):
        raise _bad_path(symbol, path)
    scope.append(define_symbol(scope, symbol, source))


def element_type(type: ValueType, indices: list[int] | tuple[int, ...]) -> ValueType:
    """Return the type of an element of a nested tuple."""
    for index in indices:
        assert isinstance(type, TupleType)
        type = type.elements[index]
    return type


def _read(
    name: str, path: tuple[Any, ...], symbol: sympy.Symbol
) -> tuple[SymbolSource, tuple[Any, ...]]:
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


def lower_size_stride(scope: Scope, line: SizeStrideLine) -> None:
    """Lower a check of a tensor's size and stride."""
    scope.append(
        wir.AssertSizeStrideLine(
            buffer=scope.name(line.name),
            size=lower_shape(line.size),
            stride=lower_shape(line.stride),
            message=line.op_name,
        )
    )


def lower_alignment(scope: Scope, line: AlignmentLine) -> None:
    """Lower a check of a tensor's alignment."""
    scope.append(
        wir.AssertAlignmentLine(
            buffer=scope.name(line.name),
            bytes=line.bytes,
            message=line.op_name,
        )
    )


def lower_not_nan(scope: Scope, line: NotNanLine) -> None:
    """Lower a check for NaN and infinity."""
    scope.append(wir.AssertNotNanLine(buffer=scope.name(line.name)))
