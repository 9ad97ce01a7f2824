"""Traces of a program's memory: one for each way through its branches and loops.

Predicates are true or false, loops have no iteration or two; symbols have given values.
This shares only the effects of lines with the verifier, the analyses and the interpreter,
so that they can be tested against it.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod

from attrs import field, frozen

from wrapperir import ir as wir
from wrapperir.diagnostics import LinePath
from wrapperir.ir.effects import (
    Actor,
    Effects,
    NestedBlock,
    Origin,
    ValueDefinition,
)
from wrapperir.ir.line_effects import LineEffects
from wrapperir.testing.memory_trace import Trace, TracedMemory, TracedUse, TracedValue

MOST_CHOICES = 6
"""Predicates and loops whose ways are all tried; later ones go as the first ones did."""

TracedNames = dict[str, TracedValue]


def traces(
    program: wir.Program, symbols: Mapping[str, wir.Number], unit: int
) -> Iterator[Trace]:
    """Yield the ways through a program; bytes are rounded up to ``unit``.

    Raises:
        ValueError: a size or offset needs a symbol without a value.
    """
    first = _walk(program, symbols, Trace((), unit))
    yield first
    if first.asked:
        for choices in product((True, False), repeat=min(first.asked + 2, MOST_CHOICES)):
            yield _walk(program, symbols, Trace(choices, unit))


def _walk(program: wir.Program, given: Mapping[str, wir.Number], trace: Trace) -> Trace:
    """Walk a program and return the trace that was filled."""
    symbols = dict(given)

    def outside(path: LinePath, type: wir.ValueType) -> TracedValue:
        value = TracedValue((trace.begin(path, 0, counted=False),), type=type)
        trace.keep(value)
        return value

    names = {
        item.name: outside(("inputs", index), item.type)
        for index, item in enumerate(program.inputs)
    }
    constants = {
        item.name: outside(("constants", index), item.type)
        for index, item in enumerate(program.constants)
    }
    for line in program.symbols:
        _define_symbol(line, names, symbols)
    walk = _BlockWalk(LineEffects.of_program(program), trace, constants, names, symbols)
    for index, item in enumerate(program.inputs):
        if item.donated and isinstance(item.type, wir.TensorType):
            nbytes = walk.element_bytes(item.type)
            memory = trace.begin(("inputs", index), nbytes)
            names[item.name] = TracedValue((memory,), type=item.type)
            trace.keep(names[item.name])
    walk.lines(program.lines, ())
    return trace


_TURNS = (True, True, False)
"""The results of a loop's condition, where its body runs."""


@frozen(eq=False)
class _BlockWalk:
    """Walks the lines of one block."""

    effects: LineEffects
    trace: Trace
    constants: TracedNames
    names: TracedNames
    symbols: dict[str, wir.Number]
    region: tuple[wir.Stream, int] | None = None
    owned: dict[str, TracedValue] = field(factory=dict[str, TracedValue])

    def lines(self, lines: Sequence[wir.BodyLine], prefix: LinePath) -> None:
        """Walk lines."""
        for index, line in enumerate(lines):
            self.trace.time += 1
            self._line(line, (*prefix, "lines", index))

    def _line(self, line: wir.BodyLine, path: LinePath) -> None:
        effects = self.effects.visit(line)
        if effects.host_waits:
            self.trace.host_reads()
        if effects.blocks:
            returned = self._run_blocks(effects, path)
            for made, value in zip(effects.definitions, returned, strict=True):
                self._name(made.name, value.typed(made.type))
            return
        if isinstance(line, wir.SymbolDefinitionLine):
            _define_symbol(line, self.names | self.constants, self.symbols)
        node = 0
        if effects.stream is not None:
            event = () if effects.awaits is None else (self._value(effects.awaits).event,)
            node = self._node(path, effects.stream, *event)
        own = {made.name for made in effects.definitions}
        for access in effects.accesses:
            if access.name not in own and access.by is not Actor.HOST:
                self.trace.use(self._value(access.name), node, writes=access.writes)
        for made in effects.definitions:
            self._make(made, node, path)
        if effects.drops is not None and effects.drops in self.names:
            self.trace.drop(self._take(effects.drops))

    def _node(self, path: LinePath, stream: wir.Stream, *after: int) -> int:
        """Add a launch; a graph region has its own streams beside the one it is on."""
        if self.region is not None and stream != self.region[0]:
            stream = wir.Stream(stream.device, stream.number, self.region[1])
        return self.trace.node(path, stream, *after)

    def _make(self, made: ValueDefinition, node: int, path: LinePath) -> None:
        """Name a value that a line without blocks defines."""
        match made.origin:
            case Origin.ALLOCATED | Origin.POOL | Origin.PLACED:
                begun = self._begun(made, path)
                self._define(made.name, TracedValue((begun,), type=made.type))
            case Origin.PROGRAM:
                memory = self.trace.kept.get(path)
                if memory is None:  # it lives from one call to the next
                    nbytes = self._nbytes(made.type)
                    memory = self.trace.begin(path, nbytes, counted=False)
                    self.trace.kept[path] = memory
                    memory.names = 1
                self.names[made.name] = TracedValue((memory,), type=made.type)
            case Origin.OPERATOR:
                aliased = (m for n in made.may_alias for m in self._value(n).all())
                shared = tuple(aliased)
                value = self._result(made.type, shared, path)
                if not shared:
                    self.trace.use(value, node, writes=True)
                self._define(made.name, value)
            case Origin.VIEW:
                self._define(made.name, self._source(made).typed(made.type))
            case Origin.MOVED:
                value = self._take(made.source or "")
                for memory in value.memories:
                    memory.owner += 1
                self._name(made.name, value.typed(made.type))
            case Origin.ELEMENT:
                value = self._source(made)
                for index in made.indices:
                    value = value.elements[index]
                self._define(made.name, value)
            case Origin.NONE:
                self.names[made.name] = TracedValue(event=node)
            case Origin.BLOCK:
                raise AssertionError(made)

    def _begun(self, made: ValueDefinition, path: LinePath) -> TracedMemory:
        """Begin the memory of an allocation, pool or placement, zeroed if it is to be."""
        is_placed = made.origin is Origin.PLACED
        nbytes = self._nbytes(made.type)
        memory = self.trace.begin(path, nbytes, counted=not is_placed)
        memory.is_pool = isinstance(made.type, wir.PoolType)
        if is_placed:
            (pool,) = self._source(made).memories
            memory.pool = pool
            memory.offset = pool.offset + self._integer(made.offset)
            pool.names += 1
        if made.workspace is wir.ZeroMode.ZERO_ON_CALL:
            assert isinstance(made.type, wir.TensorType)
            node = self._node(path, wir.Stream(made.type.device))
            memory.uses.append(TracedUse(node, True, memory.owner))
        return memory

    def _result(
        self, type: wir.ValueType, shared: tuple[TracedMemory, ...], path: LinePath
    ) -> TracedValue:
        """Return an operator's result: of the memory that it may share, else of its own."""
        match type:
            case wir.TensorType():
                own = shared or (self.trace.begin(path, self._nbytes(type)),)
                return TracedValue(own, type=type)
            case wir.TupleType(elements):
                parts = tuple(self._result(t, shared, path) for t in elements)
                return TracedValue(elements=parts, type=type)
            case wir.ScalarType() | wir.OpaqueType() | wir.PoolType() | wir.EventType():
                return TracedValue(type=type)

    def _run_blocks(self, effects: Effects, path: LinePath) -> list[TracedValue]:
        """Walk the blocks that one way through the program runs; return their results."""
        first, *others = effects.blocks
        values = [self._operand(argument) for argument in first.operands]
        if first.repeats:
            body = others[0]
            turns = _TURNS if self.trace.choose() else (False,)
            # Parts of the stacks are there while the loop runs.
            stacks: list[TracedValue] = []
            for made in effects.definitions[len(body.block.results) :]:
                length = made.type.size[0] if isinstance(made.type, wir.TensorType) else 0
                if isinstance(length, wir.Symbol):
                    self.symbols.setdefault(length.name, max(sum(turns), 1))
                stacks.append(self._result(made.type, (), path))
            last = self._loop(first, body, values, turns, path, stacked=bool(stacks))
            for stack in stacks:
                self._fill(stack, path)
            return [*last, *stacks]
        taken = first if not others or self.trace.choose() else others[0]
        region = self.region
        if effects.stream is not None:
            region = effects.stream, self.trace.time
        return self._block(taken, path, values, region)

    def _loop(
        self,
        condition: NestedBlock,
        body: NestedBlock,
        values: list[TracedValue],
        turns: Sequence[bool],
        path: LinePath,
        *,
        stacked: bool,
    ) -> list[TracedValue]:
        """Walk a loop that carries the first values; ``turns`` say when its body runs.

        If it is ``stacked``, the values are read after each iteration.
        """
        count = len(body.block.results)
        previous: list[TracedValue] | None = None
        for iterates in turns:
            for value in self._block(condition, path, values, self.region):
                self.trace.drop(value)
            if condition.host_reads_result:
                self.trace.host_reads()
            if iterates:
                carried = self._block(body, path, values, self.region)
                values = [*carried, *values[count:]]
                for value in previous or ():
                    self.trace.drop(value)
                previous = carried
                if stacked:
                    node = self._node(path, wir.Stream(wir.CPU))
                    for value in carried:
                        self.trace.use(value, node, writes=False)
        return self._copies(values[:count], path) if previous is None else previous

    def _copies(self, values: Sequence[TracedValue], path: LinePath) -> list[TracedValue]:
        node = self._node(path, wir.Stream(wir.CPU))
        copies: list[TracedValue] = []
        for value in values:
            self.trace.use(value, node, writes=False)
            copies.append(self._written(value.type, path))
        return copies

    def _written(self, type: wir.ValueType | None, path: LinePath) -> TracedValue:
        """Return a new value with one name, written on stream 0."""
        made = TracedValue(type=type)
        if isinstance(type, wir.TensorType):
            made = self._result(type, (), path)
        self._fill(made, path)
        return made

    def _fill(self, value: TracedValue, path: LinePath) -> None:
        """Write a value on stream 0, and count its name."""
        self.trace.use(value, self._node(path, wir.Stream(wir.CPU)), writes=True)
        self.trace.keep(value)

    def _block(
        self,
        nested: NestedBlock,
        path: LinePath,
        values: Sequence[TracedValue],
        region: tuple[wir.Stream, int] | None,
    ) -> list[TracedValue]:
        """Walk a block and return its results, each with one more name."""
        block = nested.block
        names = {
            parameter.name: value.typed(parameter.type)
            for parameter, value in zip(block.parameters, values, strict=True)
        }
        inner = _BlockWalk(
            self.effects, self.trace, self.constants, names, dict(self.symbols), region
        )
        inner.lines(block.lines, (*path, nested.field))
        returned = [
            inner._value(result.name)
            if isinstance(result, wir.BufferRef)
            else TracedValue()
            for result in block.results
        ]
        for value in returned:
            self.trace.keep(value)
        for value in inner.owned.values():
            self.trace.drop(value)
        return returned

    def _operand(self, argument: wir.KernelArgument) -> TracedValue:
        return (
            self._value(argument.name)
            if isinstance(argument, wir.BufferRef)
            else TracedValue()
        )

    def _value(self, name: str) -> TracedValue:
        value = self.names.get(name)
        return self.constants[name] if value is None else value

    def _source(self, made: ValueDefinition) -> TracedValue:
        return self._value(made.source or "")

    def _define(self, name: str, value: TracedValue) -> None:
        """Name a value and count that name."""
        self._name(name, value)
        self.trace.keep(value)

    def _name(self, name: str, value: TracedValue) -> None:
        self.names[name] = self.owned[name] = value

    def _take(self, name: str) -> TracedValue:
        self.owned.pop(name, None)
        return self.names.pop(name)

    def _integer(self, expr: wir.Expr) -> int:
        try:
            return wir.evaluate_int(expr, self.symbols)
        except wir.EvaluationError as error:
            raise ValueError(str(error)) from None

    def element_bytes(self, type: wir.TensorType) -> int:
        """Return the bytes of a tensor's elements, without those between them."""
        return prod(self._integer(n) for n in type.size) * type.dtype.itemsize

    def _nbytes(self, type: wir.ValueType) -> int:
        if isinstance(type, wir.PoolType):
            return self._integer(type.size)
        assert isinstance(type, wir.TensorType)
        size = [self._integer(extent) for extent in type.size]
        if prod(size) == 0:
            return 0
        steps = zip(size, type.stride, strict=True)
        last = sum((n - 1) * self._integer(stride) for n, stride in steps)
        return (self._integer(type.offset) + last + 1) * type.dtype.itemsize


def _define_symbol(
    line: wir.SymbolDefinitionLine, names: TracedNames, symbols: dict[str, wir.Number]
) -> None:
    """Give a symbol its value, unless it has one or the value is not known."""
    if line.symbol in symbols:
        return
    expr = _source_expr(line, names)
    if expr is not None:
        try:
            symbols[line.symbol] = wir.evaluate(expr, symbols)
        except wir.EvaluationError:
            return  # a size that needs it says so


def _source_expr(line: wir.SymbolDefinitionLine, names: TracedNames) -> wir.Expr | None:
    source = line.source
    match source:
        case wir.ItemOf() | wir.ValueOf():
            return None
        case int() | float() | wir.Symbol() | wir.Operation():
            return source
        case wir.SizeOf() | wir.StrideOf() | wir.OffsetOf():
            type = names[source.buffer].type
            assert isinstance(type, wir.TensorType)
            if isinstance(source, wir.OffsetOf):
                return type.offset
            entries = type.size if isinstance(source, wir.SizeOf) else type.stride
            return entries[source.dim]
