"""Programs with fewer symbols, or with narrower ranges of them."""

from collections.abc import Iterator

from attrs import evolve

from wrapperir.ir import (
    EvaluationError,
    Expr,
    Operation,
    Program,
    Symbol,
    SymbolDefinitionLine,
    SymbolKind,
    evaluate,
    substitute,
    symbols_in,
)
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.rewriting import rewrite_but_definitions
from wrapperir.reduce.lines import replace_line


def integers_of(program: Program) -> list[SymbolDefinitionLine]:
    """Return the definitions of integers, nested ones included."""
    return [
        line
        for line in (*program.symbols, *walk_lines(program.lines))
        if isinstance(line, SymbolDefinitionLine) and line.kind is SymbolKind.INT
    ]


def with_narrower_range(program: Program, line: SymbolDefinitionLine) -> Iterator[Program]:
    """Yield programs in which a symbol has one value of its range.

    It is replaced by the number, without its definition, or keeps a range of one value::

        symbol s0: int 2..64 = size(%x, 0)
        symbol s0: int 2..2 = size(%x, 0)

    Kernels keep what they are given, with a number in place of the symbol.  The programs
    need not be valid.
    """
    values = _values(line)
    for value in values:
        yield _replaced(program, line, value)
    for value in values:
        if (line.lower, line.upper) != (value, value):
            yield _with_line(program, line, evolve(line, lower=value, upper=value))


def _values(line: SymbolDefinitionLine) -> list[int]:
    """Return values in the range of a symbol to try: small ones, and its bounds."""
    lower, upper = line.lower, line.upper
    tried = (each for each in (lower, 1, 2, upper) if each is not None)
    return [
        value
        for value in dict.fromkeys(tried)
        if (lower is None or lower <= value) and (upper is None or value <= upper)
    ]


def _replaced(program: Program, line: SymbolDefinitionLine, value: int) -> Program:
    """Return the program with a number in place of a symbol, outside of definitions."""

    def rewrite(expr: Symbol | Operation) -> Expr:
        if line.symbol not in symbols_in(expr):
            return expr
        new = substitute(expr, {line.symbol: value})
        try:
            result = evaluate(new, {})
        except EvaluationError:
            return new
        return result if type(result) is int else new

    return rewrite_but_definitions(_with_line(program, line, None), rewrite)


def _with_line(
    program: Program, old: SymbolDefinitionLine, new: SymbolDefinitionLine | None
) -> Program:
    """Return the program with another definition, or none, in place of one."""
    made = () if new is None else (new,)
    symbols = tuple(
        each for line in program.symbols for each in (made if line is old else (line,))
    )
    return evolve(program, symbols=symbols, lines=replace_line(program.lines, old, made))
