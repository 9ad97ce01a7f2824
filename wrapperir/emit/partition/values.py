"""The values of a program as a partition sees them: first names, makers, shared memory."""

from collections.abc import Iterable

from attrs import frozen

from wrapperir import ir as wir
from wrapperir.analysis import find_storages, program_entry
from wrapperir.analysis.sharing import Sharing
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.effects import Effects, Origin
from wrapperir.ir.line_effects import LineEffects
from wrapperir.ir.mentions import line_symbols, type_symbols

_FLOATING = frozenset({Origin.ALLOCATED, Origin.PROGRAM, Origin.VIEW, Origin.MOVED})


def is_floating(effects: Effects) -> bool:
    """Say whether a line only allocates, names or drops memory, orders streams or remarks.

    A part makes such lines anew where its other lines need them.
    """
    return (
        effects.drops is not None
        or effects.records is not None
        or effects.awaits is not None
        or any(made.origin in _FLOATING for made in effects.definitions)
        or not (effects.uses or effects.definitions or effects.symbol or effects.may_fail)
    )


@frozen
class Described:
    """The values of a program.

    Attributes:
        program: The program, without pools.
        effects: The effects of each of its own lines.
        uses: The values that each line uses, constants in its blocks included.
        symbols: The symbols that each line needs to be known, in its blocks too.
        types: The type of each value.
        bases: For a view, or a name that was moved, the first name of its storage; for
            other values, the value itself.
        makers: The line that makes a base; inputs and constants have none.
        named: The line that defines each value.
        symbol_makers: The line that defines each symbol that a line defines.
        groups: For a base that may share memory with another, one of these bases.
        several: The bases of ``groups`` that stand for more than one.
    """

    program: wir.Program
    effects: list[Effects]
    uses: list[tuple[str, ...]]
    symbols: list[frozenset[str]]
    types: dict[str, wir.ValueType]
    bases: dict[str, str]
    makers: dict[str, int]
    named: dict[str, int]
    symbol_makers: dict[str, int]
    groups: dict[str, str]
    several: frozenset[str]

    def group(self, name: str) -> str:
        """Return the same for all names that may share memory."""
        base = self.bases[name]
        return self.groups.get(base, base)

    def is_alone(self, base: str) -> bool:
        """Say whether no value with another first name may share the memory of ``base``."""
        return self.group(base) not in self.several


def describe(program: wir.Program) -> Described:
    """Return the values of a verified program without pools; linear in the program."""
    visitor = LineEffects.of_program(program)
    effects = [visitor.visit(line) for line in program.lines]
    given: list[wir.Input | wir.ConstantInput] = [*program.inputs, *program.constants]
    types: dict[str, wir.ValueType] = {each.name: each.type for each in given}
    bases = {name: name for name in types}
    makers: dict[str, int] = {}
    named: dict[str, int] = {}
    symbol_makers: dict[str, int] = {}
    for index, found in enumerate(effects):
        for made in found.definitions:
            types[made.name] = made.type
            named[made.name] = index
            if made.origin in (Origin.VIEW, Origin.MOVED) and made.source is not None:
                bases[made.name] = bases[made.source]
            else:
                bases[made.name] = made.name
                makers[made.name] = index
        if found.symbol is not None:
            symbol_makers[found.symbol] = index
    constants = frozenset(constant.name for constant in program.constants)
    needed = [
        _line_needs(line, found, types, constants)
        for line, found in zip(program.lines, effects, strict=True)
    ]
    groups, several = _shared_memory(program, visitor, types, bases)
    return Described(
        program=program,
        effects=effects,
        uses=[uses for uses, _ in needed],
        symbols=[symbols for _, symbols in needed],
        types=types,
        bases=bases,
        makers=makers,
        named=named,
        symbol_makers=symbol_makers,
        groups=groups,
        several=several,
    )


def _line_needs(
    line: wir.BodyLine,
    effects: Effects,
    types: dict[str, wir.ValueType],
    constants: frozenset[str],
) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the values that a line uses, and the symbols that it needs."""
    uses = list(effects.uses)
    symbols: set[str] = set(line_symbols(line))
    own: set[str] = set()
    if effects.blocks:
        visitor = LineEffects(None)
        for inner in walk_lines([line]):
            symbols.update(line_symbols(inner))
            found = visitor.visit(inner)
            uses += [name for name in found.uses if name in constants]
            if found.symbol is not None:
                own.add(found.symbol)
            for nested in found.blocks:
                for item in nested.block.parameters:
                    symbols.update(type_symbols(item.type))
                for result in nested.block.results:
                    symbols.update(result_symbols(result))
    return tuple(dict.fromkeys(uses)), frozenset(symbols - own)


def result_symbols(result: wir.Argument) -> Iterable[str]:
    """Return the symbols in a result of a block or an output."""
    return wir.symbols_in(result) if isinstance(result, wir.Symbol | wir.Operation) else ()


def _shared_memory(
    program: wir.Program,
    visitor: LineEffects,
    types: dict[str, wir.ValueType],
    bases: dict[str, str],
) -> tuple[dict[str, str], frozenset[str]]:
    """Return the group of each base that may share memory, and the groups of several."""
    found = find_storages(program.lines, program.outputs, program_entry(program), visitor)
    sharing = Sharing()
    first: dict[int, str] = {}
    for name, storages in found.of_name.items():
        if bases[name] != name or isinstance(types[name], wir.TupleType):
            continue
        for storage in storages:
            sharing.join(first.setdefault(id(storage), name), (name,))
    groups = {name: sharing.group(name) for name in bases.values()}
    several = frozenset(group for name, group in groups.items() if group != name)
    return groups, several
