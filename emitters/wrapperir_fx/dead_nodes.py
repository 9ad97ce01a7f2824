"""Erases nodes without effect before a graph's own code runs.

They inform readers of the graph, and other compilers drop them; the code of a long graph
of small operators would spend most of its time on them.
"""

# FX says little of its types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import torch
from torch.fx import Graph, Node

from wrapperir.fx import LINES, functions
from wrapperir.ir import ReuseLine


def erase_dead_nodes(graph: Graph) -> None:
    """Erase frees, and reuses of memory that has a node with the same layout.

    The code drops a value after its last use, so without a free it does so no later.
    """
    seen: dict[object, Node] = {}
    for node in list(graph.nodes):
        if node.target is functions.free:
            (source,) = node.args
            # The code keeps an input that nothing uses until it returns.
            if isinstance(source, Node) and len(source.users) > 1:
                graph.erase_node(node)
        elif node.target is torch.as_strided:
            known = _seen_before(node, seen)
            lines = node.meta.get(LINES, ())
            if known is not None and lines and isinstance(lines[-1], ReuseLine):
                node.replace_all_uses_with(known)
                graph.erase_node(node)


def _seen_before(node: Node, seen: dict[object, Node]) -> Node | None:
    """Return an earlier node of the same memory and layout; record this one.

    A node that is an output is never returned: outputs stay distinct tensors.
    """
    root = node.args[0]
    assert isinstance(root, Node)
    layout = _layout(node)
    if _layout(root) == layout and not _is_returned(root):
        return root
    known = seen.setdefault((root, layout), node)
    return None if known is node or _is_returned(known) else known


def _is_returned(node: Node) -> bool:
    return any(user.op == "output" for user in node.users)


def _layout(node: Node) -> tuple[object, ...]:
    look = node.meta.get("val")
    assert isinstance(look, torch.Tensor)
    numbers = (*look.size(), *look.stride(), look.storage_offset())
    # To compare symbolic numbers would decide whether they are equal.
    exact = [n.node.expr if isinstance(n, torch.SymInt) else n for n in numbers]
    return (look.dtype, look.dim(), *exact)
