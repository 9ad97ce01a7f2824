"""The parts of a cut that make, use, return and free each value."""

from attrs import define, field

from wrapperir import ir as wir
from wrapperir.analysis import order_streams
from wrapperir.emit.partition.cut import Cut
from wrapperir.emit.partition.values import Described
from wrapperir.ir.effects import Origin
from wrapperir.ir.line_effects import value_names


@define
class Places:
    """Facts of a cut that the programs of its parts are built from.

    Attributes:
        lines: The lines of each part, in order: those that are placed, and its events.
        first: The first part that uses each storage, by the storage's first name.
        last: The last part that does.
        returned: The part that returns each value that is an output of the program.
        outputs: The keys of the program's outputs in a plan.
        freed: The inputs that the program frees.
        owned: Storages of the program's own.
        writable: Inputs and constants that it may write.
        symbols: The definition of each symbol of the program.
        names: Names that the program does not have.
    """

    values: Described
    cut: Cut
    lines: list[list[int]] = field(init=False)
    first: dict[str, int] = field(factory=dict[str, int])
    last: dict[str, int] = field(factory=dict[str, int])
    returned: dict[str, int] = field(factory=dict[str, int])
    outputs: list[str] = field(factory=list[str])
    freed: frozenset[str] = field(init=False)
    owned: frozenset[str] = field(init=False)
    writable: frozenset[str] = field(init=False)
    inputs: dict[str, wir.Input] = field(init=False)
    constants: dict[str, wir.ConstantInput] = field(init=False)
    symbols: dict[str, wir.SymbolDefinitionLine] = field(init=False)
    names: wir.FreshNames = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Find all facts."""
        values, program = self.values, self.values.program
        self.lines = [[] for _ in self.cut.sides]
        for index, part in sorted({**self.cut.parts, **self._event_parts()}.items()):
            self.lines[part].append(index)
            if index in self.cut.parts:
                made = [made.name for made in values.effects[index].definitions]
                for name in (*values.uses[index], *made):
                    self._touch(values.bases[name], part)
        self._find_outputs()
        inputs = {each.name: each for each in program.inputs}
        self.inputs = inputs
        self.freed = frozenset(
            found.drops
            for found in values.effects
            if found.drops in inputs and not found.definitions
        )
        donated = {each.name for each in program.inputs if each.donated}
        self.owned = frozenset(donated | values.makers.keys())
        given: list[wir.Input | wir.ConstantInput]
        given = [*program.inputs, *program.constants]
        self.writable = frozenset(each.name for each in given if each.mutated)
        self.constants = {each.name: each for each in program.constants}
        own = [x for x in program.lines if isinstance(x, wir.SymbolDefinitionLine)]
        self.symbols = {line.symbol: line for line in (*program.symbols, *own)}
        self.names = wir.FreshNames(value_names(program))

    def _event_parts(self) -> dict[int, int]:
        """Return the part of each event that orders streams within a part.

        A part begins after all streams of the parts before it, so that no event is needed
        between parts.  Where streams matter, parts are runs of lines.
        """
        values = self.values
        if order_streams(values.effects).is_trivial:
            return {}
        parts: dict[int, int] = {}
        recorded: dict[str, int] = {}
        part = 0
        for index, found in enumerate(values.effects):
            part = self.cut.parts.get(index, part)
            if found.records is not None:
                parts[index] = recorded[found.records] = part
            elif found.awaits is not None and recorded.get(found.awaits) == part:
                parts[index] = part
        return parts

    def _touch(self, base: str, part: int) -> None:
        self.first[base] = min(part, self.first.get(base, part))
        self.last[base] = max(part, self.last.get(base, part))

    def _find_outputs(self) -> None:
        for number, output in enumerate(self.values.program.outputs):
            if not isinstance(output, wir.BufferRef):
                self.outputs.append(f"={number}")
                continue
            name, base = output.name, self.values.bases[output.name]
            self.outputs.append(key_of(name))
            if base not in self.last:
                if base == name and base not in self.values.makers:
                    continue  # an input or a constant that no part uses
                self._touch(base, len(self.cut.sides) - 1)
            self.returned[name] = self.last[base]

    def is_kept(self, base: str) -> bool:
        """Say whether a storage is a workspace that the program keeps zeroed.

        Each part that uses it has one of its own.
        """
        index = self.values.makers.get(base)
        made = () if index is None else self.values.effects[index].definitions
        return any(each.origin is Origin.PROGRAM for each in made)

    def arrives(self, base: str, part: int) -> bool:
        """Say whether a part is given a storage."""
        if base in self.constants or self.is_kept(base):
            return False
        return base not in self.values.makers or self.first[base] < part

    def is_donated(self, base: str, part: int) -> bool:
        """Say whether a part is given a storage for good."""
        type = self.values.types[base]
        if self.last[base] != part or base not in self.owned:
            return False
        if not isinstance(type, wir.TensorType) or not self.values.is_alone(base):
            return False
        return base not in self.values.makers or wir.is_dense(type)

    def frees(self, base: str, part: int) -> bool:
        """Say whether a part frees a storage, unless it returns it."""
        type = self.values.types[base]
        if isinstance(type, wir.ScalarType | wir.EventType) or self.last[base] != part:
            return False
        if base in self.constants or self.is_kept(base):
            return False
        is_own = not self.arrives(base, part) or self.is_donated(base, part)
        return is_own or base in self.freed


def key_of(name: str) -> str:
    """Return the key of a value in a plan."""
    return f"%{name}"
