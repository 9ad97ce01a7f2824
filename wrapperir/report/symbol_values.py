"""Giving a program's symbols values, so that its sizes are numbers."""

from collections.abc import Mapping, Sequence

from wrapperir import ir as wir
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.mentions import argument_symbols, line_symbols
from wrapperir.report.timeline import SymbolValue

USUAL = 64
"""The value of a symbol that is neither given nor computed, if it is in the range."""


class SymbolValueError(ValueError):
    """A value was given for an unknown symbol, or is outside the symbol's range."""


def choose_values(
    program: wir.Program, given: Mapping[str, int]
) -> tuple[SymbolValue, ...]:
    """Return a value for each integer symbol that is shown, in the order of the program.

    The value is the given one, the value of the symbol's expression, or the value in the
    symbol's range that is nearest to :data:`USUAL`.

    Raises:
        SymbolValueError: a given value is for no symbol or out of range.
    """
    lines = walk_lines((*program.symbols, *program.lines))
    defined = (line for line in lines if isinstance(line, wir.SymbolDefinitionLine))
    symbols = [symbol for symbol in defined if symbol.kind is wir.SymbolKind.INT]
    check_values(symbols, {name: (value,) for name, value in given.items()})
    shown = {*shown_symbols(program), *given}
    values: dict[str, wir.Number] = {}
    chosen: list[SymbolValue] = []
    for symbol in symbols:
        value = _choose(symbol, given.get(symbol.symbol), values)
        values[symbol.symbol] = value.value
        if symbol.symbol in shown:
            chosen.append(value)
    return tuple(chosen)


def shown_symbols(program: wir.Program) -> list[str]:
    """Return the symbols of a program, and those of its lines that more than checks use."""
    lines = [*walk_lines(program.lines)]
    used = {
        symbol
        for line in (*lines, *program.symbols)
        if not isinstance(line, wir.AssertScalarLine)
        for symbol in line_symbols(line)
    }
    own = [x.symbol for x in lines if isinstance(x, wir.SymbolDefinitionLine)]
    used.update(*map(argument_symbols, program.outputs))
    return [*(x.symbol for x in program.symbols), *(x for x in own if x in used)]


def check_values(
    symbols: Sequence[wir.SymbolDefinitionLine], given: Mapping[str, Sequence[int]]
) -> None:
    """Check that values are given for known symbols, within their ranges.

    Raises:
        SymbolValueError: a value is for no symbol or out of range.
    """
    known = {line.symbol: line for line in symbols}
    for name, values in given.items():
        if name not in known:
            names = ", ".join(list(known)[:20]) or "none"
            raise SymbolValueError(f"the program has no symbol {name} (it has {names})")
        for value in values:
            if _in_range(known[name], value) != value:
                bounds = _range(known[name])
                raise SymbolValueError(f"{name} = {value} is not in its range {bounds}")


def _choose(
    symbol: wir.SymbolDefinitionLine, given: int | None, values: Mapping[str, wir.Number]
) -> SymbolValue:
    name = symbol.symbol
    if given is not None:
        return SymbolValue(name=name, value=given, reason="given")
    if isinstance(symbol.source, int | wir.Symbol | wir.Operation):
        value: int | None
        try:
            value = wir.evaluate_int(symbol.source, values)
        except wir.EvaluationError:
            value = None  # it mentions what has no value here, such as a float
        if value is not None and abs(value) < 1 << 63:
            return SymbolValue(name=name, value=value, reason="from the symbols before it")
    usual = _in_range(symbol, USUAL)
    bounded = symbol.lower is not None or symbol.upper is not None
    reason = f"not given; of {_range(symbol)}" if bounded else "not given"
    return SymbolValue(name=name, value=usual, reason=reason)


def _in_range(symbol: wir.SymbolDefinitionLine, value: int) -> int:
    if symbol.lower is not None:
        value = max(value, symbol.lower)
    return value if symbol.upper is None else min(value, symbol.upper)


def _range(symbol: wir.SymbolDefinitionLine) -> str:
    bounds = ("" if bound is None else bound for bound in (symbol.lower, symbol.upper))
    return "{}..{}".format(*bounds)
