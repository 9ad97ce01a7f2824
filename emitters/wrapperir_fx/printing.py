"""A graph as text: the code that FX writes for it, and for the graphs in it."""

# FX says little of its types.
# pyright: reportUnknownMemberType=false

from wrapperir.fx.attributes import GraphParts


def format_graph(name: str, parts: GraphParts) -> str:
    """Return the code of a graph and, after it, that of the graphs nested in it."""
    texts = [f"# {name}\n{parts.graph.python_code('self').src.strip()}\n"]
    texts += [
        format_graph(f"{name}.{attribute}", nested)
        for attribute, nested in parts.attributes.graphs.items()
    ]
    return "\n\n".join(texts)
