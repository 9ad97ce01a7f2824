"""Each line kind as nodes of a graph: one method a kind."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false

import operator
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import cast

from attrs import Factory, define, field
from torch.fx.node import Argument

from wrapperir.diagnostics import Code, Diagnostic, LinePath
from wrapperir.emit.names import NameTable
from wrapperir.emit.number_kinds import NumberKinds, kind_of
from wrapperir.ir.expr import Expr
from wrapperir.ir.line import (
    AllocateLine,
    AllocatePoolLine,
    AssertAlignmentLine,
    AssertNotNanLine,
    AssertScalarLine,
    AssertSizeStrideLine,
    BodyLine,
    CommentLine,
    ConditionalLine,
    DefinitionLine,
    ExternKernelLine,
    FreeLine,
    KernelCallLine,
    KernelDefinitionLine,
    MultiKernelLine,
    MultiOutputLine,
    PlaceLine,
    RecordEventLine,
    ReinterpretLine,
    ReuseLine,
    SubgraphCallLine,
    SymbolDefinitionLine,
    WaitEventLine,
    WhileLoopLine,
    ZeroMode,
)
from wrapperir.ir.program import Program
from wrapperir.ir.types import DType, TensorType, ValueType
from wrapperir.ir.visitor import LineVisitor
from wrapperir_fx import functions
from wrapperir_fx.arguments import Arguments
from wrapperir_fx.asserts import (
    emit_assert_alignment,
    emit_assert_not_nan,
    emit_assert_scalar,
    emit_assert_size_stride,
)
from wrapperir_fx.attributes import Attributes
from wrapperir_fx.block_needs import BlockNeeds
from wrapperir_fx.blocks import emit_conditional, emit_subgraph_call, emit_while_loop
from wrapperir_fx.fake_values import FakeValues
from wrapperir_fx.kernel_calls import Callee, Signature, emit_kernel_call
from wrapperir_fx.memory import (
    emit_allocate,
    emit_allocate_pool,
    emit_place,
    emit_view,
)
from wrapperir_fx.nodes import GraphNodes, Number
from wrapperir_fx.numbers import Numbers
from wrapperir_fx.operator_values import look_of_result, look_of_written
from wrapperir_fx.pool_dtypes import PoolDtypes
from wrapperir_fx.streams import Streams, StreamSurvey
from wrapperir_fx.symbols import emit_symbol
from wrapperir_fx.values import Value


@define(eq=False)
class Context:
    """What all graphs of one program share."""

    program: Program
    definitions: Mapping[str, DefinitionLine]
    fakes: FakeValues
    streams: StreamSurvey
    kinds: NumberKinds = field(factory=NumberKinds)
    callees: dict[str, Callee] = field(factory=dict[str, Callee])
    multi_kernels: dict[str, Signature] = field(factory=dict[str, Signature])
    problems: list[Diagnostic] = field(factory=list[Diagnostic])
    identifiers: NameTable = field(factory=lambda: NameTable(()))
    needs: BlockNeeds = field(
        default=Factory(lambda self: BlockNeeds(self.program), takes_self=True)
    )


class FxLines(LineVisitor[None]):
    """Appends each line's nodes to one graph, of a program or of a nested block.

    ``values`` has what each name stands for, ``attributes`` what the graph's module must
    hold.  What cannot be expressed is given to :meth:`report`.
    """

    def __init__(self, context: Context) -> None:
        """Start with an empty graph."""
        self.context = context
        self.fakes = context.fakes
        self.kinds = context.kinds
        self.nodes = GraphNodes()
        self.values: dict[str, Value] = {}
        self.layouts: dict[TensorType, tuple[Argument, Argument]] = {}
        self.pools = PoolDtypes(())
        self.attributes = Attributes()
        self.numbers = Numbers(self.nodes, self.fakes, self.kinds)
        self.arguments = Arguments(self.values, self.numbers, self.report)
        self.streams = Streams(self)
        self._path: LinePath = ()
        self._index = 0

    @property
    def path(self) -> LinePath:
        """The place of the line that is being emitted."""
        return (*self._path, self._index)

    def report(self, message: str, subject: str | None = None) -> None:
        """Say that the current line asks for something that this emitter lacks."""
        self.context.problems.append(
            Diagnostic(
                code=Code.UNSUPPORTED_FEATURE,
                message=message,
                path=self.path,
                subject=subject,
            )
        )

    def emit_lines(self, lines: Sequence[BodyLine], path: LinePath) -> None:
        """Append lines; ``path`` is the place of their tuple."""
        outer = self._path, self._index
        self._path = path
        self.pools = PoolDtypes(lines)
        for index, line in enumerate(lines):
            self._index = index
            self.nodes.begin(line)
            self.visit(line)
        self._path, self._index = outer

    def give(self, name: str, type: ValueType, target: Number) -> None:
        """Let ``name`` stand for a node that is an input or an operator's result."""
        assert not isinstance(target, int | float)
        self.values[name] = Value(target, type, frozenset((name,)))

    def number(self, value: Expr, dtype: DType | None) -> Number:
        """Return an expression as a number of a dtype: a float, a bool or an int."""
        return self.numbers.of_kind(value, kind_of(dtype))

    def visit_kernel_definition(self, line: KernelDefinitionLine) -> None:
        """Append nothing: calls name the kernel."""

    def visit_multi_kernel(self, line: MultiKernelLine) -> None:
        """Append nothing: calls go to the choice, or name the multi-kernel."""

    def visit_allocate(self, line: AllocateLine) -> None:
        """Append ``torch.empty_strided``; what is kept was made before the call."""
        kept = line.workspace is ZeroMode.ZERO_PER_PROGRAM
        with nullcontext() if kept else self.streams.allocating(line.result):
            emit_allocate(self, line)

    def visit_allocate_pool(self, line: AllocatePoolLine) -> None:
        """Append ``torch.empty_strided`` of bytes."""
        with self.streams.allocating(line.result):
            emit_allocate_pool(self, line)

    def visit_place(self, line: PlaceLine) -> None:
        """Append ``torch.as_strided`` of the pool."""
        self.streams.alias(line.result, line.pool)
        emit_place(self, line)

    def visit_free(self, line: FreeLine) -> None:
        """Append ``free``, the last use of a value."""
        self.nodes.call(functions.free, (self.values[line.buffer].node,))

    def visit_reuse(self, line: ReuseLine) -> None:
        """Append ``torch.as_strided``."""
        self.streams.alias(line.result, line.source)
        emit_view(self, line)

    def visit_reinterpret(self, line: ReinterpretLine) -> None:
        """Append ``torch.as_strided``."""
        self.streams.alias(line.result, line.source)
        emit_view(self, line)

    def visit_kernel_call(self, line: KernelCallLine) -> None:
        """Append a call of PyTorch's operator for Triton kernels, or of one of ours."""
        with self.streams.launching(line):
            emit_kernel_call(self, line)

    def visit_extern_kernel(self, line: ExternKernelLine) -> None:
        """Append a call of the operator."""
        operator, args, keywords = self.arguments.call(line)
        with self.streams.launching(line):
            if line.result is None or line.type is None:
                val = look_of_written(operator, args, keywords)
                self.nodes.call(operator, args, keywords, val=val)
                return
            name, type = line.result, line.type
            val = look_of_result(self, line, operator, type)
            node = self.nodes.call(operator, args, keywords, name=name, val=val)
        shared = [self.values[source].roots for source in line.aliases]
        self.values[name] = Value(node, type, frozenset((name,)).union(*shared))

    def visit_multi_output(self, line: MultiOutputLine) -> None:
        """Append ``operator.getitem``, one for each step into nested tuples."""
        source = self.values[line.source]
        node, val = source.node, cast(object, source.node.meta.get("val"))
        for depth, index in enumerate(line.indices, start=1):
            name = line.result if depth == len(line.indices) else None
            val = cast(tuple[object, ...], val)[index] if isinstance(val, tuple) else None
            node = self.nodes.call(operator.getitem, (node, index), name=name, val=val)
        self.streams.alias(line.result, line.source)
        self.values[line.result] = Value(node, line.type, source.roots | {line.result})

    def visit_record_event(self, line: RecordEventLine) -> None:
        """Append ``record_event``."""
        self.streams.record(line)

    def visit_wait_event(self, line: WaitEventLine) -> None:
        """Append ``wait_event``."""
        self.streams.wait(line)

    def visit_symbol_definition(self, line: SymbolDefinitionLine) -> None:
        """Append ``sym_size``, ``item`` and the like, and the check of its range."""
        emit_symbol(self, line)

    def visit_assert_size_stride(self, line: AssertSizeStrideLine) -> None:
        """Append a check of a layout."""
        emit_assert_size_stride(self, line)

    def visit_assert_alignment(self, line: AssertAlignmentLine) -> None:
        """Append a check of an address."""
        emit_assert_alignment(self, line)

    def visit_assert_scalar(self, line: AssertScalarLine) -> None:
        """Append a check of a condition."""
        emit_assert_scalar(self, line)

    def visit_assert_not_nan(self, line: AssertNotNanLine) -> None:
        """Append a check of every element."""
        emit_assert_not_nan(self, line)

    def visit_conditional(self, line: ConditionalLine) -> None:
        """Append ``cond`` and a graph for each branch."""
        emit_conditional(self, line)

    def visit_while_loop(self, line: WhileLoopLine) -> None:
        """Append ``while_loop`` and its two graphs."""
        emit_while_loop(self, line)

    def visit_subgraph_call(self, line: SubgraphCallLine) -> None:
        """Append ``invoke_subgraph`` and its graph."""
        emit_subgraph_call(self, line)

    def visit_comment(self, line: CommentLine) -> None:
        """Append nothing: the remark stays with the node that comes next."""
