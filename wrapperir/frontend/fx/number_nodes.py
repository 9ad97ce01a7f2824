"""Nodes that compute a number, or read one of a tensor."""

# torch and Python's own functions say little of their types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import builtins
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend.aten.arguments import lower_argument
from wrapperir.frontend.aten.scope import GraphScope
from wrapperir.frontend.fx.numbers import bind, define, expression, expressions
from wrapperir.fx import functions
from wrapperir.ir import (
    BufferRef,
    EvaluationError,
    Expr,
    ExprOp,
    ItemOf,
    Operation,
    SymbolKind,
    TensorType,
    add,
    evaluate,
    mul,
    sub,
    substitute,
)
from wrapperir.text import parse_expr

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
        value = _applied(of_bools if boolean else of_ints, expressions(scope, node.args))
    elif target in _OPERATIONS:
        value = _applied(_OPERATIONS[target], expressions(scope, node.args))
    else:
        return False
    bind(scope, node, value)
    scope.values[node] = value
    return True


def _applied(op: ExprOp, args: Sequence[Expr]) -> Expr:
    expr = Operation(op, tuple(args))
    if all(isinstance(arg, int | float) for arg in args):
        try:
            return evaluate(expr, {})
        except EvaluationError:
            pass  # the error belongs to the run
    return expr


def _tensor(scope: GraphScope, node: torch.fx.Node) -> tuple[str, TensorType]:
    value = lower_argument(scope, node.args[0])
    if isinstance(value, BufferRef):
        type = scope.types[value.name]
        if isinstance(type, TensorType):
            return value.name, type
    raise DiagnosticError.of(
        Code.UNSUPPORTED_ARGUMENT, f"{node.args[0]} is not a strided tensor"
    )


def _item(scope: GraphScope, node: torch.fx.Node) -> Expr:
    name, type = _tensor(scope, node)
    if type.dtype.value == "bool":
        kind = SymbolKind.BOOL
    else:
        kind = SymbolKind.FLOAT if type.dtype.is_float else SymbolKind.INT
    return define(scope, node, ItemOf(name), kind)


def _size(scope: GraphScope, node: torch.fx.Node) -> Expr:
    size = _tensor(scope, node)[1].size
    return size[_dimension(node, size)]


def _stride(scope: GraphScope, node: torch.fx.Node) -> Expr:
    stride = _tensor(scope, node)[1].stride
    return stride[_dimension(node, stride)]


def _dimension(node: torch.fx.Node, entries: Sequence[Expr]) -> int:
    dim = node.args[1]
    if isinstance(dim, int) and -len(entries) <= dim < len(entries):
        return dim
    raise DiagnosticError.of(
        Code.UNSUPPORTED_ARGUMENT, f"{dim} is not a dimension of {node.args[0]}"
    )


def _offset(scope: GraphScope, node: torch.fx.Node) -> Expr:
    return _tensor(scope, node)[1].offset


def _total(scope: GraphScope, node: torch.fx.Node) -> Expr:
    total: Expr = 0
    terms: Any = node.args[0]
    for term in expressions(scope, terms):
        total = add(total, term)
    return total


def _whole(scope: GraphScope, node: torch.fx.Node) -> Expr:
    value = expression(scope, node.args[0])
    if isinstance(value, int):
        return value
    return define(scope, node, value, SymbolKind.INT)


def _truth(scope: GraphScope, node: torch.fx.Node) -> Expr:
    return _applied(ExprOp.NE, (expression(scope, node.args[0]), 0))


def _given(scope: GraphScope, node: torch.fx.Node) -> Expr:
    return expression(scope, node.args[0])


def _checked(scope: GraphScope, node: torch.fx.Node) -> Expr:
    given, lower, upper, name = node.args
    value = expression(scope, given)
    if isinstance(node.meta.get("val"), torch.SymFloat | float):
        kind = SymbolKind.FLOAT
    else:
        kind = SymbolKind.INT
    assert isinstance(lower, int | None)
    assert isinstance(upper, int | None)
    return define(scope, node, value, kind, name=str(name), lower=lower, upper=upper)


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
