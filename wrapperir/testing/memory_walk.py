"""Walks a program's lines and says what they do to memory, path by path.

Predicates are true or false, loops have no iteration or two; symbols have given values.
This shares no code with the verifier, the analyses or the interpreter, so that they can be
held against it.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod

from attrs import field, frozen

from wrapperir.diagnostics import LinePath
from wrapperir.ir import (
    CPU,
    AllocateLine,
    AllocatePoolLine,
    AssertAlignmentLine,
    AssertNotNanLine,
    AssertScalarLine,
    AssertSizeStrideLine,
    Block,
    BodyLine,
    BufferRef,
    CommentLine,
    ConditionalLine,
    Device,
    EvaluationError,
    EventType,
    Expr,
    ExternKernelLine,
    FreeLine,
    ItemOf,
    KernelArgument,
    KernelCallLine,
    MultiOutputLine,
    Number,
    OffsetOf,
    OpaqueType,
    Operation,
    PlaceLine,
    PoolType,
    Program,
    RecordEventLine,
    ReinterpretLine,
    Result,
    ReuseLine,
    ScalarType,
    SizeOf,
    StrideOf,
    SubgraphCallLine,
    Symbol,
    SymbolDefinitionLine,
    TensorParameter,
    TensorType,
    TupleType,
    ValueOf,
    ValueType,
    WaitEventLine,
    WhileLoopLine,
    ZeroMode,
    evaluate,
    evaluate_int,
    runtime_parameters,
)
from wrapperir.ir.mentions import buffers_in
from wrapperir.testing.memory_trace import Trace, TracedMemory, TracedUse, TracedValue

MOST_CHOICES = 6
"""Predicates and loops whose ways are all tried; later ones go as the first ones did."""

Names = dict[str, TracedValue]


def traces(program: Program, symbols: Mapping[str, Number], unit: int) -> Iterator[Trace]:
    """Yield the ways through a program; bytes are rounded up to ``unit``.

    Raises:
        ValueError: a size or offset needs a symbol without a value.
    """
    first = _walk(program, symbols, Trace((), unit))
    yield first
    if first.asked:
        for choices in product((True, False), repeat=min(first.asked + 2, MOST_CHOICES)):
            yield _walk(program, symbols, Trace(choices, unit))


def _walk(program: Program, given: Mapping[str, Number], trace: Trace) -> Trace:
    """Walk a program and return the trace that was filled."""
    symbols = dict(given)
    names = {
        item.name: _outside(trace, ("inputs", index), item.type)
        for index, item in enumerate(program.inputs)
    }
    constants = {
        item.name: _outside(trace, ("constants", index), item.type)
        for index, item in enumerate(program.constants)
    }
    for line in program.symbols:
        _define_symbol(line, names, symbols)
    _Walk(program, trace, constants, names, symbols).lines(program.lines, ())
    return trace


def _outside(trace: Trace, path: LinePath, type: ValueType) -> TracedValue:
    value = TracedValue((trace.begin(path, 0, counted=False),), type=type)
    trace.keep(value)
    return value


@frozen(eq=False)
class _Walk:
    """Walks the lines of one block."""

    program: Program
    trace: Trace
    constants: Names
    names: Names
    symbols: dict[str, Number]
    owned: dict[str, TracedValue] = field(factory=dict[str, TracedValue])

    def lines(self, lines: Sequence[BodyLine], prefix: LinePath) -> None:
        """Walk lines."""
        for index, line in enumerate(lines):
            self.trace.time += 1
            self._line(line, (*prefix, "lines", index))

    def _line(self, line: BodyLine, path: LinePath) -> None:
        match line:
            case AllocateLine():
                self._allocate(line, path)
            case AllocatePoolLine():
                memory = self.trace.begin(path, self._nbytes(line.type))
                memory.is_pool = True
                self._define(line.result, TracedValue((memory,), type=line.type))
            case PlaceLine():
                self._place(line, path)
            case FreeLine():
                self.trace.drop(self._take(line.buffer))
            case ReuseLine():
                memories = self._take(line.source).memories
                for memory in memories:
                    memory.owner += 1
                self._name(line.result, TracedValue(memories, type=line.type))
            case ReinterpretLine():
                memories = self._value(line.source).memories
                self._define(line.result, TracedValue(memories, type=line.type))
            case KernelCallLine():
                self._call(line, path)
            case ExternKernelLine():
                self._extern(line, path)
            case MultiOutputLine():
                value = self._value(line.source)
                for index in line.indices:
                    value = value.elements[index]
                self._define(line.result, value)
            case RecordEventLine():
                event = self.trace.node(path, line.device, line.stream)
                self.names[line.result] = TracedValue(event=event)
            case WaitEventLine():
                event = self._value(line.event).event
                self.trace.node(path, line.device, line.stream, event)
            case SymbolDefinitionLine():
                if isinstance(line.source, ItemOf):
                    self.trace.host_reads()
                _define_symbol(line, self.names | self.constants, self.symbols)
            case AssertNotNanLine():
                self.trace.host_reads()
            case ConditionalLine():
                self._conditional(line, path)
            case WhileLoopLine():
                self._while(line, path)
            case SubgraphCallLine():
                values = [self._operand(a) for a in line.operands]
                self._finish(line.results, self._block(line.body, "body", path, values))
            case (
                AssertSizeStrideLine()
                | AssertAlignmentLine()
                | AssertScalarLine()
                | CommentLine()
            ):
                pass

    def _allocate(self, line: AllocateLine, path: LinePath) -> None:
        trace, nbytes = self.trace, self._nbytes(line.type)
        if line.workspace is ZeroMode.ZERO_PER_PROGRAM:
            memory = trace.kept.get(path)
            if memory is None:  # it is there in the next call, from the beginning on
                memory = trace.kept[path] = trace.begin(path, nbytes, counted=False)
                memory.names = 1
            self.names[line.result] = TracedValue((memory,), type=line.type)
            return
        memory = trace.begin(path, nbytes)
        self._define(line.result, TracedValue((memory,), type=line.type))
        self._zero(memory, line.workspace, line.type.device, path)

    def _place(self, line: PlaceLine, path: LinePath) -> None:
        (pool,) = self._value(line.pool).memories
        memory = self.trace.begin(path, self._nbytes(line.type), counted=False)
        memory.pool, memory.is_pool = pool, isinstance(line.type, PoolType)
        memory.offset = pool.offset + self._integer(line.offset)
        pool.names += 1
        self._define(line.result, TracedValue((memory,), type=line.type))
        self._zero(memory, line.workspace, line.type.device, path)

    def _zero(
        self, memory: TracedMemory, mode: ZeroMode | None, device: Device, path: LinePath
    ) -> None:
        if mode is ZeroMode.ZERO_ON_CALL:
            node = self.trace.node(path, device, 0)
            memory.uses.append(TracedUse(node, True, memory.owner))

    def _call(self, line: KernelCallLine, path: LinePath) -> None:
        node = self.trace.node(path, line.device, line.stream)
        (definition,) = (d for d in self.program.definitions if d.name == line.kernel)
        parameters = runtime_parameters(definition.parameters)
        for parameter, argument in zip(parameters, line.arguments, strict=True):
            if isinstance(parameter, TensorParameter) and isinstance(argument, BufferRef):
                self._use(node, argument.name, parameter.access.writes)

    def _extern(self, line: ExternKernelLine, path: LinePath) -> None:
        node = self.trace.node(path, line.device, line.stream)
        arguments = (*line.arguments, *(value for _, value in line.keywords))
        for name in [name for value in arguments for name in buffers_in(value)]:
            self._use(node, name, name in line.writes)
        if line.result is None or line.type is None:
            return
        shared = tuple(m for name in line.aliases for m in self._value(name).all())
        value = self._result(line.type, shared, path)
        if not shared:
            for memory in value.all():
                memory.uses.append(TracedUse(node, True, memory.owner))
        self._define(line.result, value)

    def _result(
        self, type: ValueType, shared: tuple[TracedMemory, ...], path: LinePath
    ) -> TracedValue:
        """Return an operator's result: of the memory that it may share, else of its own."""
        match type:
            case TensorType():
                own = shared or (self.trace.begin(path, self._nbytes(type)),)
                return TracedValue(own, type=type)
            case TupleType(elements):
                parts = tuple(self._result(t, shared, path) for t in elements)
                return TracedValue(elements=parts, type=type)
            case ScalarType() | OpaqueType() | PoolType() | EventType():
                return TracedValue(type=type)

    def _use(self, node: int, name: str, writes: bool) -> None:
        for memory in self._value(name).all():
            memory.uses.append(TracedUse(node, writes, memory.owner))

    def _conditional(self, line: ConditionalLine, path: LinePath) -> None:
        if isinstance(line.predicate, BufferRef):
            self.trace.host_reads()
        values = [self._operand(argument) for argument in line.operands]
        if self.trace.choose():
            returned = self._block(line.on_true, "on_true", path, values)
        else:
            returned = self._block(line.on_false, "on_false", path, values)
        self._finish(line.results, returned)

    def _while(self, line: WhileLoopLine, path: LinePath) -> None:
        carried = [self._operand(argument) for argument in line.carried]
        invariant = [self._operand(argument) for argument in line.invariant]
        previous: list[TracedValue] | None = None
        for iterates in (True, True, False) if self.trace.choose() else (False,):
            given = [*carried, *invariant]
            for value in self._block(line.condition, "condition", path, given):
                self.trace.drop(value)
            if isinstance(line.condition.results[0], BufferRef):
                self.trace.host_reads()
            if iterates:
                carried = self._block(line.body, "body", path, given)
                for value in previous or ():
                    self.trace.drop(value)
                previous = carried
        if previous is None:
            previous = self._copies(carried, path)
        self._finish(line.results, previous)

    def _copies(self, values: Sequence[TracedValue], path: LinePath) -> list[TracedValue]:
        node = self.trace.node(path, CPU, 0)
        copies: list[TracedValue] = []
        for value in values:
            for memory in value.all():
                memory.uses.append(TracedUse(node, False, memory.owner))
            copy = TracedValue(type=value.type)
            if isinstance(value.type, TensorType):
                copy = self._result(value.type, (), path)
            for memory in copy.all():
                memory.uses.append(TracedUse(node, True, memory.owner))
            self.trace.keep(copy)
            copies.append(copy)
        return copies

    def _block(
        self, block: Block, name: str, path: LinePath, values: Sequence[TracedValue]
    ) -> list[TracedValue]:
        """Walk a block and return its results, of which each has a name more."""
        names = {
            parameter.name: TracedValue(value.memories, value.elements, parameter.type)
            for parameter, value in zip(block.parameters, values, strict=True)
        }
        inner = _Walk(self.program, self.trace, self.constants, names, dict(self.symbols))
        inner.lines(block.lines, (*path, name))
        returned = [
            inner._value(result.name) if isinstance(result, BufferRef) else TracedValue()
            for result in block.results
        ]
        for value in returned:
            self.trace.keep(value)
        for value in inner.owned.values():
            self.trace.drop(value)
        return returned

    def _finish(self, results: Sequence[Result], returned: Sequence[TracedValue]) -> None:
        """Name what a block returned."""
        for result, value in zip(results, returned, strict=True):
            self._name(
                result.name, TracedValue(value.memories, value.elements, result.type)
            )

    def _operand(self, argument: KernelArgument) -> TracedValue:
        return (
            self._value(argument.name) if isinstance(argument, BufferRef) else TracedValue()
        )

    def _value(self, name: str) -> TracedValue:
        value = self.names.get(name)
        return self.constants[name] if value is None else value

    def _define(self, name: str, value: TracedValue) -> None:
        """Name a value that has a reference less than names."""
        self._name(name, value)
        self.trace.keep(value)

    def _name(self, name: str, value: TracedValue) -> None:
        self.names[name] = self.owned[name] = value

    def _take(self, name: str) -> TracedValue:
        self.owned.pop(name, None)
        return self.names.pop(name)

    def _integer(self, expr: Expr) -> int:
        return _integer(expr, self.symbols)

    def _nbytes(self, type: TensorType | PoolType) -> int:
        if isinstance(type, PoolType):
            return self._integer(type.size)
        size = [self._integer(extent) for extent in type.size]
        if prod(size) == 0:
            return 0
        steps = zip(size, type.stride, strict=True)
        last = sum((n - 1) * self._integer(stride) for n, stride in steps)
        return (self._integer(type.offset) + last + 1) * type.dtype.itemsize


def _integer(expr: Expr, symbols: Mapping[str, Number]) -> int:
    try:
        return evaluate_int(expr, symbols)
    except EvaluationError as error:
        raise ValueError(str(error)) from None


def _define_symbol(
    line: SymbolDefinitionLine, names: Names, symbols: dict[str, Number]
) -> None:
    """Give a symbol its value, unless it has one or that cannot be told."""
    if line.symbol in symbols:
        return
    expr = _source_expr(line, names)
    if expr is not None:
        try:
            symbols[line.symbol] = evaluate(expr, symbols)
        except EvaluationError:
            return  # a size that needs it says so


def _source_expr(line: SymbolDefinitionLine, names: Names) -> Expr | None:
    source = line.source
    match source:
        case ItemOf() | ValueOf():
            return None
        case int() | float() | Symbol() | Operation():
            return source
        case SizeOf() | StrideOf() | OffsetOf():
            type = names[source.buffer].type
            assert isinstance(type, TensorType)
            if isinstance(source, OffsetOf):
                return type.offset
            entries = type.size if isinstance(source, SizeOf) else type.stride
            return entries[source.dim]
