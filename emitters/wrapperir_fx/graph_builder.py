"""Builds the graph of a program, and formats it as code."""

from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit.context import ProgramFacts
from wrapperir.fx import GraphParts
from wrapperir.ir import Program, ScalarType
from wrapperir_fx.context import GraphContext, ProgramContext
from wrapperir_fx.lines import FxLines, emit_lines
from wrapperir_fx.streams import find_gpu_streams
from wrapperir_fx.symbols import convert_input


def build_graph(program: Program) -> GraphParts:
    """Return the graph of a verified program; nothing of the program is run.

    The Triton kernels in it are named by their place in ``program.definitions``.

    Raises:
        DiagnosticError: the program holds what a graph cannot express; all such places
            are named.
    """
    context = ProgramContext(ProgramFacts(program), find_gpu_streams(program), emit_lines)
    graph = GraphContext(context)
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
            convert_input(graph, given.name, given.type)
    visitor = FxLines(graph)
    for symbol in program.symbols:
        visitor.visit(symbol)
    graph.streams.begin()
    emit_lines(graph, program.lines, ("lines",))
    outputs = tuple([graph.arguments.of(output) for output in program.outputs])
    graph.streams.end(program.outputs)
    graph.nodes.output(outputs)
    if context.problems:
        raise DiagnosticError(*context.problems)
    return GraphParts(graph.nodes.graph, graph.attributes)


def format_graph(name: str, parts: GraphParts) -> str:
    """Return the code of a graph and, after it, that of the graphs nested in it."""
    texts = [f"# {name}\n{parts.graph.python_code('self').src.strip()}\n"]
    texts += [
        format_graph(f"{name}.{attribute}", nested)
        for attribute, nested in parts.attributes.graphs.items()
    ]
    return "\n\n".join(texts)
