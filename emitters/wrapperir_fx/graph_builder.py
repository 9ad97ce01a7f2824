"""Builds the graph of a program, one function a line kind."""

# mypy checks that these functions are methods; pyright wants the base class as ``self``.
# pyright: reportAssignmentType=false

import operator
from collections.abc import Sequence
from typing import cast

from wrapperir.diagnostics import DiagnosticError, LinePath
from wrapperir.emit.context import ProgramFacts
from wrapperir.emit.partial_lines import OperatorCollectives
from wrapperir.fx import GraphParts, functions
from wrapperir.ir import (
    BodyLine,
    CommentLine,
    FreeLine,
    KernelDefinitionLine,
    MultiKernelLine,
    MultiOutputLine,
    Program,
    ScalarType,
)
from wrapperir_fx import blocks, checks, memory
from wrapperir_fx.context import GraphContext, GraphValue, ProgramContext
from wrapperir_fx.kernel_calls import emit_kernel_call
from wrapperir_fx.operator_calls import emit_extern_kernel, fx_argument
from wrapperir_fx.streams import (
    emit_record_event,
    emit_wait_event,
    find_gpu_streams,
    streams_of_call,
)


class LineGraph(GraphContext, OperatorCollectives):
    """Appends each line's nodes to one graph."""

    visit_allocate = memory.emit_allocate
    visit_allocate_pool = memory.emit_allocate_pool
    visit_place = memory.emit_place
    visit_reuse = memory.emit_view
    visit_reinterpret = memory.emit_view
    visit_kernel_call = emit_kernel_call
    visit_extern_kernel = emit_extern_kernel
    visit_record_event = emit_record_event
    visit_wait_event = emit_wait_event
    visit_symbol_definition = checks.emit_symbol
    visit_assert_size_stride = checks.emit_assert_size_stride
    visit_assert_alignment = checks.emit_assert_alignment
    visit_assert_scalar = checks.emit_assert_scalar
    visit_assert_not_nan = checks.emit_assert_not_nan
    visit_conditional = blocks.emit_conditional
    visit_while_loop = blocks.emit_while_loop
    visit_subgraph_call = blocks.emit_subgraph_call
    visit_graph_region = blocks.emit_graph_region

    def visit_free(self, line: FreeLine) -> None:
        """Append ``free``, the last use of a value."""
        self.nodes.call(functions.free, (self.values[line.buffer].node,))

    def visit_multi_output(self, line: MultiOutputLine) -> None:
        """Append ``operator.getitem``, one for each step into nested tuples."""
        source = self.values[line.source]
        node, val = source.node, cast(object, source.node.meta.get("val"))
        for depth, index in enumerate(line.indices, start=1):
            name = line.result if depth == len(line.indices) else None
            val = cast(tuple[object, ...], val)[index] if isinstance(val, tuple) else None
            node = self.nodes.call(operator.getitem, (node, index), name=name, val=val)
        self.streams.alias(line.result, line.source)
        roots = source.roots | {line.result}
        self.values[line.result] = GraphValue(node, line.type, roots)

    def visit_kernel_definition(self, line: KernelDefinitionLine) -> None:
        """Append nothing: calls name the kernel."""
        if line.name in self.facts.kernel_devices:
            self.check_source(line)

    def visit_multi_kernel(self, line: MultiKernelLine) -> None:
        """Append nothing: calls go to the choice, or name the multi-kernel."""

    def visit_comment(self, line: CommentLine) -> None:
        """Append nothing: the remark stays with the node that comes next."""

    def emit_lines(self, lines: Sequence[BodyLine], path: LinePath) -> None:
        """Append lines; ``path`` is the place of their tuple."""
        for _, line in self.walk(lines, path):
            self.nodes.begin(line)
            self.visit(line)


def build_graph(program: Program) -> GraphParts:
    """Return the graph of a verified program; nothing of the program is run.

    The Triton kernels in it are named by their place in ``program.definitions``.

    Raises:
        DiagnosticError: the program holds what a graph cannot express; all such places
            are named.
    """
    facts = ProgramFacts(program)
    context = ProgramContext(facts, *find_gpu_streams(facts))
    graph = LineGraph(context)
    for _, definition in graph.walk(program.definitions, ("definitions",)):
        graph.visit(definition)
    for given in program.inputs:
        val = graph.fakes.of(given.type, given.name)
        node = graph.nodes.placeholder(given.name, val)
        graph.give(given.name, given.type, node)
    for constant in program.constants:
        attribute = graph.attributes.bind(constant.name, constant.key)
        val = graph.fakes.of(constant.type)
        node = graph.nodes.get_attr(attribute, name=constant.name, val=val)
        graph.give(constant.name, constant.type, node)
    for given in program.inputs:
        if isinstance(given.type, ScalarType):
            checks.convert_input(graph, given.name, given.type)
    for symbol in program.symbols:
        graph.visit(symbol)
    with streams_of_call(graph):
        graph.emit_lines(program.lines, ("lines",))
        outputs = tuple([fx_argument(graph, output) for output in program.outputs])
    graph.nodes.output(outputs)
    if context.problems:
        raise DiagnosticError(*context.problems)
    return GraphParts(graph.nodes.graph, graph.attributes)
