"""Products that add to a tensor, in place of products whose results are added to it."""

from typing import Any

import torch

aten: Any = torch.ops.aten


def accumulate_products(graph: torch.fx.Graph) -> None:
    """Replace ``add(x, mm(a, b))`` by ``addmm(x, a, b)`` where the sum is an output.

    A gradient of shared weights is such a sum.  Its product is then computed where the sum
    is, so that only its operands stay in memory until then.  On a CPU only: on a GPU a
    kernel adds while it does other things.
    """
    for node in graph.find_nodes(op="call_function", target=aten.add.Tensor):
        first, second = node.args
        if node.kwargs or any(user.op != "output" for user in node.users):
            continue
        for summand, other in ((first, second), (second, first)):
            product = _product(summand)
            if product is None or not _can_accumulate(node, summand, product, other):
                continue
            with graph.inserting_before(node):
                total = graph.call_function(aten.addmm.default, (other, *product.args))
            total.meta = dict(node.meta)
            node.replace_all_uses_with(total)
            graph.erase_node(node)
            while summand is not product:
                assert isinstance(summand, torch.fx.Node)
                (source,) = summand.all_input_nodes
                graph.erase_node(summand)
                summand = source
            graph.erase_node(product)
            break


def _product(value: Any) -> torch.fx.Node | None:
    """Return the product that a value is, if need be permuted and permuted back."""
    while isinstance(value, torch.fx.Node) and len(value.users) == 1:
        if value.target is aten.mm.default:
            return value
        if value.target is not aten.permute.default:
            return None
        value = value.args[0]
    return None


def _can_accumulate(node: torch.fx.Node, *summands: Any) -> bool:
    """Say whether summands have the dtype and the layout of their sum, on a CPU.

    A permuted product of the layout of the product itself is the product.
    """
    total: Any = node.meta.get("val")
    if not isinstance(total, torch.Tensor) or total.device.type != "cpu":
        return False
    found = [each.meta.get("val") for each in summands if isinstance(each, torch.fx.Node)]
    return len(found) == len(summands) and all(
        isinstance(value, torch.Tensor)
        and (value.dtype, value.shape, value.stride())
        == (total.dtype, total.shape, total.stride())
        for value in found
    )
