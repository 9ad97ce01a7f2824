"""What a line defines, uses, writes and drops, by name."""

from collections.abc import Iterator

from wrapperir.ir.expr import Operation, Symbol, symbols_in
from wrapperir.ir.line import (
    AllocateLine,
    AllocatePoolLine,
    Argument,
    AssertAlignmentLine,
    AssertNotNanLine,
    AssertScalarLine,
    AssertSizeStrideLine,
    Block,
    BodyLine,
    BufferRef,
    CommentLine,
    ConditionalLine,
    ExternKernelLine,
    FreeLine,
    ItemOf,
    KernelCallLine,
    KernelDefinitionLine,
    MultiKernelLine,
    MultiOutputLine,
    OffsetOf,
    PlaceLine,
    RecordEventLine,
    ReinterpretLine,
    ReuseLine,
    SizeOf,
    StrideOf,
    SubgraphCallLine,
    SymbolDefinitionLine,
    SymbolSource,
    ValueOf,
    WaitEventLine,
    WhileLoopLine,
)
from wrapperir.ir.types import EventType, PoolType, TensorType, TupleType, ValueType
from wrapperir.ir.visitor import LineVisitor


def buffers_in(argument: Argument) -> Iterator[str]:
    """Yield the names that an argument refers to, nested ones included."""
    if isinstance(argument, BufferRef):
        yield argument.name
    elif isinstance(argument, tuple):
        for item in argument:
            yield from buffers_in(item)


def argument_symbols(argument: Argument) -> Iterator[str]:
    """Yield the names of the symbols in an argument, nested ones included."""
    if isinstance(argument, Symbol | Operation):
        yield from symbols_in(argument)
    elif isinstance(argument, tuple):
        for item in argument:
            yield from argument_symbols(item)


def type_symbols(type: ValueType) -> Iterator[str]:
    """Yield the names of the symbols in a type."""
    if isinstance(type, TensorType):
        for expr in (*type.size, *type.stride, type.offset):
            yield from symbols_in(expr)
    elif isinstance(type, PoolType):
        yield from symbols_in(type.size)
    elif isinstance(type, TupleType):
        for element in type.elements:
            yield from type_symbols(element)


def source_buffer(source: SymbolSource) -> str | None:
    """Return the value that a symbol's source reads, if it reads one."""
    if isinstance(source, SizeOf | StrideOf | OffsetOf | ItemOf):
        return source.buffer
    return source.name if isinstance(source, ValueOf) else None


def blocks_of(line: BodyLine) -> tuple[Block, ...]:
    """Return the nested blocks of a line, in the order of the text."""
    if isinstance(line, ConditionalLine):
        return (line.on_true, line.on_false)
    if isinstance(line, WhileLoopLine):
        return (line.condition, line.body)
    return (line.body,) if isinstance(line, SubgraphCallLine) else ()


def definitions(line: BodyLine) -> tuple[tuple[str, ValueType], ...]:
    """Return the values that a line defines, with their types."""
    match line:
        case (
            AllocateLine()
            | AllocatePoolLine()
            | PlaceLine()
            | ReuseLine()
            | ReinterpretLine()
            | MultiOutputLine()
        ):
            return ((line.result, line.type),)
        case RecordEventLine():
            return ((line.result, EventType(line.device)),)
        case ExternKernelLine(result=str(result), type=type) if type is not None:
            return ((result, type),)
        case ConditionalLine() | WhileLoopLine() | SubgraphCallLine():
            return tuple((result.name, result.type) for result in line.results)
        case _:
            return ()


class _Uses(LineVisitor[tuple[str, ...]]):
    def visit_kernel_definition(self, line: KernelDefinitionLine) -> tuple[str, ...]:
        return ()

    def visit_multi_kernel(self, line: MultiKernelLine) -> tuple[str, ...]:
        return ()

    def visit_allocate(self, line: AllocateLine) -> tuple[str, ...]:
        return ()

    def visit_allocate_pool(self, line: AllocatePoolLine) -> tuple[str, ...]:
        return ()

    def visit_place(self, line: PlaceLine) -> tuple[str, ...]:
        return (line.pool,)

    def visit_free(self, line: FreeLine) -> tuple[str, ...]:
        return (line.buffer,)

    def visit_reuse(self, line: ReuseLine) -> tuple[str, ...]:
        return (line.source,)

    def visit_reinterpret(self, line: ReinterpretLine) -> tuple[str, ...]:
        return (line.source,)

    def visit_kernel_call(self, line: KernelCallLine) -> tuple[str, ...]:
        return tuple(a.name for a in line.arguments if isinstance(a, BufferRef))

    def visit_extern_kernel(self, line: ExternKernelLine) -> tuple[str, ...]:
        values = (*line.arguments, *(value for _, value in line.keywords))
        return tuple(name for value in values for name in buffers_in(value))

    def visit_multi_output(self, line: MultiOutputLine) -> tuple[str, ...]:
        return (line.source,)

    def visit_record_event(self, line: RecordEventLine) -> tuple[str, ...]:
        return ()

    def visit_wait_event(self, line: WaitEventLine) -> tuple[str, ...]:
        return (line.event,)

    def visit_symbol_definition(self, line: SymbolDefinitionLine) -> tuple[str, ...]:
        name = source_buffer(line.source)
        return () if name is None else (name,)

    def visit_assert_size_stride(self, line: AssertSizeStrideLine) -> tuple[str, ...]:
        return (line.buffer,)

    def visit_assert_alignment(self, line: AssertAlignmentLine) -> tuple[str, ...]:
        return (line.buffer,)

    def visit_assert_scalar(self, line: AssertScalarLine) -> tuple[str, ...]:
        return ()

    def visit_assert_not_nan(self, line: AssertNotNanLine) -> tuple[str, ...]:
        return (line.buffer,)

    def visit_conditional(self, line: ConditionalLine) -> tuple[str, ...]:
        return tuple(
            a.name for a in (line.predicate, *line.operands) if isinstance(a, BufferRef)
        )

    def visit_while_loop(self, line: WhileLoopLine) -> tuple[str, ...]:
        operands = (*line.carried, *line.invariant)
        return tuple(a.name for a in operands if isinstance(a, BufferRef))

    def visit_subgraph_call(self, line: SubgraphCallLine) -> tuple[str, ...]:
        return tuple(a.name for a in line.operands if isinstance(a, BufferRef))

    def visit_comment(self, line: CommentLine) -> tuple[str, ...]:
        return ()


_USES = _Uses()


def uses(line: BodyLine) -> tuple[str, ...]:
    """Return the values that a line uses in its own scope, repeats included.

    Constants are among them: nested blocks see those by name, so what a block uses of
    them counts in the block's own lines.
    """
    return _USES.visit(line)


def drops(line: BodyLine) -> str | None:
    """Return the name that a line drops: a free's buffer or a reuse's source."""
    if isinstance(line, FreeLine):
        return line.buffer
    return line.source if isinstance(line, ReuseLine) else None
