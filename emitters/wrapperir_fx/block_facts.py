"""Constants and symbols that nested blocks use, and the memory that loops carry."""

import functools
from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

from wrapperir.emit.context import ProgramFacts
from wrapperir.ir import Block, BodyLine, BufferRef, TensorType
from wrapperir.ir.blocks import blocks_of
from wrapperir.ir.effects import Origin
from wrapperir.ir.line_effects import LineEffects, uses
from wrapperir.ir.mentions import (
    argument_symbols,
    buffers_in,
    line_symbols,
    type_symbols,
)

Roots = frozenset[str]
"""Names of the values that memory may have begun as."""

_EFFECTS = LineEffects(None)


@frozen
class _OuterNames:
    """Constants, and the symbols of types and expressions, whoever defines them."""

    constants: frozenset[str]
    symbols: frozenset[str]


class BlockNeeds:
    """The constants and symbols that blocks of a program use, in nested blocks too."""

    def __init__(self, facts: ProgramFacts) -> None:
        """Start with no block examined."""
        self._constants: Mapping[str, TensorType] = {
            constant.name: constant.type for constant in facts.program.constants
        }
        self._facts = facts
        self._known: dict[int, _OuterNames] = {}

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
        return {name: place for place, name in enumerate(self._facts.symbols)}

    def _of(self, block: Block) -> _OuterNames:
        known = self._known.get(id(block))
        if known is None:
            known = self._known[id(block)] = self._find(block)
        return known

    def _find(self, block: Block) -> _OuterNames:
        inner = [self._of(nested) for line in block.lines for nested in blocks_of(line)]
        names = {name for line in block.lines for name in uses(line)}
        names.update(buffers_in(block.results))
        own = frozenset(self._constants.keys() & names)
        types = [item.type for item in block.parameters]
        types += [self._constants[name] for name in own]
        symbols = {*argument_symbols(block.results)}
        symbols.update(*map(type_symbols, types), *map(line_symbols, block.lines))
        return _OuterNames(
            own.union(*(needs.constants for needs in inner)),
            frozenset(symbols).union(*(needs.symbols for needs in inner)),
        )


def carried_roots(body: Block, given: Sequence[Roots]) -> list[Roots]:
    """Return the roots of the memory that each parameter of a loop's body may have.

    ``given`` are the roots of what the first iteration is given.  A value of one iteration
    may be a parameter of the next.
    """
    places = {item.name: place for place, item in enumerate(body.parameters)}
    viewed = _Viewed()
    for line in body.lines:
        viewed.add(line)
    returned = [
        viewed[item.name] if isinstance(item, BufferRef) else Roots()
        for item in body.results
    ]
    found, before = list(given), None
    while found != before:
        before = list(found)
        for place, names in enumerate(returned):
            for name in names:
                if name in places:
                    found[place] |= found[places[name]]
                else:  # of this iteration it is other memory, or a constant
                    found[place] |= {f"{name} before" if name in viewed.made else name}
    return found


class _Viewed(dict[str, Roots]):
    """The values that each value of a block may view; others view themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.made: set[str] = set()

    def __missing__(self, name: str) -> Roots:
        return Roots((name,))

    def add(self, line: BodyLine) -> None:
        """Add the values that a line defines."""
        effects = _EFFECTS.visit(line)
        for made in effects.definitions:
            sources = made.may_alias if made.source is None else (made.source,)
            own = Roots()
            if made.origin is Origin.BLOCK:  # views of an operand, or of what a block made
                sources, own = effects.uses, Roots((effects.definitions[0].name,))
            self.made.add(made.name)
            self[made.name] = own.union(*(self[name] for name in sources)) or Roots(
                (made.name,)
            )
