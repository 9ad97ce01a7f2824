"""Programs without some of their lines."""

from collections.abc import Iterable, Iterator, Sequence

from attrs import evolve

from wrapperir.ir import (
    Argument,
    Block,
    BodyLine,
    BufferRef,
    FreeLine,
    Input,
    Program,
    ReuseLine,
    ScalarType,
    TensorType,
)
from wrapperir.ir.blocks import blocks_of, rewrite_blocks, walk_lines
from wrapperir.ir.effects import Effects
from wrapperir.ir.line_effects import LineEffects
from wrapperir.ir.mentions import argument_symbols, buffers_in, line_symbols

_EFFECTS = LineEffects(None)


def line_count(program: Program) -> int:
    """Return the number of lines, those of nested blocks included."""
    return sum(1 for _ in walk_lines(program.lines))


def without_lines(program: Program, first: int, last: int) -> Iterator[Program]:
    """Yield programs without the lines from number ``first`` to before ``last``.

    Lines count from 0 in the order of the text, nested ones included.  In the first
    program, what needs a removed line is gone too: other lines, and outputs; what a removed
    ``reuse`` takes is freed.  The second
    one has inputs for the values that removed lines defined and that others need, and the
    third may also write to these.  If no output is left, the last one returns all tensors
    that its lines define, and frees none of them.

    The programs need not be valid.
    """
    removal = _Removal(first, last, frozenset())
    lines = removal.apply(program.lines)
    outputs = tuple([each for each in program.outputs if not removal.loses(each)])
    yield evolve(program, lines=lines, outputs=outputs)
    yield from _with_inputs(program, first, last)
    if program.outputs and not outputs:
        yield _returning_all(program, lines)


def _with_inputs(program: Program, first: int, last: int) -> Iterator[Program]:
    types = {
        value.name: value.type
        for line in _outer_lines(program.lines, first, last)
        for value in _EFFECTS.visit(line).definitions
        if isinstance(value.type, TensorType | ScalarType)
    }
    if not types:
        return
    removal = _Removal(first, last, frozenset(types))
    lines = removal.apply(program.lines)
    outputs = tuple([each for each in program.outputs if not removal.loses(each)])
    needed = {name for line in lines for name in _EFFECTS.visit(line).uses}
    needed.update(name for each in outputs for name in buffers_in(each))
    names = [name for name in types if name in needed]
    for mutated in (False, True) if names else ():
        made = tuple([Input(name=n, type=types[n], mutated=mutated) for n in names])
        yield evolve(program, inputs=(*program.inputs, *made), lines=lines, outputs=outputs)


def _outer_lines(lines: Sequence[BodyLine], first: int, last: int) -> Iterator[BodyLine]:
    """Yield the lines of the program itself, not of blocks, with these numbers."""
    number = 0
    for line in lines:
        if first <= number < last:
            yield line
        number += _count(line)


def _count(line: BodyLine) -> int:
    return 1 + sum(1 for block in blocks_of(line) for _ in walk_lines(block.lines))


def _returning_all(program: Program, lines: Sequence[BodyLine]) -> Program:
    """Return the program with these lines, and all tensors that they define as outputs."""
    effects = [_EFFECTS.visit(line) for line in lines]
    defined = [v.name for e in effects for v in e.definitions if _is_tensor(v.type)]
    frees = [line.buffer for line in lines if isinstance(line, FreeLine)]
    taken = {e.drops for e in effects}.difference(frees)
    returned = {name: BufferRef(name) for name in defined if name not in taken}
    left = [x for x in lines if not (isinstance(x, FreeLine) and x.buffer in returned)]
    return evolve(program, lines=tuple(left), outputs=tuple(returned.values()))


def replace_line(
    lines: tuple[BodyLine, ...], old: BodyLine, new: tuple[BodyLine, ...]
) -> tuple[BodyLine, ...]:
    """Return lines with others in place of one, which may be in a nested block."""
    made: list[BodyLine] = []
    for line in lines:
        if line is old:
            made += new
        else:
            made.append(
                rewrite_blocks(
                    line,
                    lambda block: evolve(block, lines=replace_line(block.lines, old, new)),
                )
            )
    return tuple(made)


def _is_tensor(type: object) -> bool:
    return isinstance(type, TensorType)


class _Removal:
    """Removes lines by number, and those that need what is gone.

    What ``kept`` names stays, although the line that defined it does not.
    """

    def __init__(self, first: int, last: int, kept: frozenset[str]) -> None:
        self._first, self._last = first, last
        self._kept = kept
        self._number = 0
        self._values: set[str] = set()
        self._symbols: set[str] = set()

    def loses(self, argument: Argument) -> bool:
        """Return whether an argument needs what is gone."""
        return not (
            self._values.isdisjoint(buffers_in(argument))
            and self._symbols.isdisjoint(argument_symbols(argument))
        )

    def apply(self, lines: Iterable[BodyLine]) -> tuple[BodyLine, ...]:
        """Return the lines of the program that are left."""
        return self._rest(lines, self._values, self._kept)

    def _rest(
        self, lines: Iterable[BodyLine], gone: set[str], kept: frozenset[str]
    ) -> tuple[BodyLine, ...]:
        left: list[BodyLine] = []
        for line in lines:
            number = self._number
            effects = _EFFECTS.visit(line)
            if self._first <= number < self._last or self._needs(line, effects, gone):
                self._number += _count(line)
                if isinstance(line, ReuseLine) and line.source not in gone | kept:
                    left.append(FreeLine(buffer=line.source))
                gone.update(v.name for v in effects.definitions if v.name not in kept)
                if effects.symbol is not None:
                    self._symbols.add(effects.symbol)
                continue
            self._number += 1
            if not (isinstance(line, FreeLine) and line.buffer in kept):
                left.append(rewrite_blocks(line, self._block))
        return tuple(left)

    def _needs(self, line: BodyLine, effects: Effects, gone: set[str]) -> bool:
        return not (
            gone.isdisjoint(effects.uses)
            and effects.drops not in gone
            and self._symbols.isdisjoint(line_symbols(line))
        )

    def _block(self, block: Block) -> Block:
        return evolve(block, lines=self._rest(block.lines, set(), frozenset()))
