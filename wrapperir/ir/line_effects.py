"""The effects of each line kind: names, bytes, storages, streams and nested blocks.

:class:`LineEffects` describes each line kind once.  The verifier, analyses, passes, the
interpreter and emitters read its :class:`Effects`.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from wrapperir.ir import line as lines
from wrapperir.ir.arguments import BufferRef, ItemOf, KernelArgument
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.collective_effects import start_effects, wait_effects
from wrapperir.ir.definition import DefinitionLine, KernelDefinitionLine, MultiKernelLine
from wrapperir.ir.effects import (
    Actor,
    ByteAccess,
    Effects,
    NestedBlock,
    Origin,
    ValueDefinition,
)
from wrapperir.ir.kernel import TensorParameter, ZeroMode, runtime_parameters
from wrapperir.ir.mentions import add_buffers, source_buffer
from wrapperir.ir.program import Program
from wrapperir.ir.types import EventType, Stream, ValueType
from wrapperir.ir.visitor import LineVisitor

# Python 3.11 takes 0.1 µs to look up a member of an enum.
_ALLOCATED = Origin.ALLOCATED
_VIEW = Origin.VIEW
_MOVED = Origin.MOVED
_OPERATOR = Origin.OPERATOR
_ELEMENT = Origin.ELEMENT

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

    def visit_allocate(self, line: lines.AllocateLine) -> Effects:
        """New memory, zeroed for a ``zero_on_call`` workspace."""
        origin = _ALLOCATED
        if line.workspace is not None and line.workspace is ZeroMode.ZERO_PER_PROGRAM:
            origin = Origin.PROGRAM
        made = ValueDefinition(line.result, line.type, origin, workspace=line.workspace)
        return Effects(definitions=(made,), accesses=_zeroed(line), device=line.type.device)

    def visit_allocate_pool(self, line: lines.AllocatePoolLine) -> Effects:
        """New raw memory."""
        return Effects(
            definitions=(ValueDefinition(line.result, line.type, Origin.POOL),),
            device=line.type.device,
        )

    def visit_place(self, line: lines.PlaceLine) -> Effects:
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

    def visit_free(self, line: lines.FreeLine) -> Effects:
        """The end of a name."""
        return Effects(uses=(line.buffer,), drops=line.buffer)

    def visit_reuse(self, line: lines.ReuseLine) -> Effects:
        """The memory of a name that ends."""
        made = ValueDefinition(line.result, line.type, _MOVED, line.source)
        return Effects(
            uses=(line.source,),
            definitions=(made,),
            drops=line.source,
            device=line.type.device,
        )

    def visit_reinterpret(self, line: lines.ReinterpretLine) -> Effects:
        """Another name of a storage."""
        made = ValueDefinition(line.result, line.type, _VIEW, line.source)
        return Effects(uses=(line.source,), definitions=(made,), device=line.type.device)

    def visit_kernel_call(self, line: lines.KernelCallLine) -> Effects:
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

    def visit_extern_kernel(self, line: lines.ExternKernelLine) -> Effects:
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

    def visit_multi_output(self, line: lines.MultiOutputLine) -> Effects:
        """An element of a tuple."""
        made = ValueDefinition(
            line.result, line.type, _ELEMENT, line.source, (), line.indices
        )
        return Effects(uses=(line.source,), definitions=(made,))

    def visit_record_event(self, line: lines.RecordEventLine) -> Effects:
        """An event: no memory."""
        made = ValueDefinition(line.result, EventType(line.device), Origin.NONE)
        return Effects(
            definitions=(made,),
            device=line.device,
            stream=stream_of(line.device, line.stream),
            records=line.result,
        )

    def visit_wait_event(self, line: lines.WaitEventLine) -> Effects:
        """An order of later work."""
        return Effects(
            uses=(line.event,),
            device=line.device,
            stream=stream_of(line.device, line.stream),
            awaits=line.event,
        )

    def visit_collective(self, line: lines.CollectiveLine) -> Effects:
        """A handle; reads, and writes that the wait completes."""
        return start_effects(line)

    def visit_wait_collective(self, line: lines.WaitCollectiveLine) -> Effects:
        """The end of the reads and writes that were started."""
        return wait_effects(line)

    def visit_symbol_definition(self, line: lines.SymbolDefinitionLine) -> Effects:
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

    def visit_assert_size_stride(self, line: lines.AssertSizeStrideLine) -> Effects:
        """A check of facts that the host knows."""
        return Effects(uses=(line.buffer,), may_fail=True)

    def visit_assert_alignment(self, line: lines.AssertAlignmentLine) -> Effects:
        """A check of an address, which the host knows."""
        return Effects(uses=(line.buffer,), reads_address=True, may_fail=True)

    def visit_assert_scalar(self, line: lines.AssertScalarLine) -> Effects:
        """A check of numbers."""
        return Effects(may_fail=True)

    def visit_assert_not_nan(self, line: lines.AssertNotNanLine) -> Effects:
        """A check for which the host reads bytes."""
        return Effects(
            uses=(line.buffer,),
            accesses=_host_read(line.buffer),
            host_waits=True,
            may_fail=True,
        )

    def visit_conditional(self, line: lines.ConditionalLine) -> Effects:
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

    def visit_while_loop(self, line: lines.WhileLoopLine) -> Effects:
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

    def visit_subgraph_call(self, line: lines.SubgraphCallLine) -> Effects:
        """One block."""
        return Effects(
            uses=_names(line.operands),
            definitions=_results(line.results),
            accesses=_lent(line.operands, line.results),
            blocks=(NestedBlock("body", line.body, line.operands),),
            may_fail=True,
        )

    def visit_graph_region(self, line: lines.GraphRegionLine) -> Effects:
        """One block, all of it work of one stream."""
        stream = stream_of(line.device, line.stream)
        return Effects(
            uses=_names(line.operands),
            definitions=_results(line.results),
            accesses=_lent(line.operands, line.results, stream),
            blocks=(NestedBlock("body", line.body, line.operands),),
            device=line.device,
            stream=stream,
            launches=True,
            may_fail=True,
        )

    def visit_comment(self, line: lines.CommentLine) -> Effects:
        """Nothing."""
        return _NOTHING


def _names(arguments: Iterable[KernelArgument]) -> tuple[str, ...]:
    return tuple([a.name for a in arguments if isinstance(a, BufferRef)])


def _results(results: Iterable[lines.Result]) -> tuple[ValueDefinition, ...]:
    return tuple(ValueDefinition(r.name, r.type, Origin.BLOCK) for r in results)


def _host_read(name: str) -> tuple[ByteAccess, ...]:
    return (ByteAccess(name, True, False, Actor.HOST),)


def _zeroed(line: lines.AllocateLine | lines.PlaceLine) -> tuple[ByteAccess, ...]:
    if line.workspace is None or line.workspace is not ZeroMode.ZERO_ON_CALL:
        return ()
    return (ByteAccess(line.result, False, True, Actor.STREAM_0, covers=True),)


def _lent(
    operands: Iterable[KernelArgument],
    results: Iterable[lines.Result],
    by: Stream | Actor = Actor.STREAM_0,
) -> tuple[ByteAccess, ...]:
    """Return the accesses of blocks to operands and results."""
    lent = dict.fromkeys(_names(operands))
    return (
        *(ByteAccess(name, True, True, by) for name in lent),
        *(ByteAccess(r.name, False, True, by, covers=True) for r in results),
    )


_WITHOUT_KERNELS = LineEffects(None)


def uses(line: lines.BodyLine) -> tuple[str, ...]:
    """Return the names that must be alive where a line runs, repeats included.

    Constants are among them: nested blocks see constants by name, so that such uses
    count in the lines of the block.
    """
    return _WITHOUT_KERNELS.visit(line).uses


def definitions(line: lines.BodyLine) -> tuple[tuple[str, ValueType], ...]:
    """Return the name and type of each value that a line defines."""
    return tuple([(d.name, d.type) for d in _WITHOUT_KERNELS.visit(line).definitions])


def drops(line: lines.BodyLine) -> str | None:
    """Return the name that a line drops: a free's buffer or a reuse's source."""
    return _WITHOUT_KERNELS.visit(line).drops


def value_names(program: Program) -> Iterator[str]:
    """Yield the name of each value of a program, nested blocks included."""
    yield from value_types(program)


def program_effects(program: Program) -> list[Effects]:
    """Return effects in the order of :func:`walk_lines`, without accesses of kernels."""
    return [_WITHOUT_KERNELS.visit(line) for line in walk_lines(program.lines)]


def value_types(
    program: Program, effects: Iterable[Effects] | None = None
) -> dict[str, ValueType]:
    """Return the type of each value of a program by its name, in nested blocks too.

    ``effects`` are the program's effects, where they are known already.
    """
    types = {given.name: given.type for given in program.inputs}
    types.update({given.name: given.type for given in program.constants})
    for done in program_effects(program) if effects is None else effects:
        for made in done.definitions:
            types[made.name] = made.type
        for nested in done.blocks:
            types.update({item.name: item.type for item in nested.block.parameters})
    return types
