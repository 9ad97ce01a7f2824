"""The order that the lines of a program must keep."""

from attrs import define, field, frozen

from wrapperir import ir as wir
from wrapperir.analysis import order_streams
from wrapperir.emit.partition.values import Described, is_floating
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.effects import Origin
from wrapperir.ir.line_effects import LineEffects
from wrapperir.ir.mentions import source_buffer, type_symbols
from wrapperir.ir.recordable_operators import RANDOM_OPERATORS
from wrapperir.ir.storage_operators import may_keep

_EFFECTS = LineEffects(None)


@frozen
class LineOrder:
    """The lines that a partition places, and the order between them.

    Attributes:
        placed: The lines that run in one part each, in the program's order.
        anchors: The line whose part a line is in: of an element of a tuple, or of a symbol
            that is read from an operator's result, the call; of others, the line itself.
        before: For each line that is its own anchor, lines that must come first.
        effects: The lines whose effects callers see; they keep their order.
    """

    placed: tuple[int, ...]
    anchors: dict[int, int]
    before: dict[int, tuple[int, ...]]
    effects: frozenset[int]


def order_lines(values: Described, allocated_apart: frozenset[int]) -> LineOrder:
    """Return the order of a program's lines; linear in its accesses.

    A line comes after those that write what it reads, and after those that read what it
    writes.  Lines whose effects callers see keep their order: checks, writes to memory of
    the caller, random numbers, and operators that other libraries define.  Where work is on
    several streams of a device, all lines keep their order.  ``allocated_apart`` are
    allocations that are placed as other lines are.
    """
    finder = _OrderFinder(values)
    for index in range(len(values.program.lines)):
        if index in allocated_apart or not is_floating(values.effects[index]):
            finder.take(index)
    return LineOrder(
        placed=tuple(finder.placed),
        anchors=finder.anchors,
        before={line: tuple(before) for line, before in finder.before.items()},
        effects=frozenset(finder.seen),
    )


@define
class _OrderFinder:
    values: Described
    placed: list[int] = field(factory=list[int])
    anchors: dict[int, int] = field(factory=dict[int, int])
    before: dict[int, dict[int, None]] = field(factory=dict[int, dict[int, None]])
    seen: list[int] = field(factory=list[int])
    """Lines whose effects callers see, so far."""
    writers: dict[str, int] = field(factory=dict[str, int])
    """The last line that wrote each group of values that may share memory."""
    readers: dict[str, list[int]] = field(factory=dict[str, list[int]])
    """The lines that read it since."""
    previous: int | None = None
    """The last line that is its own anchor."""
    keeps_all: bool = field(init=False)
    """Whether all lines keep their order."""
    callers: frozenset[str] = field(init=False)
    """Groups of memory that callers see."""

    def __attrs_post_init__(self) -> None:
        values, program = self.values, self.values.program
        self.keeps_all = not order_streams(values.effects).is_trivial
        given: list[wir.Input | wir.ConstantInput]
        given = [*program.inputs, *program.constants]
        self.callers = frozenset(values.group(x.name) for x in given if x.mutated)

    def take(self, index: int) -> None:
        """Note a line that is placed, and what it comes after."""
        anchor = self.anchors[index] = self._anchor(index)
        self.placed.append(index)
        before = self.before.setdefault(anchor, {})
        if anchor != index:
            return
        self._need_values(index, before)
        self._order_accesses(index, before)
        if self._is_seen(index):
            if self.seen:
                self._add(before, index, self.seen[-1])
            self.seen.append(index)
        if self.keeps_all and self.previous is not None:
            before[self.previous] = None
        self.previous = index

    def _anchor(self, index: int) -> int:
        """Return the call that a line tells an element or a size of."""
        (line, effects) = self.values.program.lines[index], self.values.effects[index]
        source: str | None = None
        if isinstance(line, wir.SymbolDefinitionLine):
            if not isinstance(line.source, wir.ItemOf):
                source = source_buffer(line.source)
        elif any(made.origin is Origin.ELEMENT for made in effects.definitions):
            (source,) = effects.uses
        maker = None if source is None else self.values.makers.get(source)
        return index if maker is None else self.anchors.get(maker, index)

    def _add(self, before: dict[int, None], index: int, other: int) -> None:
        anchor = self.anchors[other]
        if anchor != index:
            before[anchor] = None

    def _need_values(self, index: int, before: dict[int, None]) -> None:
        values = self.values
        symbols = set(values.symbols[index])
        for name in values.uses[index]:
            base = values.bases[name]
            maker = values.makers.get(base)
            if maker is not None and maker in self.anchors:
                self._add(before, index, maker)
            symbols.update(type_symbols(values.types[name]))
            symbols.update(type_symbols(values.types[base]))
        for symbol in symbols:
            maker = values.symbol_makers.get(symbol)
            if maker is not None and maker < index:  # else a size that only the call tells
                self._add(before, index, maker)

    def _order_accesses(self, index: int, before: dict[int, None]) -> None:
        written: dict[str, bool] = {}
        for access in self.values.effects[index].accesses:
            group = self.values.group(access.name)
            written[group] = written.get(group, False) or access.writes
        for group, writes in written.items():
            if group in self.writers:
                self._add(before, index, self.writers[group])
            if not writes:
                self.readers.setdefault(group, []).append(index)
                continue
            for reader in self.readers.pop(group, ()):
                self._add(before, index, reader)
            self.writers[group] = index

    def _is_seen(self, index: int) -> bool:
        """Say whether callers see the effects of a line."""
        effects, line = self.values.effects[index], self.values.program.lines[index]
        writes = (self.values.group(a.name) for a in effects.accesses if a.writes)
        if any(group in self.callers for group in writes):
            return True
        return any(_is_seen(inner) for inner in walk_lines([line]))


def _is_seen(line: wir.BodyLine) -> bool:
    """Say whether a line checks something, or calls an operator with effects of its own."""
    if isinstance(line, wir.ExternKernelLine):
        parts = line.operator.split(".")
        returns = line.result is not None or bool(line.writes)
        return parts[1] in RANDOM_OPERATORS or may_keep(line.operator) or not returns
    if isinstance(line, wir.SymbolDefinitionLine):
        return line.lower is not None or line.upper is not None
    found = _EFFECTS.visit(line)
    return found.may_fail and not (found.launches or found.blocks)
