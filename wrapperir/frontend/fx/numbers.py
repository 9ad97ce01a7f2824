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

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.frontend.aten.arguments import lower_argument, tensor_argument
from wrapperir.frontend.aten.scope import GraphScope, take
from wrapperir.frontend.aten.values import expr_of, is_symbolic
from wrapperir.frontend.fx.state import shared_of
from wrapperir.fx import functions
from wrapperir.text import parse_expr


def expressions(scope: GraphScope, values: Any) -> tuple[wir.Expr, ...]:
    """Return the expressions of numbers and of nodes that compute numbers.

    Raises:
        DiagnosticError: WIR603, one is not a number.
    """
    return tuple(expression(scope, value) for value in values)


def expression(scope: GraphScope, value: Any) -> wir.Expr:
    """Return the expression of a number or of a node that computes one.

    Raises:
        DiagnosticError: WIR603, it is not a number.
    """
    lowered = lower_argument(scope, value)
    if isinstance(lowered, int | float | wir.Symbol | wir.Operation):
        return int(lowered) if isinstance(lowered, bool) else lowered
    raise Code.UNSUPPORTED_ARGUMENT.error(f"{value} is not a number")


def _define(
    scope: GraphScope,
    node: torch.fx.Node,
    source: wir.SymbolSource,
    kind: wir.SymbolKind,
    name: str | None = None,
    bounds: tuple[int | None, int | None] = (None, None),
) -> wir.Symbol:
    """Append the definition of a symbol and return it.

    It has the name of the symbol in the node's example, if that is not defined yet.
    """
    chosen = _new_symbol(scope, node)
    if chosen is None:
        chosen = name or node.name
        # The symbols that types may mention are others.
        while chosen in wir.RESERVED_SYMBOLS or chosen in shared_of(scope).graph_symbols:
            chosen = f"{chosen}_"
    symbol = take(scope.shared.symbols, chosen)
    scope.visible.add(symbol)
    lower, upper = bounds
    scope.lines.append(
        wir.SymbolDefinitionLine(
            symbol=symbol, kind=kind, lower=lower, upper=upper, source=source
        )
    )
    return wir.Symbol(symbol)


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

_FUNCTIONS: Mapping[wir.ExprOp, tuple[Any, ...]] = {
    wir.ExprOp.TRUEDIV: (operator.truediv,),
    wir.ExprOp.FLOORDIV: (operator.floordiv,),
    wir.ExprOp.CEILDIV: (functions.ceildiv,),
    wir.ExprOp.MOD: (operator.mod,),
    wir.ExprOp.POW: (operator.pow, functions.power),
    wir.ExprOp.NEG: (operator.neg,),
    wir.ExprOp.ABS: (operator.abs, builtins.abs),
    wir.ExprOp.EQ: (operator.eq,),
    wir.ExprOp.NE: (operator.ne,),
    wir.ExprOp.LT: (operator.lt,),
    wir.ExprOp.LE: (operator.le,),
    wir.ExprOp.GT: (operator.gt,),
    wir.ExprOp.GE: (operator.ge,),
    wir.ExprOp.NOT: (operator.not_, torch.sym_not),
    wir.ExprOp.SHL: (operator.lshift, functions.shift_left),
    wir.ExprOp.SHR: (operator.rshift, functions.shift_right),
    wir.ExprOp.BITAND: (functions.bit_and,),
    wir.ExprOp.BITOR: (functions.bit_or,),
    wir.ExprOp.BITXOR: (operator.xor, functions.bit_xor),
    wir.ExprOp.ROUND: (builtins.round,),
    wir.ExprOp.MIN: (builtins.min, torch.sym_min),
    wir.ExprOp.MAX: (builtins.max, torch.sym_max),
    wir.ExprOp.TO_FLOAT: (builtins.float, torch.sym_float, functions.real),
    wir.ExprOp.TRUNC: (builtins.int, math.trunc, torch.sym_int),
    wir.ExprOp.FLOOR: (math.floor,),
    wir.ExprOp.CEIL: (math.ceil,),
    wir.ExprOp.SQRT: (math.sqrt,),
    wir.ExprOp.LOG2: (math.log2,),
    wir.ExprOp.WHERE: (torch.sym_ite, functions.choose),
}
_OPERATIONS: Mapping[Any, wir.ExprOp] = {
    function: op for op, group in _FUNCTIONS.items() for function in group
}

_FOLDED: Mapping[Any, Callable[[wir.Expr, wir.Expr], wir.Expr]] = {
    operator.add: wir.add,
    operator.sub: wir.sub,
    operator.mul: wir.mul,
}
_BITWISE: Mapping[Any, tuple[wir.ExprOp, wir.ExprOp]] = {
    operator.and_: (wir.ExprOp.BITAND, wir.ExprOp.AND),
    operator.or_: (wir.ExprOp.BITOR, wir.ExprOp.OR),
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
    if name is not None and value != wir.Symbol(name):
        scope.renamed[name] = value
    scope.values[node] = value
    return True


def apply_operation(op: wir.ExprOp, args: Sequence[wir.Expr]) -> wir.Expr:
    """Return an operation, or its value if the arguments are numbers."""
    expr = wir.Operation(op, tuple(args))
    if all(isinstance(arg, int | float) for arg in args):
        try:
            return wir.evaluate(expr, {})
        except wir.EvaluationError:
            pass  # the error belongs to the run
    return expr


def _item(scope: GraphScope, node: torch.fx.Node) -> wir.Expr:
    name, type = tensor_argument(scope, node.args[0])
    if type.dtype.value == "bool":
        kind = wir.SymbolKind.BOOL
    else:
        kind = wir.SymbolKind.FLOAT if type.dtype.is_float else wir.SymbolKind.INT
    return _define(scope, node, wir.ItemOf(name), kind)


def _size(scope: GraphScope, node: torch.fx.Node) -> wir.Expr:
    return _dimension(node, tensor_argument(scope, node.args[0])[1].size)


def _stride(scope: GraphScope, node: torch.fx.Node) -> wir.Expr:
    return _dimension(node, tensor_argument(scope, node.args[0])[1].stride)


def _dimension(node: torch.fx.Node, entries: Sequence[wir.Expr]) -> wir.Expr:
    dim = node.args[1]
    if isinstance(dim, int) and -len(entries) <= dim < len(entries):
        return entries[dim]
    raise Code.UNSUPPORTED_ARGUMENT.error(f"{dim} is not a dimension of {node.args[0]}")


def _offset(scope: GraphScope, node: torch.fx.Node) -> wir.Expr:
    return tensor_argument(scope, node.args[0])[1].offset


def _total(scope: GraphScope, node: torch.fx.Node) -> wir.Expr:
    zero: wir.Expr = 0
    return functools.reduce(wir.add, expressions(scope, node.args[0]), zero)


def _given(scope: GraphScope, node: torch.fx.Node) -> wir.Expr:
    return expression(scope, node.args[0])


def _whole(scope: GraphScope, node: torch.fx.Node) -> wir.Expr:
    value = _given(scope, node)
    if isinstance(value, int):
        return value
    return _define(scope, node, value, wir.SymbolKind.INT)


def _truth(scope: GraphScope, node: torch.fx.Node) -> wir.Expr:
    return apply_operation(wir.ExprOp.NE, (_given(scope, node), 0))


def _checked(scope: GraphScope, node: torch.fx.Node) -> wir.Expr:
    given, lower, upper, name = node.args
    value = expression(scope, given)
    is_float = isinstance(node.meta.get("val"), torch.SymFloat | float)
    kind = wir.SymbolKind.FLOAT if is_float else wir.SymbolKind.INT
    assert isinstance(lower, int | None)
    assert isinstance(upper, int | None)
    return _define(scope, node, value, kind, str(name), (lower, upper))


def _evaluated(scope: GraphScope, node: torch.fx.Node) -> wir.Expr:
    text, symbols = node.args
    assert isinstance(symbols, Mapping)
    values = {str(name): expression(scope, value) for name, value in symbols.items()}
    return wir.substitute(parse_expr(str(text)), values)


_READS: Mapping[Any, Callable[[GraphScope, torch.fx.Node], wir.Expr]] = {
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
