"""Which constants and symbols of its surroundings a block uses."""

import functools
from collections.abc import Iterable, Iterator, Mapping

from attrs import frozen

from wrapperir.ir.blocks import blocks_of, walk_lines
from wrapperir.ir.effects import uses
from wrapperir.ir.expr import Operation, Symbol
from wrapperir.ir.line import (
    AllocateLine,
    AllocatePoolLine,
    Argument,
    AssertScalarLine,
    AssertSizeStrideLine,
    Block,
    BodyLine,
    ConditionalLine,
    ExternKernelLine,
    KernelCallLine,
    MultiOutputLine,
    PlaceLine,
    ReinterpretLine,
    Result,
    ReuseLine,
    SubgraphCallLine,
    SymbolDefinitionLine,
    WhileLoopLine,
)
from wrapperir.ir.mentions import argument_symbols, buffers_in, type_symbols
from wrapperir.ir.program import Program
from wrapperir.ir.types import TensorType, ValueType


@frozen
class _Needs:
    """Constants, and the symbols of types and expressions, whoever defines them."""

    constants: frozenset[str]
    symbols: frozenset[str]


class BlockNeeds:
    """What blocks use, those nested in them included; each block is looked at once."""

    def __init__(self, program: Program) -> None:
        """Know the constants and symbols of ``program``, whose blocks are asked for."""
        self._constants: Mapping[str, TensorType] = {
            constant.name: constant.type for constant in program.constants
        }
        self._program = program
        self._known: dict[int, _Needs] = {}

    def constants(self, blocks: Iterable[Block]) -> list[str]:
        """Return the constants that blocks use, in the order of their definitions."""
        used = {name for block in blocks for name in self._of(block).constants}
        return sorted(used, key=self._constant_places.__getitem__)

    def symbols(self, blocks: Iterable[Block]) -> list[str]:
        """Return the symbols that blocks use, their own too, in the order of definition."""
        used = {name for block in blocks for name in self._of(block).symbols}
        return sorted(used, key=self._symbol_places.__getitem__)

    @functools.cached_property
    def _constant_places(self) -> Mapping[str, int]:
        return {name: place for place, name in enumerate(self._constants)}

    @functools.cached_property
    def _symbol_places(self) -> Mapping[str, int]:
        lines = (*self._program.symbols, *walk_lines(self._program.lines))
        names = [line.symbol for line in lines if isinstance(line, SymbolDefinitionLine)]
        return {name: place for place, name in enumerate(names)}

    def _of(self, block: Block) -> _Needs:
        known = self._known.get(id(block))
        if known is None:
            known = self._known[id(block)] = self._find(block)
        return known

    def _find(self, block: Block) -> _Needs:
        inner = [self._of(nested) for line in block.lines for nested in blocks_of(line)]
        names = {name for line in block.lines for name in uses(line)}
        names.update(buffers_in(block.results))
        own = frozenset(self._constants.keys() & names)
        types = [self._constants[name] for name in own]
        symbols = frozenset(_block_symbols(block)).union(*map(type_symbols, types))
        return _Needs(
            own.union(*(needs.constants for needs in inner)),
            symbols.union(*(needs.symbols for needs in inner)),
        )


def _block_symbols(block: Block) -> Iterator[str]:
    for parameter in block.parameters:
        yield from type_symbols(parameter.type)
    for line in block.lines:
        arguments, types = _mentioned(line)
        yield from argument_symbols(arguments)
        for type in types:
            yield from type_symbols(type)
    yield from argument_symbols(block.results)


def _mentioned(line: BodyLine) -> tuple[tuple[Argument, ...], tuple[ValueType, ...]]:
    """Return the arguments and types of a line, those in its blocks left out."""
    match line:
        case AllocateLine() | AllocatePoolLine() | ReuseLine() | ReinterpretLine():
            return (), (line.type,)
        case MultiOutputLine():
            return (), (line.type,)
        case PlaceLine():
            return (line.offset,), (line.type,)
        case KernelCallLine():
            return line.arguments, ()
        case ExternKernelLine():
            types = () if line.type is None else (line.type,)
            return (*line.arguments, *(value for _, value in line.keywords)), types
        case SymbolDefinitionLine(source=Symbol() | Operation() as source):
            return (source,), ()
        case AssertSizeStrideLine():
            return (line.size, line.stride), ()
        case AssertScalarLine():
            return (line.condition,), ()
        case ConditionalLine():
            return (line.predicate, *line.operands), _types(line.results)
        case WhileLoopLine():
            return (*line.carried, *line.invariant), _types(line.results)
        case SubgraphCallLine():
            return line.operands, _types(line.results)
        case _:
            return (), ()


def _types(results: tuple[Result, ...]) -> tuple[ValueType, ...]:
    return tuple([result.type for result in results])
