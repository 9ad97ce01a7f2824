"""Which lines write the bytes that a line reads."""

from collections.abc import Container, Iterable

from attrs import field, frozen

from wrapperir.ir import BodyLine, BufferRef, ExternKernelLine, Program
from wrapperir.ir.blocks import walk_places
from wrapperir.ir.effects import Effects, NestedBlock, Origin
from wrapperir.ir.line_effects import LineEffects
from wrapperir.ir.mentions import buffers_in

_SHARING = (Origin.VIEW, Origin.MOVED, Origin.ELEMENT)
"""Where the memory of a value is from, if it holds what its source held."""


@frozen
class LineFlow:
    """The flow of values between the lines of a program, of nested blocks too.

    Lines are indices in the order of the text.  ``sources`` has the lines that last wrote
    what a line reads, and ``views`` the lines whose views it reads that through.
    """

    lines: tuple[BodyLine, ...]
    effects: tuple[Effects, ...]
    sources: tuple[tuple[int, ...], ...]
    views: tuple[tuple[int, ...], ...]

    def readers(self) -> list[list[int]]:
        """Return the lines that read what each line wrote."""
        found: list[list[int]] = [[] for _ in self.lines]
        for reader, sources in enumerate(self.sources):
            for source in sources:
                found[source].append(reader)
        return found


def line_flow(program: Program) -> LineFlow:
    """Return the flow of values of a valid program, as if each block ran once.

    What has different names for one memory, such as views, is one value.  What an operator
    writes by keyword, as ``out``, it does not read.
    """
    effects_of = LineEffects.of_program(program)
    lines = tuple(line for line, _ in walk_places(program.lines))
    effects = tuple(map(effects_of.visit, lines))
    values = _Values()
    for index, done in enumerate(effects):
        values.enter(index, done, _written_only(lines[index]))
    return LineFlow(lines, effects, tuple(values.sources), tuple(values.views))


def _written_only(line: BodyLine) -> frozenset[str]:
    """Return the names that an operator is given to write its results to."""
    if not isinstance(line, ExternKernelLine):
        return frozenset()
    read = {name for argument in line.arguments for name in buffers_in(argument)}
    given = {name for _, argument in line.keywords for name in buffers_in(argument)}
    return frozenset(given.intersection(line.writes) - read)


@frozen
class _Values:
    """What is known of values so far: their memory, and what wrote it last."""

    sources: list[tuple[int, ...]] = field(factory=list[tuple[int, ...]])
    views: list[tuple[int, ...]] = field(factory=list[tuple[int, ...]])
    _roots: dict[str, str] = field(factory=dict[str, str])
    _viewed: dict[str, tuple[int, ...]] = field(factory=dict[str, tuple[int, ...]])
    _writers: dict[str, int] = field(factory=dict[str, int])

    def enter(self, line: int, done: Effects, written_only: Container[str]) -> None:
        """Add what a line reads, then what it defines and writes."""
        reads = (each.name for each in done.accesses if each.reads)
        read = [name for name in reads if name not in written_only]
        writers = (self._writers.get(self._root(name)) for name in read)
        self.sources.append(_each(x for x in writers if x is not None))
        self.views.append(_each(x for name in read for x in self._viewed.get(name, ())))
        for nested in done.blocks:
            self._enter_block(nested)
        for made in done.definitions:
            self._viewed.pop(made.name, None)
            self._roots[made.name] = made.name
            if made.source is not None and made.origin in _SHARING:
                self._roots[made.name] = self._root(made.source)
                own = (line,) if made.origin is Origin.VIEW else ()
                self._viewed[made.name] = (*self._viewed.get(made.source, ()), *own)
            elif made.origin in (Origin.OPERATOR, Origin.BLOCK):
                self._writers[made.name] = line
            else:
                self._writers.pop(made.name, None)
        for access in done.accesses:
            if access.writes:
                self._writers[self._root(access.name)] = line

    def _enter_block(self, nested: NestedBlock) -> None:
        for parameter, operand in zip(
            nested.block.parameters, nested.operands, strict=False
        ):
            if isinstance(operand, BufferRef):
                self._roots[parameter.name] = self._root(operand.name)
                self._viewed[parameter.name] = self._viewed.get(operand.name, ())

    def _root(self, name: str) -> str:
        return self._roots.get(name, name)


def _each(numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(numbers))
