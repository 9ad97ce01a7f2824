"""Gradients of shared weights: products and updates of rows that add to a tensor.

Where they are sums of tensors, each of those needs memory and time of its own.
"""

from functools import partial
from typing import Any

import torch

from wrapperir.frontend.lowering.decompositions import append_function

aten: Any = torch.ops.aten

_EXACT = torch.float32, torch.float64
"""Dtypes whose sums are not computed in another."""


def accumulate_rows(graph: torch.fx.Graph) -> None:
    """Replace ``add(x, embedding_dense_backward(g, i, …))`` by updates of rows of ``x``.

    ::

        %e = embedding_dense_backward(%g, %i, …)
        %y = add(%x, %e)                            →    %y = index_put(%x, [%i], %g, True)

    The forward has checked the indices.
    """
    for node in graph.find_nodes(op="call_function", target=aten.add.Tensor):
        if node.kwargs:
            continue
        first, second = node.args
        for rows, other in ((first, second), (second, first)):
            if not _adds_rows(node, rows, other):
                continue
            gradient, index, _, padding, _ = rows.args
            with graph.inserting_before(node):
                if padding >= 0:
                    masked = partial(_without_padding, padding=padding)
                    gradient = append_function(graph, masked, gradient, index)
                arguments = (other, [index], gradient, True)
                total = graph.call_function(aten._unsafe_index_put.default, arguments)
            total.meta = dict(node.meta)
            node.replace_all_uses_with(total)
            graph.erase_node(node)
            graph.erase_node(rows)
            break


def _adds_rows(node: torch.fx.Node, rows: Any, other: Any) -> bool:
    """Say whether a sum adds the gradient of an embedding that nothing else needs.

    On a GPU, points of padding would all add to one row.
    """
    if not isinstance(rows, torch.fx.Node) or rows is other or len(rows.users) > 1:
        return False
    if rows.target is not aten.embedding_dense_backward.default or rows.args[4]:
        return False
    padding, total = rows.args[3], node.meta.get("val")
    if not isinstance(padding, int) or not isinstance(total, torch.Tensor):
        return False
    is_fast = padding < 0 or total.device.type == "cpu"
    return is_fast and total.dtype in _EXACT and _has_form_of(node, rows, other)


def _without_padding(
    gradient: torch.Tensor, index: torch.Tensor, padding: int
) -> torch.Tensor:
    """Return a gradient that is 0 where the index is the padding."""
    return gradient.masked_fill((index == padding).unsqueeze(-1), 0)


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
    return _has_form_of(node, *summands)


def _has_form_of(node: torch.fx.Node, *summands: Any) -> bool:
    """Say whether nodes have the dtype and the layout of another."""
    total: Any = node.meta["val"]
    found = [each.meta.get("val") for each in summands if isinstance(each, torch.fx.Node)]
    return len(found) == len(summands) and all(
        isinstance(value, torch.Tensor)
        and (value.dtype, value.shape, value.stride())
        == (total.dtype, total.shape, total.stride())
        for value in found
    )
