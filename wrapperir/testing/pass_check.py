"""Checks, on one program, that a memory pass preserves meaning and peaks.

A pass keeps a program valid, its results the same bit for bit, and its peak no higher, as
the analysis of :mod:`wrapperir.analysis` and the brute-force checker see it.
"""

from collections.abc import Iterable, Mapping
from random import Random

from attrs import frozen

from wrapperir.analysis import analyze_memory
from wrapperir.diagnostics import DiagnosticError
from wrapperir.ir import (
    BodyLine,
    ItemOf,
    Number,
    Program,
    Symbol,
    SymbolDefinitionLine,
    TensorType,
    WhileLoopLine,
)
from wrapperir.ir.blocks import walk_lines
from wrapperir.testing.inputs import difference, run_example
from wrapperir.testing.memory_check import memory_conflicts, peak_bytes
from wrapperir.verify import verify

_MOST = 8
"""Values above its lower bound of a symbol that a block reads from data."""


@frozen
class Behaviour:
    """The behaviour of a program on the example inputs of a seed.

    ``values`` are its outputs, its inputs as it left them, and its constants; ``symbols``
    the values of its symbols; ``peaks`` the peak bytes by the analysis and by the checker.
    ``faults`` are the messages of faults of the program itself.
    """

    values: tuple[object, ...]
    symbols: Mapping[str, Number]
    peaks: tuple[int, int]
    faults: tuple[str, ...]


def behaviour(
    program: Program, symbols: Mapping[str, Number] | None = None, seed: int = 0
) -> Behaviour:
    """Verify, run and analyze a program.

    Peaks are for the values ``symbols``; by default the values of the run, and values in
    their ranges for symbols that a block reads from data.
    """
    faults = tuple(f"{d.code.value}: {d.message}" for d in verify(program))
    try:
        run = run_example(program, seed)
    except DiagnosticError as error:
        return Behaviour((), symbols or {}, (0, 0), (*faults, str(error)))
    if symbols is None:
        symbols = {**_nested_symbols(program.lines, Random(seed)), **run.symbols}  # noqa: S311
    return Behaviour(
        (*run.outputs, *run.inputs, *run.constants.values()),
        symbols,
        (analyze_memory(program, symbols).peak, peak_bytes(program, symbols)),
        (*faults, *map(str, memory_conflicts(program, symbols))),
    )


def pass_faults(before: Behaviour, after: Behaviour) -> tuple[str, ...]:
    """Return messages about the faults of a pass.

    ``after`` is the behaviour of the pass's result, with the symbols of ``before``.
    """
    if after.faults:
        return after.faults
    faults = [
        f"value {number} {found}"
        for number, (old, new) in enumerate(zip(before.values, after.values, strict=True))
        if (found := difference(new, old)) is not None
    ]
    for what, old, new in zip(PEAKS, before.peaks, after.peaks, strict=True):
        if new > old:
            faults.append(f"the peak {what} rose from {old} to {new}: {before.symbols}")
    return tuple(faults)


PEAKS = ("of the analysis", "of the checker")


def _nested_symbols(lines: Iterable[BodyLine], rng: Random) -> dict[str, Number]:
    """Return some value in its range for each symbol that lines read from data.

    Lengths of stacks, which are the iterations of loops, have values from 1.
    """
    symbols: dict[str, Number] = {}
    for line in walk_lines(lines):
        if isinstance(line, WhileLoopLine):
            for stack in line.results[len(line.carried) :]:
                if isinstance(stack.type, TensorType):
                    length = stack.type.size[0]
                    assert isinstance(length, Symbol)  # verified
                    symbols[length.name] = rng.randint(1, _MOST)
        if isinstance(line, SymbolDefinitionLine) and isinstance(line.source, ItemOf):
            low = line.lower or 0
            high = low + _MOST if line.upper is None else line.upper
            symbols[line.symbol] = rng.randint(low, max(low, min(high, low + _MOST)))
    return symbols
