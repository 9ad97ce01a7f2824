"""Higher-order operators that are lowered as graphs of smaller operators."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._higher_order_ops.auto_functionalize import (
    auto_functionalized_dense,
    auto_functionalized_v2_dense,
)
from torch._higher_order_ops.flex_attention import (
    sdpa_dense,  # pyright: ignore[reportUnknownVariableType]
)
from torch._higher_order_ops.out_dtype import (
    out_dtype_dense,  # pyright: ignore[reportUnknownVariableType]
)
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from wrapperir.diagnostics import Code
from wrapperir.frontend.aten.values import is_symbolic

aten: Any = torch.ops.aten


def can_open(node: torch.fx.Node) -> bool:
    """Say whether :func:`opened` has a graph for a call of a higher-order operator."""
    return str(node.target) in _FUNCTIONS


def opened(
    node: torch.fx.Node, given: Sequence[torch.fx.Node], graphs: Callable[[Any], Any]
) -> torch.fx.GraphModule:
    """Return the graph of the operators that a node stands for.

    Its placeholders are the ``given`` nodes, those among the arguments that are tensors or
    numbers; its output has the form of the node's value.  ``graphs`` returns the graph that
    another node among the arguments names.
    """
    function = _FUNCTIONS[str(node.target)]

    def run(*values: Any) -> Any:
        known = dict(zip(given, values, strict=True))

        def put_in(argument: Any) -> Any:
            if not isinstance(argument, torch.fx.Node):
                return argument
            return known[argument] if argument in known else graphs(argument)

        args, kwargs = pytree.tree_map(put_in, (node.args, node.kwargs))
        return function(node, *args, **kwargs)

    examples = [each.meta["val"] for each in given]
    mode = detect_fake_mode([node.meta["val"], *examples])
    assert mode is not None
    with mode:
        traced: torch.fx.GraphModule = make_fx(run)(*examples)
    for part in traced.graph.nodes:
        for key in ("stack_trace", "nn_module_stack"):
            if key in node.meta:
                part.meta[key] = node.meta[key]
    return traced


def _functional(node: torch.fx.Node, *args: Any, **kwargs: Any) -> Any:
    return auto_functionalized_dense(*args, **kwargs)


def _functional_views(node: torch.fx.Node, *args: Any, **kwargs: Any) -> Any:
    return auto_functionalized_v2_dense(*args, **kwargs)


def _attend(node: torch.fx.Node, *args: Any, **kwargs: Any) -> Any:
    return sdpa_dense(*args, **kwargs)


def _cast(node: torch.fx.Node, *args: Any, **kwargs: Any) -> Any:
    return out_dtype_dense(*args, **kwargs)  # pyright: ignore[reportUnknownVariableType]


def _scan(
    node: torch.fx.Node, step: Any, init: Sequence[Any], xs: Sequence[Any], fixed: Any
) -> list[Any]:
    """Return the last carry and all results of a scan, from a loop over rows."""
    examples = node.meta["val"][len(init) :]
    count = len(init)

    def run(carry: Sequence[Any], rows: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        results = list(step(*carry, *rows, *fixed))
        return results[:count], results[count:]

    return _loop(run, init, xs, fixed, examples)


def _map(node: torch.fx.Node, function: Any, xs: Sequence[Any], fixed: Any) -> list[Any]:
    """Return the results of a function of each row, from a loop over rows."""

    def run(_: Sequence[Any], rows: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        return [], list(function(*rows, *fixed))

    return _loop(run, (), xs, fixed, node.meta["val"])


def _loop(
    run: Callable[[Sequence[Any], Sequence[Any]], tuple[list[Any], list[Any]]],
    init: Sequence[Any],
    xs: Sequence[Any],
    fixed: Sequence[Any],
    examples: Sequence[torch.Tensor],
) -> list[Any]:
    """Return the last carry, and results of all rows, which are like the examples."""
    length = xs[0].size(0)
    stacked = [
        torch.zeros((length, *_known(each)), dtype=each.dtype, device=each.device)
        for each in examples
    ]
    first, last = 1 + len(stacked), 1 + len(stacked) + len(init)

    def goes_on(at: Any, *rest: Any) -> Any:
        return at < length

    def body(at: Any, *rest: Any) -> Any:
        number = at.view(1)
        values = (at, *rest)
        rows = [
            aten.index_select.default(x, 0, number).squeeze(0)
            for x in values[last : last + len(xs)]
        ]
        carry, results = run(values[first:last], rows)
        filled = [
            aten.index_copy.default(old, 0, number, new.unsqueeze(0))
            for old, new in zip(values[1:first], results, strict=True)
        ]
        return (at + 1, *filled, *carry)

    while_loop: Any = torch.ops.higher_order.while_loop
    start = torch.zeros((), dtype=torch.int64)
    found = while_loop(goes_on, body, (start, *stacked, *init), (*xs, *fixed))
    return [*found[first:last], *found[1:first]]


def _known(example: torch.Tensor) -> Sequence[int]:
    """Return the size of a row of an example.

    Raises:
        DiagnosticError: WIR602, it is symbolic, so that no argument of the loop tells it.
    """
    if any(map(is_symbolic, example.shape[1:])):
        raise Code.UNSUPPORTED_OPERATOR.error("rows of a scan or map have a symbolic size")
    return example.shape[1:]


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "auto_functionalized": _functional,
    "auto_functionalized_v2": _functional_views,
    "flex_attention": _attend,
    "map_impl": _map,
    "out_dtype": _cast,
    "scan": _scan,
}
