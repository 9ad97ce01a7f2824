"""The graph of a program as code to read."""

from collections.abc import Iterator

from torch.fx import Graph

from wrapperir.diagnostics import LinePath
from wrapperir.emit.line_record import active_record
from wrapperir.fx import LINES, GraphParts
from wrapperir.ir import Program
from wrapperir.ir.blocks import walk_places


def format_graph(program: Program, parts: GraphParts) -> str:
    """Return the code of a graph and, after it, that of the graphs nested in it."""
    graphs = list(_named_graphs(program.name, parts))
    texts = [
        f"# {name}\n{graph.python_code('self').src.strip()}\n" for name, graph in graphs
    ]
    text = "\n\n".join(texts)
    record = active_record()
    if record is not None:
        places = {id(line): path for line, path in walk_places(program.lines)}
        paths = [
            path
            for (_, graph), each in zip(graphs, texts, strict=True)
            for path in (*_paths(graph, each, places), ())  # an empty line comes between
        ]
        record.keep(text, paths[:-1])
    return text


def _named_graphs(name: str, parts: GraphParts) -> Iterator[tuple[str, Graph]]:
    yield name, parts.graph
    for attribute, nested in parts.attributes.graphs.items():
        yield from _named_graphs(f"{name}.{attribute}", nested)


def _paths(graph: Graph, text: str, places: dict[int, LinePath]) -> Iterator[LinePath]:
    """Yield the path of the program's line for each line of a graph's code.

    A line of code begins with the name of its node.  The first node of a line of the
    program has that line, after those lines that made no node.
    """
    found: dict[str, LinePath] = {}
    path: LinePath = ()
    for node in graph.nodes:
        lines = node.meta.get(LINES, ())
        if node.op == "output":
            path = ()
        elif lines:
            path = places.get(id(lines[-1]), ())
        found[node.name] = path
    for line in text.split("\n"):
        yield found.get(line.partition("=")[0].partition(":")[0].strip(), ())
