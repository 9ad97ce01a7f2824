"""What the values of a graph look like, put back where a saved graph is loaded."""

# FX says little of its types.
# pyright: reportUnknownMemberType=false

from collections.abc import Callable

from torch.fx import GraphModule, Node

from wrapperir.diagnostics import DiagnosticError
from wrapperir.fx.attributes import GraphParts
from wrapperir.fx.metadata import recorded_program
from wrapperir_fx.graph_builder import build_graph


def restore_values(module: GraphModule, describe: Callable[[Node], object]) -> None:
    """Give each node that is as its line makes it the ``val`` that it had.

    The lines of the graph are built once more for that.  Nodes that were changed, and
    those that take their results, get none; nor does any where the lines are no longer a
    program.  ``describe`` returns a node as data: two that are called alike have one text.
    """
    program = recorded_program(module)
    if program is None:
        return
    try:
        parts = build_graph(program)
    except DiagnosticError:
        return
    _restore(module, parts, describe)


def _restore(
    module: GraphModule, parts: GraphParts, describe: Callable[[Node], object]
) -> bool:
    """Restore the values of a graph and those nested in it; say whether all are alike."""
    changed = {
        name
        for name, nested in parts.attributes.graphs.items()
        if not _restore_nested(getattr(module, name, None), nested, describe)
    }
    built: dict[str, Node] = {node.name: node for node in parts.graph.nodes}
    alike: set[Node] = set()
    for node in module.graph.nodes:
        twin = built.get(node.name)
        if (
            twin is None
            or node.target in changed
            or not alike.issuperset(node.all_input_nodes)
            or repr(describe(node)) != repr(describe(twin))
        ):
            continue
        alike.add(node)
        if "val" in twin.meta:
            node.meta["val"] = twin.meta["val"]
    return not changed and len(alike) == len(built) == len(module.graph.nodes)


def _restore_nested(
    held: object, parts: GraphParts, describe: Callable[[Node], object]
) -> bool:
    return isinstance(held, GraphModule) and _restore(held, parts, describe)
