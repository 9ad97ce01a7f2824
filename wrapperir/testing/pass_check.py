"""Checks, on one program, that a memory pass preserves meaning and peaks.

A pass keeps a program valid, its results the same bit for bit, and its peak no higher, as
the analysis of :mod:`wrapperir.analysis` and the brute-force checker see it.
"""

from collections.abc import Iterable, Mapping
from random import Random
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from wrapperir.analysis import analyze_memory
from wrapperir.diagnostics import DiagnosticError
from wrapperir.interp import interpret
from wrapperir.ir import BodyLine, ItemOf, Number, Program, Symbol, SymbolDefinitionLine
from wrapperir.ir.blocks import walk_lines
from wrapperir.testing.inputs import example_constants, example_inputs
from wrapperir.testing.memory_check import memory_conflicts, peak_bytes
from wrapperir.verify import verify

if TYPE_CHECKING:
    from wrapperir.emit import Value

_MOST = 8
"""How far a symbol that a block reads from data is taken to be above its lower bound."""


@frozen
class Behaviour:
    """What a program does on the example inputs of a seed.

    ``values`` are its outputs, its inputs as it left them, and its constants; ``symbols``
    those of its sizes; ``peaks`` the bytes that the analysis and the checker find.
    ``faults`` say what is wrong with the program itself.
    """

    values: tuple[object, ...]
    symbols: Mapping[str, Number]
    peaks: tuple[int, int]
    faults: tuple[str, ...]


def behaviour(
    program: Program, symbols: Mapping[str, Number] | None = None, seed: int = 0
) -> Behaviour:
    """Verify, run and analyze a program.

    ``symbols`` are the sizes that peaks are of; by default those it has when it runs, and
    some in their ranges for those that a block reads from data.
    """
    faults = tuple(f"{d.code.value}: {d.message}" for d in verify(program))
    names = _defined((*program.symbols, *program.lines))
    inputs = [_copied(value) for value in example_inputs(program, seed)]
    constants = example_constants(program, seed)
    outputs = (*program.outputs, *(Symbol(name) for name in names))
    try:
        returned = interpret(evolve(program, outputs=outputs), inputs, constants)
    except DiagnosticError as error:
        return Behaviour((), symbols or {}, (0, 0), (*faults, str(error)))
    count = len(program.outputs)
    if symbols is None:
        own = zip(names, returned[count:], strict=True)
        numbers = {name: n for name, n in own if isinstance(n, int | float)}
        symbols = {**_nested_symbols(program.lines, Random(seed)), **numbers}  # noqa: S311
    return Behaviour(
        (*returned[:count], *inputs, *constants.values()),
        symbols,
        (analyze_memory(program, symbols).peak, peak_bytes(program, symbols)),
        (*faults, *map(str, memory_conflicts(program, symbols))),
    )


def pass_faults(before: Behaviour, after: Behaviour) -> tuple[str, ...]:
    """Return what a pass did wrong, in words.

    ``after`` is the behaviour of what the pass made, with the symbols of ``before``.
    """
    if after.faults:
        return after.faults
    faults = [
        f"value {number} is {new}, not {old}"
        for number, (old, new) in enumerate(zip(before.values, after.values, strict=True))
        if not _same(old, new)
    ]
    for what, old, new in zip(PEAKS, before.peaks, after.peaks, strict=True):
        if new > old:
            faults.append(f"the peak {what} rose from {old} to {new}: {before.symbols}")
    return tuple(faults)


PEAKS = ("of the analysis", "of the checker")


def _copied(value: "Value") -> "Value":
    import torch

    return value.clone() if isinstance(value, torch.Tensor) else value


def _same(left: object, right: object) -> bool:
    """Say whether two values have the same bits."""
    import torch

    if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
        return type(left) is type(right) and repr(left) == repr(right)
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    steps = zip(left.shape, left.stride(), right.stride(), strict=True)
    if left.numel() and any(n != 1 and a != b for n, a, b in steps):
        return False
    bits = [t.contiguous().flatten().view(torch.uint8) for t in (left, right)]
    return torch.equal(*bits)


def _defined(lines: Iterable[SymbolDefinitionLine | BodyLine]) -> list[str]:
    return [line.symbol for line in lines if isinstance(line, SymbolDefinitionLine)]


def _nested_symbols(lines: Iterable[BodyLine], rng: Random) -> dict[str, Number]:
    """Return some value in its range for each symbol that lines read from data."""
    symbols: dict[str, Number] = {}
    for line in walk_lines(lines):
        if isinstance(line, SymbolDefinitionLine) and isinstance(line.source, ItemOf):
            low = line.lower or 0
            high = low + _MOST if line.upper is None else line.upper
            symbols[line.symbol] = rng.randint(low, max(low, min(high, low + _MOST)))
    return symbols
