"""Tensors that operators change: copies of their first argument, or it itself.

A functional graph has the new contents of a tensor as another tensor.  Where nothing reads
the old contents later, they need no copy::

    %new = index_put(%cache, [%at], %row)          store cache[at] = row
    copy_(%cache, %new)
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from wrapperir.frontend.aten.sharing import storage_key
from wrapperir.frontend.lowering.scope import LoopScope
from wrapperir.frontend.lowering.values import IndexedTensor

aten: Any = torch.ops.aten


def changed(scope: LoopScope, node: torch.fx.Node) -> IndexedTensor:
    """Return a tensor with the contents of a node's first argument, to be written to."""
    source = scope.tensor(node.args[0])
    if may_overwrite(scope, node):
        return source
    result = scope.allocate(node.name, node.meta["val"])
    scope.copy(source, result, node.name)
    return result


def keep_old_values(scope: LoopScope, node: torch.fx.Node, target: IndexedTensor) -> None:
    """Copy the values in a buffer that are needed after a node has written the buffer.

    In eager mode they are memory of their own, and here views, such as those of ``flip``.
    """
    written: Any = node.args[0]
    storage = storage_key(written.meta["val"])
    for each in list(_views(scope, written, target.buffer)):
        value = scope.values[each]
        if not isinstance(value, IndexedTensor):
            continue
        is_needed = any(
            user is not node and user not in scope.values for user in each.users
        )
        example: torch.Tensor = each.meta["val"]
        if is_needed and storage_key(example) != storage:
            kept = scope.allocate(each.name, example)
            scope.copy(value, kept, each.name)
            scope.values[each] = kept


def may_overwrite(scope: LoopScope, node: torch.fx.Node) -> bool:
    """Say whether a node's first argument may be changed: nothing reads it afterwards.

    An input of the graph may be changed if the graph writes all of it later.
    """
    source: Any = node.args[0]
    tensor = scope.tensor(source)
    example: torch.Tensor = node.meta["val"]
    if scope.is_decomposing or example.dtype != source.meta["val"].dtype:
        return False
    if any(_is_of(scope, each, tensor.buffer) for each in node.all_input_nodes[1:]):
        return False
    is_written = tensor.buffer not in scope.inputs
    for each in _views(scope, source, tensor.buffer):
        if _is_alias(scope, each, tensor.buffer):
            return False
        for user in each.users:
            if user is node:
                continue
            if user in scope.values:
                if _may_view(user) and not _is_of(scope, user, tensor.buffer):
                    return False  # a call that returned a view, as another buffer
                continue
            if user.target is not aten.copy_.default or user.args[1] is each:
                return False
            if each.op != "placeholder":
                return False
            is_written = True
    return is_written and not (tensor.buffer in scope.inputs and _is_returned(node))


def _is_alias(scope: LoopScope, node: torch.fx.Node, buffer: str) -> bool:
    """Say whether a buffer may be the view of another that a call returned."""
    is_call = node.op == "call_function" and _may_view(node)
    return is_call and not any(_is_of(scope, e, buffer) for e in node.all_input_nodes)


def _is_returned(node: torch.fx.Node) -> bool:
    """Say whether the graph returns a node or a view of it, which inputs must not be."""
    found = {node}
    pending = [node]
    while pending:
        for user in pending.pop().users:
            if user.op == "output":
                return True
            if user not in found and _may_view(user):
                found.add(user)
                pending.append(user)
    return False


def _may_view(node: torch.fx.Node) -> bool:
    """Say whether an operator may return a view of an argument, here or in eager."""
    schema: Any = getattr(node.target, "_schema", None)
    if schema is None or node.target is aten.flip.default:
        return True
    return any(each.alias_info for each in schema.returns)


def _is_of(scope: LoopScope, node: torch.fx.Node, buffer: str) -> bool:
    """Say whether the value of a node is in a buffer."""
    leaves = pytree.tree_leaves(scope.values.get(node))
    return any(isinstance(each, IndexedTensor) and each.buffer == buffer for each in leaves)


def _views(scope: LoopScope, node: torch.fx.Node, buffer: str) -> Iterator[torch.fx.Node]:
    """Yield the nodes whose values are in a buffer; they use each other."""
    found = {node}
    pending = [node]
    while pending:
        at = pending.pop()
        yield at
        for other in (*at.all_input_nodes, *at.users):
            if other not in found and _is_of(scope, other, buffer):
                found.add(other)
                pending.append(other)
