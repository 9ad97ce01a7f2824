"""The effects of each line kind: names, bytes, storages, streams and nested blocks.

:class:`LineEffects` describes each line kind once.  The verifier, analyses, passes, the
interpreter and emitters read its :class:`Effects`.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache

from attrs import define

from wrapperir.ir.blocks import blocks_of, walk_lines
from wrapperir.ir.expr import Expr
from wrapperir.ir.kernel import TensorParameter, ZeroMode, runtime_parameters
from wrapperir.ir.line import (
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
    DefinitionLine,
    ExternKernelLine,
    FreeLine,
    ItemOf,
    KernelArgument,
    KernelCallLine,
    KernelDefinitionLine,
    MultiKernelLine,
    MultiOutputLine,
    PlaceLine,
    Program,
    RecordEventLine,
    ReinterpretLine,
    Result,
    ReuseLine,
    SubgraphCallLine,
    SymbolDefinitionLine,
    WaitEventLine,
    WhileLoopLine,
)
from wrapperir.ir.mentions import add_buffers, source_buffer
from wrapperir.ir.types import Device, EventType, Stream, ValueType
from wrapperir.ir.visitor import LineVisitor


class Origin(StrEnum):
    """Where the memory of a value that a line defines comes from."""

    ALLOCATED = "allocated"
    """New memory."""
    PROGRAM = "program"
    """New memory that the program keeps between calls: a ``zero_per_program`` workspace."""
    POOL = "pool"
    """New raw memory."""
    PLACED = "placed"
    """A part of the pool that is the ``source``."""
    OPERATOR = "operator"
    """New memory, or the memory of a value in ``may_alias``."""
    BLOCK = "block"
    """Memory that a nested block returned; results of one line may share it."""
    VIEW = "view"
    """The storage of the ``source``."""
    MOVED = "moved"
    """The storage of the ``source``, whose name the line drops."""
    ELEMENT = "element"
    """The storage of the element at ``indices`` of the tuple that is the ``source``."""
    NONE = "none"
    """No memory: an event."""


# Python 3.11 takes 0.1 µs to look up a member of an enum.
_ALLOCATED = Origin.ALLOCATED
_VIEW = Origin.VIEW
_MOVED = Origin.MOVED
_OPERATOR = Origin.OPERATOR
_ELEMENT = Origin.ELEMENT


@define
class ValueDefinition:
    """A value that a line defines.

    ``offset`` is the byte offset of a placed value in its pool, ``workspace`` the zero mode
    of a workspace.
    """

    name: str
    type: ValueType
    origin: Origin
    source: str | None = None
    may_alias: tuple[str, ...] = ()
    indices: tuple[int, ...] = ()
    offset: Expr = 0
    workspace: ZeroMode | None = None


class Actor(StrEnum):
    """The actor of an access that is not on a stream of the line."""

    HOST = "host"
    """The host, which waits for all streams."""
    STREAM_0 = "stream 0"
    """Stream 0 of the device that the bytes are on."""


@define
class ByteAccess:
    """An access to the bytes of a value.

    A write that ``covers`` the value certainly writes each byte that the value's type
    addresses.  Another write may leave some of these bytes as they were.
    """

    name: str
    reads: bool
    writes: bool
    by: Stream | Actor
    covers: bool = False


@define
class NestedBlock:
    """A block of a line: the field that holds it, and the operands of its parameters.

    ``returns`` says that its results are, or may be, the line's results.  A block that
    ``repeats`` runs any number of times: without an iteration, the line's results are
    copies of its operands; during one, the results of the previous iteration are alive.
    ``host_reads_result`` says that the host reads its result from a tensor, so that it
    waits for all streams when the block has run.
    """

    field: str
    block: Block
    operands: tuple[KernelArgument, ...]
    returns: bool = True
    repeats: bool = False
    host_reads_result: bool = False


@define(kw_only=True, eq=False)
class Effects:
    """The effects of a line in its own block; lines of nested blocks have their own.

    Attributes:
        uses: Names that must be alive, repeats included.  Constants are among them.
        definitions: Values that the line defines.
        drops: The name that the line drops.
        accesses: Bytes that it reads and writes: one access an argument of a kernel, one
            a name for others.  Nested blocks may read and write their operands.
        blocks: Nested blocks.
        device: The device that it allocates on or gives work to.
        stream: The stream that it gives work to, or orders.
        launches: Whether it gives ``stream`` work.
        records: The event that it defines: all work given to ``stream`` before it.
        awaits: The event that later work on ``stream`` comes after.
        host_waits: Whether the host waits for all streams before the line has run.
        symbol: The symbol that it defines.
        may_fail: Whether it checks something or calls something that may fail.  Any line
            fails where an expression has no value or no memory is left.
    """

    uses: tuple[str, ...] = ()
    definitions: tuple[ValueDefinition, ...] = ()
    drops: str | None = None
    accesses: tuple[ByteAccess, ...] = ()
    blocks: tuple[NestedBlock, ...] = ()
    device: Device | None = None
    stream: Stream | None = None
    launches: bool = False
    records: str | None = None
    awaits: str | None = None
    host_waits: bool = False
    symbol: str | None = None
    may_fail: bool = False

    @property
    def leaves_types_open(self) -> bool:
        """Whether the next lines may still define symbols of an earlier result's type.

        Lines that allocate, launch, order streams, run blocks or check anything else than
        a symbol need all types to be known.
        """
        is_check = self.may_fail and self.symbol is None
        return not (self.blocks or is_check or self.device is not None)


_NOTHING = Effects()

stream_of = lru_cache(256)(Stream)
"""The stream of a device and a number: one object for each, as making it takes longer."""


class LineEffects(LineVisitor[Effects]):
    """Finds the effects of lines; kernels and multi-kernels are known by definitions.

    A kernel that is not defined may read and write each of its arguments.
    """

    def __init__(self, definitions: Iterable[DefinitionLine] | None = ()) -> None:
        """Take a program's definitions; ``None`` leaves out the accesses of kernels."""
        self._definitions: Mapping[str, DefinitionLine] | None = (
            None if definitions is None else {line.name: line for line in definitions}
        )
        self._kernels: dict[str, list[tuple[bool, bool] | None]] = {}

    @classmethod
    def of_program(cls, program: Program) -> "LineEffects":
        """Return the effects of a program's lines."""
        return cls(program.definitions)

    def kernel(self, name: str) -> list[tuple[bool, bool] | None]:
        """Return whether a kernel reads and writes each argument, ``None`` for a scalar.

        The list is empty if the kernel is not defined.
        """
        known = self._kernels.get(name)
        if known is None:
            definition = None if self._definitions is None else self._definitions.get(name)
            parameters = runtime_parameters(definition.parameters) if definition else ()
            known = self._kernels[name] = [
                (p.access.reads, p.access.writes)
                if isinstance(p, TensorParameter)
                else None
                for p in parameters
            ]
        return known

    def visit_kernel_definition(self, line: KernelDefinitionLine) -> Effects:
        """Nothing: calls say what kernels do."""
        return _NOTHING

    def visit_multi_kernel(self, line: MultiKernelLine) -> Effects:
        """Nothing: calls say what kernels do."""
        return _NOTHING

    def visit_allocate(self, line: AllocateLine) -> Effects:
        """New memory, zeroed for a ``zero_on_call`` workspace."""
        origin = _ALLOCATED
        if line.workspace is not None and line.workspace is ZeroMode.ZERO_PER_PROGRAM:
            origin = Origin.PROGRAM
        made = ValueDefinition(line.result, line.type, origin, workspace=line.workspace)
        return Effects(definitions=(made,), accesses=_zeroed(line), device=line.type.device)

    def visit_allocate_pool(self, line: AllocatePoolLine) -> Effects:
        """New raw memory."""
        return Effects(
            definitions=(ValueDefinition(line.result, line.type, Origin.POOL),),
            device=line.type.device,
        )

    def visit_place(self, line: PlaceLine) -> Effects:
        """A part of a pool, zeroed for a ``zero_on_call`` workspace."""
        made = ValueDefinition(
            line.result,
            line.type,
            Origin.PLACED,
            line.pool,
            offset=line.offset,
            workspace=line.workspace,
        )
        return Effects(
            uses=(line.pool,),
            definitions=(made,),
            accesses=_zeroed(line),
            device=line.type.device,
        )

    def visit_free(self, line: FreeLine) -> Effects:
        """The end of a name."""
        return Effects(uses=(line.buffer,), drops=line.buffer)

    def visit_reuse(self, line: ReuseLine) -> Effects:
        """The memory of a name that ends."""
        made = ValueDefinition(line.result, line.type, _MOVED, line.source)
        return Effects(
            uses=(line.source,),
            definitions=(made,),
            drops=line.source,
            device=line.type.device,
        )

    def visit_reinterpret(self, line: ReinterpretLine) -> Effects:
        """Another name of a storage."""
        made = ValueDefinition(line.result, line.type, _VIEW, line.source)
        return Effects(uses=(line.source,), definitions=(made,), device=line.type.device)

    def visit_kernel_call(self, line: KernelCallLine) -> Effects:
        """The access that the definition declares for each parameter."""
        stream = stream_of(line.device, line.stream)
        accesses: list[ByteAccess] = []
        if self._definitions is not None:
            known = self.kernel(line.kernel)
            for argument, access in zip(
                line.arguments, known or itertools.repeat((True, True)), strict=False
            ):
                if isinstance(argument, BufferRef) and access is not None:
                    accesses.append(ByteAccess(argument.name, *access, stream))
        return Effects(
            uses=_names(line.arguments),
            accesses=tuple(accesses),
            device=line.device,
            stream=stream,
            launches=True,
            may_fail=True,
        )

    def visit_extern_kernel(self, line: ExternKernelLine) -> Effects:
        """Reads of all arguments, declared writes, and a result that the call writes."""
        stream = stream_of(line.device, line.stream)
        uses: list[str] = []
        for argument in line.arguments:
            add_buffers(argument, uses)
        for _, argument in line.keywords:
            add_buffers(argument, uses)
        accesses = [
            ByteAccess(name, True, name in line.writes, stream)
            for name in dict.fromkeys(uses)
        ]
        made: tuple[ValueDefinition, ...] = ()
        if line.result is not None and line.type is not None:
            aliases = line.aliases
            made = (ValueDefinition(line.result, line.type, _OPERATOR, None, aliases),)
            if not aliases:
                accesses.append(ByteAccess(line.result, False, True, stream, covers=True))
        return Effects(
            uses=tuple(uses),
            definitions=made,
            accesses=tuple(accesses),
            device=line.device,
            stream=stream,
            launches=True,
            may_fail=True,
        )

    def visit_multi_output(self, line: MultiOutputLine) -> Effects:
        """An element of a tuple."""
        made = ValueDefinition(
            line.result, line.type, _ELEMENT, line.source, (), line.indices
        )
        return Effects(uses=(line.source,), definitions=(made,))

    def visit_record_event(self, line: RecordEventLine) -> Effects:
        """An event: no memory."""
        made = ValueDefinition(line.result, EventType(line.device), Origin.NONE)
        return Effects(
            definitions=(made,),
            device=line.device,
            stream=stream_of(line.device, line.stream),
            records=line.result,
        )

    def visit_wait_event(self, line: WaitEventLine) -> Effects:
        """An order of later work."""
        return Effects(
            uses=(line.event,),
            device=line.device,
            stream=stream_of(line.device, line.stream),
            awaits=line.event,
        )

    def visit_symbol_definition(self, line: SymbolDefinitionLine) -> Effects:
        """A symbol; ``.item()`` has the host read bytes."""
        source = line.source
        name = source_buffer(source)
        return Effects(
            uses=() if name is None else (name,),
            accesses=_host_read(source.buffer) if isinstance(source, ItemOf) else (),
            host_waits=isinstance(source, ItemOf),
            symbol=line.symbol,
            may_fail=True,
        )

    def visit_assert_size_stride(self, line: AssertSizeStrideLine) -> Effects:
        """A check of facts that the host knows."""
        return Effects(uses=(line.buffer,), may_fail=True)

    def visit_assert_alignment(self, line: AssertAlignmentLine) -> Effects:
        """A check of an address, which the host knows."""
        return Effects(uses=(line.buffer,), may_fail=True)

    def visit_assert_scalar(self, line: AssertScalarLine) -> Effects:
        """A check of numbers."""
        return Effects(may_fail=True)

    def visit_assert_not_nan(self, line: AssertNotNanLine) -> Effects:
        """A check for which the host reads bytes."""
        return Effects(
            uses=(line.buffer,),
            accesses=_host_read(line.buffer),
            host_waits=True,
            may_fail=True,
        )

    def visit_conditional(self, line: ConditionalLine) -> Effects:
        """Two blocks with the same operands; the host reads a tensor predicate."""
        read = _names((line.predicate,))
        return Effects(
            uses=_names((line.predicate, *line.operands)),
            definitions=_results(line.results),
            accesses=(
                *(access for name in read for access in _host_read(name)),
                *_lent(line.operands, line.results),
            ),
            blocks=(
                NestedBlock("on_true", line.on_true, line.operands),
                NestedBlock("on_false", line.on_false, line.operands),
            ),
            host_waits=bool(read),
            may_fail=True,
        )

    def visit_while_loop(self, line: WhileLoopLine) -> Effects:
        """Two blocks with the same operands; results are copies without an iteration."""
        operands = (*line.carried, *line.invariant)
        is_read = any(isinstance(result, BufferRef) for result in line.condition.results)
        return Effects(
            uses=_names(operands),
            definitions=_results(line.results),
            accesses=_lent(operands, line.results),
            blocks=(
                NestedBlock(
                    "condition",
                    line.condition,
                    operands,
                    returns=False,
                    repeats=True,
                    host_reads_result=is_read,
                ),
                NestedBlock("body", line.body, operands, repeats=True),
            ),
            may_fail=True,
        )

    def visit_subgraph_call(self, line: SubgraphCallLine) -> Effects:
        """One block."""
        return Effects(
            uses=_names(line.operands),
            definitions=_results(line.results),
            accesses=_lent(line.operands, line.results),
            blocks=(NestedBlock("body", line.body, line.operands),),
            may_fail=True,
        )

    def visit_comment(self, line: CommentLine) -> Effects:
        """Nothing."""
        return _NOTHING


def _names(arguments: Iterable[KernelArgument]) -> tuple[str, ...]:
    return tuple([a.name for a in arguments if isinstance(a, BufferRef)])


def _results(results: Iterable[Result]) -> tuple[ValueDefinition, ...]:
    return tuple(ValueDefinition(r.name, r.type, Origin.BLOCK) for r in results)


def _host_read(name: str) -> tuple[ByteAccess, ...]:
    return (ByteAccess(name, True, False, Actor.HOST),)


def _zeroed(line: AllocateLine | PlaceLine) -> tuple[ByteAccess, ...]:
    if line.workspace is None or line.workspace is not ZeroMode.ZERO_ON_CALL:
        return ()
    return (ByteAccess(line.result, False, True, Actor.STREAM_0, covers=True),)


def _lent(
    operands: Iterable[KernelArgument], results: Iterable[Result]
) -> tuple[ByteAccess, ...]:
    """Return the accesses of blocks to operands and results."""
    lent = dict.fromkeys(_names(operands))
    return (
        *(ByteAccess(name, True, True, Actor.STREAM_0) for name in lent),
        *(ByteAccess(r.name, False, True, Actor.STREAM_0, covers=True) for r in results),
    )


_WITHOUT_KERNELS = LineEffects(None)


def uses(line: BodyLine) -> tuple[str, ...]:
    """Return the names that must be alive where a line runs, repeats included.

    Constants are among them: nested blocks see constants by name, so that such uses
    count in the lines of the block.
    """
    return _WITHOUT_KERNELS.visit(line).uses


def definitions(line: BodyLine) -> tuple[tuple[str, ValueType], ...]:
    """Return the name and type of each value that a line defines."""
    return tuple([(d.name, d.type) for d in _WITHOUT_KERNELS.visit(line).definitions])


def drops(line: BodyLine) -> str | None:
    """Return the name that a line drops: a free's buffer or a reuse's source."""
    return _WITHOUT_KERNELS.visit(line).drops


def value_names(program: Program) -> Iterator[str]:
    """Yield the name of each value of a program, nested blocks included."""
    yield from (input.name for input in program.inputs)
    yield from (constant.name for constant in program.constants)
    for line in walk_lines(program.lines):
        yield from (name for name, _ in definitions(line))
        for block in blocks_of(line):
            yield from (parameter.name for parameter in block.parameters)
