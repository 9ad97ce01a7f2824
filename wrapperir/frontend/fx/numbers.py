"""Numbers of a graph as expressions, symbols, and nodes that compute or read numbers."""

# torch and Python's own functions say little of their types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import builtins
import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from wrapperir.diagnostics import Code
from wrapperir.frontend.aten.arguments import lower_argument, tensor_argument
from wrapperir.frontend.aten.scope import GraphScope, take
from wrapperir.frontend.aten.values import expr_of, is_symbolic
from wrapperir.frontend.fx.state import shared_of
from wrapperir.fx import functions
from wrapperir.ir import (
    RESERVED_SYMBOLS,
    EvaluationError,
    Expr,
    ExprOp,
    ItemOf,
    Operation,
    Symbol,
    SymbolDefinitionLine,
    SymbolKind,
    SymbolSource,
    add,
    evaluate,
    mul,
    sub,
    substitute,
)
from wrapperir.text import parse_expr


def expressions(scope: GraphScope, values: Any) -> tuple[Expr, ...]:
    """Return the expressions of numbers and of nodes that compute numbers.

    Raises:
        DiagnosticError: WIR603, one is not a number.
    """
    return tuple(expression(scope, value) for value in values)


def expression(scope: GraphScope, value: Any) -> Expr:
    """Return the expression of a number or of a node that computes one.

    Raises:
        DiagnosticError: WIR603, it is not a number.
    """
    lowered = lower_argument(scope, value)
    if isinstance(lowered, int | float | Symbol | Operation):
        return int(lowered) if isinstance(lowered, bool) else lowered
    raise Code.UNSUPPORTED_ARGUMENT.error(f"{value} is not a number")


def _define(
    scope: GraphScope,
    node: torch.fx.Node,
    source: SymbolSource,
    kind: SymbolKind,
    name: str | None = None,
    bounds: tuple[int | None, int | None] = (None, None),
) -> Symbol:
    """Append the definition of a symbol and return it.

    It has the name of the symbol in the node's example, if that is not defined yet.
    """
    chosen = _new_symbol(scope, node)
    if chosen is None:
        chosen = name or node.name
        # The symbols that types may mention are others.
        while chosen in RESERVED_SYMBOLS or chosen in shared_of(scope).graph_symbols:
            chosen = f"{chosen}_"
    symbol = take(scope.shared.symbols, chosen)
    scope.visible.add(symbol)
    lower, upper = bounds
    scope.lines.append(
        SymbolDefinitionLine(
            symbol=symbol, kind=kind, lower=lower, upper=upper, source=source
        )
    )
    return Symbol(symbol)


def _new_symbol(scope: GraphScope, node: torch.fx.Node) -> str | None:
    """Return the name of the symbol that a node's example is, if none defined it yet."""
    value = node.meta.get("val")
    if not is_symbolic(value):
        return None
    expr = expr_of(value)
    if not expr.is_Symbol or scope.is_defined(expr.name):
        return None
    return str(expr.name)


_aten = torch.ops.aten

_OPERATIONS: Mapping[Any, ExprOp] = {
    operator.truediv: ExprOp.TRUEDIV,
    operator.floordiv: ExprOp.FLOORDIV,
    operator.mod: ExprOp.MOD,
    operator.pow: ExprOp.POW,
    operator.neg: ExprOp.NEG,
    operator.abs: ExprOp.ABS,
    operator.eq: ExprOp.EQ,
    operator.ne: ExprOp.NE,
    operator.lt: ExprOp.LT,
    operator.le: ExprOp.LE,
    operator.gt: ExprOp.GT,
    operator.ge: ExprOp.GE,
    operator.not_: ExprOp.NOT,
    operator.lshift: ExprOp.SHL,
    operator.rshift: ExprOp.SHR,
    operator.xor: ExprOp.BITXOR,
    builtins.abs: ExprOp.ABS,
    builtins.round: ExprOp.ROUND,
    builtins.min: ExprOp.MIN,
    builtins.max: ExprOp.MAX,
    builtins.float: ExprOp.TO_FLOAT,
    builtins.int: ExprOp.TRUNC,
    math.floor: ExprOp.FLOOR,
    math.ceil: ExprOp.CEIL,
    math.trunc: ExprOp.TRUNC,
    math.sqrt: ExprOp.SQRT,
    math.log2: ExprOp.LOG2,
    torch.sym_min: ExprOp.MIN,
    torch.sym_max: ExprOp.MAX,
    torch.sym_not: ExprOp.NOT,
    torch.sym_float: ExprOp.TO_FLOAT,
    torch.sym_int: ExprOp.TRUNC,
    torch.sym_ite: ExprOp.WHERE,
    functions.ceildiv: ExprOp.CEILDIV,
    functions.power: ExprOp.POW,
    functions.real: ExprOp.TO_FLOAT,
    functions.choose: ExprOp.WHERE,
    functions.shift_left: ExprOp.SHL,
    functions.shift_right: ExprOp.SHR,
    functions.bit_and: ExprOp.BITAND,
    functions.bit_or: ExprOp.BITOR,
    functions.bit_xor: ExprOp.BITXOR,
}

_FOLDED: Mapping[Any, Callable[[Expr, Expr], Expr]] = {
    operator.add: add,
    operator.sub: sub,
    operator.mul: mul,
}
_BITWISE: Mapping[Any, tuple[ExprOp, ExprOp]] = {
    operator.and_: (ExprOp.BITAND, ExprOp.AND),
    operator.or_: (ExprOp.BITOR, ExprOp.OR),
}
_ITEMS = frozenset({_aten.item.default, _aten._local_scalar_dense.default})


def lower_number(scope: GraphScope, node: torch.fx.Node) -> bool:
    """Lower a node that computes a number from others, or reads one of a tensor.

    Return whether the node is one.

    Raises:
        DiagnosticError: WIR603, an operand is not a number.
    """
    target = node.target
    if target in _ITEMS:
        value = _item(scope, node)
    elif (read := _READS.get(target)) is not None:
        value = read(scope, node)
    elif target in _FOLDED:
        left, right = expressions(scope, node.args)
        value = _FOLDED[target](left, right)
    elif target in _BITWISE:
        of_ints, of_bools = _BITWISE[target]
        boolean = isinstance(node.meta.get("val"), torch.SymBool | bool)
        value = apply_operation(
            of_bools if boolean else of_ints, expressions(scope, node.args)
        )
    elif target in _OPERATIONS:
        value = apply_operation(_OPERATIONS[target], expressions(scope, node.args))
    else:
        return False
    # Types may mention the symbol of the node's example.
    name = _new_symbol(scope, node)
    if name is not None and value != Symbol(name):
        scope.renamed[name] = value
    scope.values[node] = value
    return True


def apply_operation(op: ExprOp, args: Sequence[Expr]) -> Expr:
    """Return an operation, or its value if the arguments are numbers."""
    expr = Operation(op, tuple(args))
    if all(isinstance(arg, int | float) for arg in args):
        try:
            return evaluate(expr, {})
        except EvaluationError:
            pass  # the error belongs to the run
    return expr


def _item(scope: GraphScope, node: torch.fx.Node) -> Expr:
    name, type = tensor_argument(scope, node.args[0])
    if type.dtype.value == "bool":
        kind = SymbolKind.BOOL
    else:
        kind = SymbolKind.FLOAT if type.dtype.is_float else SymbolKind.INT
    return _define(scope, node, ItemOf(name), kind)


def _size(scope: GraphScope, node: torch.fx.Node) -> Expr:
    return _dimension(node, tensor_argument(scope, node.args[0])[1].size)


def _stride(scope: GraphScope, node: torch.fx.Node) -> Expr:
    return _dimension(node, tensor_argument(scope, node.args[0])[1].stride)


def _dimension(node: torch.fx.Node, entries: Sequence[Expr]) -> Expr:
    dim = node.args[1]
    if isinstance(dim, int) and -len(entries) <= dim < len(entries):
        return entries[dim]
    raise Code.UNSUPPORTED_ARGUMENT.error(f"{dim} is not a dimension of {node.args[0]}")


def _offset(scope: GraphScope, node: torch.fx.Node) -> Expr:
    return tensor_argument(scope, node.args[0])[1].offset


def _total(scope: GraphScope, node: torch.fx.Node) -> Expr:
    zero: Expr = 0
    return functools.reduce(add, expressions(scope, node.args[0]), zero)


def _given(scope: GraphScope, node: torch.fx.Node) -> Expr:
    return expression(scope, node.args[0])


def _whole(scope: GraphScope, node: torch.fx.Node) -> Expr:
    value = _given(scope, node)
    if isinstance(value, int):
        return value
    return _define(scope, node, value, SymbolKind.INT)


def _truth(scope: GraphScope, node: torch.fx.Node) -> Expr:
    return apply_operation(ExprOp.NE, (_given(scope, node), 0))


def _checked(scope: GraphScope, node: torch.fx.Node) -> Expr:
    given, lower, upper, name = node.args
    value = expression(scope, given)
    is_float = isinstance(node.meta.get("val"), torch.SymFloat | float)
    kind = SymbolKind.FLOAT if is_float else SymbolKind.INT
    assert isinstance(lower, int | None)
    assert isinstance(upper, int | None)
    return _define(scope, node, value, kind, str(name), (lower, upper))


def _evaluated(scope: GraphScope, node: torch.fx.Node) -> Expr:
    text, symbols = node.args
    assert isinstance(symbols, Mapping)
    values = {str(name): expression(scope, value) for name, value in symbols.items()}
    return substitute(parse_expr(str(text)), values)


_READS: Mapping[Any, Callable[[GraphScope, torch.fx.Node], Expr]] = {
    _aten.sym_size.int: _size,
    _aten.sym_stride.int: _stride,
    _aten.sym_storage_offset.default: _offset,
    _aten.sym_storage_offset: _offset,
    torch.sym_sum: _total,
    functions.whole: _whole,
    functions.truth: _truth,
    builtins.bool: _truth,
    functions.given_int: _given,
    functions.given_bool: _given,
    functions.check_range: _checked,
    functions.evaluate: _evaluated,
}
