"""Each line kind as nodes of a graph: one method a kind."""

# torch says little of its types.
# pyright: reportUnknownMemberType=false

import operator
from collections.abc import Sequence
from typing import cast

from wrapperir.diagnostics import LinePath
from wrapperir.fx import functions
from wrapperir.ir import (
    AllocateLine,
    AllocatePoolLine,
    AssertAlignmentLine,
    AssertNotNanLine,
    AssertScalarLine,
    AssertSizeStrideLine,
    BodyLine,
    CommentLine,
    ConditionalLine,
    ExternKernelLine,
    FreeLine,
    KernelCallLine,
    KernelDefinitionLine,
    LineVisitor,
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
)
from wrapperir_fx.asserts import (
    emit_assert_alignment,
    emit_assert_not_nan,
    emit_assert_scalar,
    emit_assert_size_stride,
)
from wrapperir_fx.blocks import emit_conditional, emit_subgraph_call, emit_while_loop
from wrapperir_fx.context import GraphContext
from wrapperir_fx.kernel_calls import emit_kernel_call
from wrapperir_fx.memory import (
    emit_allocate,
    emit_allocate_pool,
    emit_place,
    emit_view,
)
from wrapperir_fx.operator_calls import emit_extern_kernel
from wrapperir_fx.pool_dtypes import PoolDtypes
from wrapperir_fx.symbols import emit_symbol
from wrapperir_fx.values import Value


class FxLines(LineVisitor[None]):
    """Appends each line's nodes to one graph."""

    def __init__(self, graph: GraphContext) -> None:
        """Append to ``graph``."""
        self._graph = graph

    def visit_kernel_definition(self, line: KernelDefinitionLine) -> None:
        """Append nothing: calls name the kernel."""

    def visit_multi_kernel(self, line: MultiKernelLine) -> None:
        """Append nothing: calls go to the choice, or name the multi-kernel."""

    def visit_allocate(self, line: AllocateLine) -> None:
        """Append ``torch.empty_strided``; what is kept was made before the call."""
        emit_allocate(self._graph, line)

    def visit_allocate_pool(self, line: AllocatePoolLine) -> None:
        """Append ``torch.empty_strided`` of bytes."""
        emit_allocate_pool(self._graph, line)

    def visit_place(self, line: PlaceLine) -> None:
        """Append ``torch.as_strided`` of the pool."""
        emit_place(self._graph, line)

    def visit_free(self, line: FreeLine) -> None:
        """Append ``free``, the last use of a value."""
        self._graph.nodes.call(functions.free, (self._graph.values[line.buffer].node,))

    def visit_reuse(self, line: ReuseLine) -> None:
        """Append ``torch.as_strided``."""
        emit_view(self._graph, line)

    def visit_reinterpret(self, line: ReinterpretLine) -> None:
        """Append ``torch.as_strided``."""
        emit_view(self._graph, line)

    def visit_kernel_call(self, line: KernelCallLine) -> None:
        """Append a call of PyTorch's operator for Triton kernels, or of one of ours."""
        with self._graph.streams.launching(line):
            emit_kernel_call(self._graph, line)

    def visit_extern_kernel(self, line: ExternKernelLine) -> None:
        """Append a call of the operator."""
        emit_extern_kernel(self._graph, line)

    def visit_multi_output(self, line: MultiOutputLine) -> None:
        """Append ``operator.getitem``, one for each step into nested tuples."""
        graph = self._graph
        source = graph.values[line.source]
        node, val = source.node, cast(object, source.node.meta.get("val"))
        for depth, index in enumerate(line.indices, start=1):
            name = line.result if depth == len(line.indices) else None
            val = cast(tuple[object, ...], val)[index] if isinstance(val, tuple) else None
            node = graph.nodes.call(operator.getitem, (node, index), name=name, val=val)
        graph.streams.alias(line.result, line.source)
        graph.values[line.result] = Value(node, line.type, source.roots | {line.result})

    def visit_record_event(self, line: RecordEventLine) -> None:
        """Append ``record_event``."""
        self._graph.streams.record(line)

    def visit_wait_event(self, line: WaitEventLine) -> None:
        """Append ``wait_event``."""
        self._graph.streams.wait(line)

    def visit_symbol_definition(self, line: SymbolDefinitionLine) -> None:
        """Append ``sym_size``, ``item`` and the like, and the check of its range."""
        emit_symbol(self._graph, line)

    def visit_assert_size_stride(self, line: AssertSizeStrideLine) -> None:
        """Append a check of a layout."""
        emit_assert_size_stride(self._graph, line)

    def visit_assert_alignment(self, line: AssertAlignmentLine) -> None:
        """Append a check of an address."""
        emit_assert_alignment(self._graph, line)

    def visit_assert_scalar(self, line: AssertScalarLine) -> None:
        """Append a check of a condition."""
        emit_assert_scalar(self._graph, line)

    def visit_assert_not_nan(self, line: AssertNotNanLine) -> None:
        """Append a check of every element."""
        emit_assert_not_nan(self._graph, line)

    def visit_conditional(self, line: ConditionalLine) -> None:
        """Append ``cond`` and a graph for each branch."""
        emit_conditional(self._graph, line)

    def visit_while_loop(self, line: WhileLoopLine) -> None:
        """Append ``while_loop`` and its two graphs."""
        emit_while_loop(self._graph, line)

    def visit_subgraph_call(self, line: SubgraphCallLine) -> None:
        """Append ``invoke_subgraph`` and its graph."""
        emit_subgraph_call(self._graph, line)

    def visit_comment(self, line: CommentLine) -> None:
        """Append nothing: the remark stays with the node that comes next."""


def emit_lines(graph: GraphContext, lines: Sequence[BodyLine], path: LinePath) -> None:
    """Append lines to a graph; ``path`` is the place of their tuple."""
    visitor = FxLines(graph)
    graph.pools = PoolDtypes(lines)
    for _, line in graph.walk(lines, path):
        graph.nodes.begin(line)
        visitor.visit(line)
