"""Decomposition of single operators, where they have no rule."""

import contextlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import torch
from torch import _decomp
from torch._guards import detect_fake_mode
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from wrapperir.frontend.aten.small_products import summed_products
from wrapperir.frontend.lowering.formulas import FORMULAS
from wrapperir.frontend.lowering.rules import NotLoweredError

aten: Any = torch.ops.aten

_WITH_RULES = frozenset(
    {
        *(aten.all.default, aten.all.dim, aten.all.dims),
        *(aten._unsafe_index.Tensor, aten._unsafe_index_put.default, aten.take.default),
        *(aten.embedding_dense_backward.default, aten.roll.default),
        *(aten.select_scatter.default, aten.bernoulli.default),
        *(aten.reflection_pad1d.default, aten.reflection_pad1d_backward.default),
        *(aten.reflection_pad2d.default, aten.reflection_pad2d_backward.default),
        *(aten.reflection_pad3d.default, aten.reflection_pad3d_backward.default),
        *(aten.replication_pad1d.default, aten.replication_pad2d.default),
        aten.replication_pad3d.default,
    }
)
"""Operators whose rules make fewer loops than their decompositions do."""

_DECOMPOSED = (
    *(aten._softmax.default, aten._log_softmax.default, aten.native_layer_norm.default),
    *(aten._native_batch_norm_legit.no_stats, aten.linalg_vector_norm.default),
    aten._native_batch_norm_legit_functional.default,
)
"""Operators of the core set without rules: PyTorch's decompositions make as few kernels."""

_CALLED = frozenset[Any](
    {
        *(aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default),
        *(aten.convolution.default, aten.convolution_backward.default),
    }
)


@lru_cache(maxsize=1)
def table() -> Mapping[Any, Callable[..., Any]]:
    """Return the decompositions that graphs are made with."""
    core: Mapping[Any, Callable[..., Any]] = dict(_decomp.core_aten_decompositions())
    everything: Any = _decomp.decomposition_table
    kept = {
        operator: function
        for operator, function in core.items()
        if operator not in _WITH_RULES and not is_called(operator)
    }
    own = {each: everything[each] for each in _DECOMPOSED}
    return {**kept, **own, **FORMULAS, **summed_products(_call, _call)}


def _call(*args: Any, **kwargs: Any) -> Any:
    """Leave an operator as it is."""
    return NotImplemented


def is_called(operator: Any) -> bool:
    """Say whether a library computes an operator faster than loops of its decomposition."""
    return operator in _CALLED or "scaled_dot_product" in str(operator)


def decomposed(node: torch.fx.Node) -> torch.fx.Graph:
    """Return the graph of smaller operators that compute what a node does.

    Its placeholders are the nodes among the arguments, in the order of
    ``node.all_input_nodes``; its one output has the form of the node's value.

    Raises:
        NotLoweredError: PyTorch has no decomposition that applies.
    """
    target: Any = node.target
    everything: Any = _decomp.decomposition_table
    function: Callable[..., Any] | None = table().get(target) or everything.get(target)
    if function is None or is_called(target):
        raise NotLoweredError("no decomposition")
    if torch.Tag.nondeterministic_seeded in target.tags:
        raise NotLoweredError("its decomposition draws other numbers")
    given = node.all_input_nodes

    def run(*values: Any) -> Any:
        replaced = dict(zip(given, values, strict=True))

        def replace(argument: Any) -> Any:
            return replaced[argument] if isinstance(argument, torch.fx.Node) else argument

        args, kwargs = pytree.tree_map(replace, (node.args, node.kwargs))
        result = function(*args, **kwargs)
        if result is NotImplemented:
            raise NotLoweredError("it decomposes other arguments only")
        return tuple(result) if isinstance(result, tuple) else result

    examples = [each.meta["val"] for each in given]
    mode = detect_fake_mode(examples) or contextlib.nullcontext()
    try:
        with mode:  # also for the tensors that a decomposition makes of numbers
            traced: torch.fx.GraphModule = make_fx(run, table())(*examples)
            if any(map(_writes, traced.graph.nodes)):
                traced = make_fx(functionalize(traced), table())(*examples)
    except Exception as error:  # whatever a decomposition raises
        raise NotLoweredError(f"its decomposition failed: {error}") from error
    return traced.graph


def append_function(
    graph: torch.fx.Graph,
    function: Callable[..., torch.Tensor],
    *given: torch.fx.Node,
) -> torch.fx.Node:
    """Append the operators of a function of nodes; return the node of its result."""
    examples = [each.meta["val"] for each in given]
    with detect_fake_mode(examples) or contextlib.nullcontext():
        traced: torch.fx.GraphModule = make_fx(function, dict(table()))(*examples)
    parameters = traced.graph.find_nodes(op="placeholder")
    result = graph.graph_copy(traced.graph, dict(zip(parameters, given, strict=True)))
    assert isinstance(result, torch.fx.Node)
    return result


def _writes(node: torch.fx.Node) -> bool:
    """Say whether an operator writes to an argument, as some in decompositions do."""
    target: Any = node.target
    return node.op == "call_function" and bool(
        getattr(getattr(target, "_schema", None), "is_mutable", False)
    )
