"""Parsing and formatting of expressions.

From loosest to tightest: ``or``; ``and``; ``not``; comparisons, which do not chain;
``+ -``; ``* / // %``; unary ``-``; ``**``, which groups to the right.  The other operators
are calls: ``ceildiv(a, b)``.  ``a + b + c`` is one operation of three operands and
``(a + b) + c`` one of two; nothing is folded.  A minus directly before a number that is
not a base of ``**`` is part of the number, so ``-5`` is a number and ``-(5)`` a negation.
"""

from collections.abc import Callable

from wrapperir.diagnostics import Code
from wrapperir.ir import (
    MAX_DEPTH,
    RESERVED_SYMBOLS,
    VARIADIC,
    Expr,
    ExprOp,
    Operation,
    Symbol,
    accepts_arity,
)
from wrapperir.text.cursor import Cursor, suggestion
from wrapperir.text.limits import Malformed, quoted
from wrapperir.text.literals import SPECIAL_FLOATS, format_number, parse_number

_NOT, _COMPARISON, _SUM, _TERM, _UNARY, _POWER, _ATOM = 3, 4, 5, 6, 7, 8, 9

INFIX: dict[ExprOp, tuple[str, int]] = {
    ExprOp.OR: ("or", 1),
    ExprOp.AND: ("and", 2),
    ExprOp.EQ: ("==", _COMPARISON),
    ExprOp.NE: ("!=", _COMPARISON),
    ExprOp.LT: ("<", _COMPARISON),
    ExprOp.LE: ("<=", _COMPARISON),
    ExprOp.GT: (">", _COMPARISON),
    ExprOp.GE: (">=", _COMPARISON),
    ExprOp.ADD: ("+", _SUM),
    ExprOp.SUB: ("-", _SUM),
    ExprOp.MUL: ("*", _TERM),
    ExprOp.TRUEDIV: ("/", _TERM),
    ExprOp.FLOORDIV: ("//", _TERM),
    ExprOp.MOD: ("%", _TERM),
    ExprOp.POW: ("**", _POWER),
}
"""The spelling and level of each infix operator."""

CALLS = {
    op.value: op for op in ExprOp if op not in INFIX and op not in (ExprOp.NEG, ExprOp.NOT)
}
"""The operators that are written as calls."""

_BY_SPELLING = {spelling: (op, level) for op, (spelling, level) in INFIX.items()}
_BOOLEANS = {"true": True, "false": False}


def parse_expression(cursor: Cursor) -> Expr:
    """Take an expression.

    Raises:
        Malformed: no expression follows, or it is higher than ``MAX_DEPTH``.
    """
    return _parse(cursor, 0)


def _parse(cursor: Cursor, minimum: int) -> Expr:
    cursor.enter()
    left = _parse_prefix(cursor, minimum)
    while (entry := _BY_SPELLING.get(cursor.next)) is not None and entry[1] >= minimum:
        op, level = entry
        spelling = cursor.next
        height = cursor.height
        args = [left]
        while True:
            cursor.advance()
            args.append(_parse(cursor, _UNARY if level == _POWER else level + 1))
            height = max(height, cursor.height)
            if op not in VARIADIC or cursor.next != spelling:
                break
        left = _operation(cursor, op, tuple(args), height)
        if level == _COMPARISON and _BY_SPELLING.get(cursor.next, (op, 0))[1] == level:
            raise cursor.malformed(
                Code.UNEXPECTED,
                "comparisons do not chain",
                "put one in parentheses, or join two with `and`",
            )
    cursor.leave()
    return left


def _operation(cursor: Cursor, op: ExprOp, args: tuple[Expr, ...], height: int) -> Expr:
    if height >= MAX_DEPTH:
        raise cursor.malformed(
            Code.TOO_DEEP, f"the expression is more than {MAX_DEPTH} operations deep"
        )
    cursor.height = height + 1
    return Operation(op, args)


def _parse_prefix(cursor: Cursor, minimum: int) -> Expr:
    spelling = cursor.next
    if spelling == "-":
        return _parse_minus(cursor)
    if spelling == "not" and minimum <= _NOT:
        cursor.enter()
        cursor.advance()
        operand = _parse(cursor, _NOT)
        cursor.leave()
        return _operation(cursor, ExprOp.NOT, (operand,), cursor.height)
    if spelling == "(":
        cursor.advance()
        inner = _parse(cursor, 0)
        cursor.expect(")")
        return inner
    cursor.height = 0
    if cursor.kind == "number" or spelling in SPECIAL_FLOATS:
        return parse_number(cursor)
    if spelling in _BOOLEANS:
        cursor.advance()
        return _BOOLEANS[spelling]
    if cursor.kind != "name" or spelling in RESERVED_SYMBOLS:
        raise cursor.unexpected("an expression")
    return _parse_call(cursor) if cursor.is_call() else Symbol(cursor.name("a symbol"))


def _parse_minus(cursor: Cursor) -> Expr:
    cursor.enter()
    cursor.advance()
    literal = cursor.kind == "number" or cursor.next in SPECIAL_FLOATS
    operand = _parse(cursor, _UNARY)
    cursor.leave()
    if literal and isinstance(operand, int | float):
        return operand if operand != operand else -operand  # keep the one NaN
    return _operation(cursor, ExprOp.NEG, (operand,), cursor.height)


def _parse_call(cursor: Cursor) -> Expr:
    spelling, start, end = cursor.next, cursor.start, cursor.end
    op = CALLS.get(spelling)
    if op is None:
        raise cursor.malformed(
            Code.UNKNOWN_WORD,
            f"{quoted(spelling)} is not a function of expressions",
            suggestion(spelling, CALLS),
        )
    cursor.enter()
    cursor.advance()
    args: list[Expr] = []
    height = 0
    cursor.expect("(")
    while True:
        args.append(_parse(cursor, 0))
        height = max(height, cursor.height)
        if not cursor.accept(","):
            break
    cursor.expect(")")
    cursor.leave()
    if not accepts_arity(op, len(args)):
        message = f"`{spelling}` does not take {len(args)} operands"
        raise Malformed(Code.BAD_ARITY, message, start, end)
    return _operation(cursor, op, tuple(args), height)


def format_expression(expr: Expr, symbol: Callable[[str], str]) -> str:
    """Return an expression; ``symbol`` checks the name of a symbol and returns it.

    Raises:
        Malformed: no text can spell this expression.
    """
    return _format(expr, 0, MAX_DEPTH, symbol)


def _format(expr: Expr, level: int, depth: int, symbol: Callable[[str], str]) -> str:
    if isinstance(expr, Symbol):
        return symbol(expr.name)
    if isinstance(expr, int | float):
        text = format_number(expr)
        return f"({text})" if level > _UNARY and text[0] == "-" else text
    if not isinstance(expr, Operation):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Malformed(
            Code.UNWRITABLE_VALUE, f"{quoted(repr(expr))} where an expression belongs"
        )
    op, args = expr.op, expr.args
    if depth == 0:
        raise Malformed(
            Code.TOO_DEEP, f"an expression more than {MAX_DEPTH} operations deep"
        )
    if not accepts_arity(op, len(args)):
        raise Malformed(Code.BAD_ARITY, f"`{op.value}` of {len(args)} operands")
    depth -= 1
    if op is ExprOp.NEG:
        if isinstance(args[0], int | float):
            text = f"-({_format(args[0], 0, depth, symbol)})"
        else:
            text = "-" + _format(args[0], _UNARY, depth, symbol)
        return f"({text})" if level > _UNARY else text
    if op is ExprOp.NOT:
        text = "not " + _format(args[0], _NOT, depth, symbol)
        return f"({text})" if level > _NOT else text
    if op not in INFIX:
        return f"{op.value}({', '.join(_format(a, 0, depth, symbol) for a in args)})"
    spelling, own = INFIX[op]
    first, rest = own, own + 1
    if op is ExprOp.POW:
        first, rest = _ATOM, _UNARY
    elif own == _COMPARISON or (isinstance(args[0], Operation) and args[0].op is op):
        # An n-ary operator's own kind on its left would read as more operands.
        first = own + 1 if op in VARIADIC or own == _COMPARISON else own
    parts = [_format(args[0], first, depth, symbol)]
    parts += [_format(arg, rest, depth, symbol) for arg in args[1:]]
    text = f" {spelling} ".join(parts)
    return f"({text})" if level > own else text
