"""What a forward saves for its backward."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tests.frontend_lowering.lowered import copied
from wrapperir.frontend.lowering.decompositions import table
from wrapperir.frontend.lowering.partition import partition
from wrapperir.frontend.profile_marks import marking

X = torch.randn(2, 3, 9, 8, requires_grad=True)
SOLID = torch.randn(1, 2, 5, 6, 4, requires_grad=True)


def _gradients(function: Callable[..., Any], *given: torch.Tensor) -> Sequence[Any]:
    """Return the results of a function, and the gradients of the square of the first."""
    inputs = [copied(each) for each in given]
    torch.manual_seed(0)
    results = function(*inputs)
    several = results if isinstance(results, tuple) else (results,)
    several[0].square().sum().backward()
    return (*several, *(each.grad for each in inputs))


def _saved(function: Callable[..., Any], *given: torch.Tensor) -> list[torch.fx.Node]:
    """Return what a forward returns, after comparing the gradients with eager."""
    graphs: list[torch.fx.Graph] = []

    def compile(module: torch.fx.GraphModule, _: Sequence[Any]) -> Any:
        graphs.append(module.graph)
        return marking(lambda values: module(*values), "")

    backend: Any = aot_autograd(
        fw_compiler=compile,
        bw_compiler=compile,
        decompositions=dict(table()),
        partition_fn=partition,
    )
    torch._dynamo.reset()
    compiled = torch.compile(function, backend=backend)
    expected = _gradients(function, *given)
    torch.testing.assert_close(_gradients(compiled, *given), expected)
    assert len(graphs) == 2
    return graphs[0].output_node().all_input_nodes


def _dtypes(nodes: Sequence[torch.fx.Node]) -> set[torch.dtype]:
    return {node.meta["val"].dtype for node in nodes}


@pytest.mark.parametrize(
    ("x", "window"),
    [
        (X, {"kernel_size": 2}),
        (X, {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
        (X, {"kernel_size": (3, 2), "stride": (1, 2), "dilation": (2, 3)}),
        (SOLID, {"kernel_size": (2, 3, 2), "stride": 1, "padding": (1, 1, 0)}),
    ],
)
def test_positions_of_maxima_are_saved_as_bytes(
    x: torch.Tensor, window: dict[str, Any]
) -> None:
    pool = functional.max_pool2d if x is X else functional.max_pool3d
    saved = _saved(lambda x: pool(x.sin(), **window), x)
    assert _dtypes(saved) == {torch.float32, torch.int8}


def test_positions_that_are_returned_are_those_of_eager() -> None:
    saved = _saved(lambda x: functional.max_pool2d(x, 3, return_indices=True), X)
    assert torch.int64 in _dtypes(saved)


def test_positions_in_large_windows_are_saved() -> None:
    x = torch.randn(1, 1, 24, 24, requires_grad=True)
    saved = _saved(lambda x: functional.max_pool2d(x, 12), x)
    assert _dtypes(saved) == {torch.float32, torch.int64}


def test_a_tensor_is_saved_once() -> None:
    def attend(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        q, k, v = x.sin(), x.cos(), x.exp()
        y = functional.scaled_dot_product_attention(q, k, v)
        return y.transpose(1, 2).reshape(2, 9, 24) @ w

    saved = _saved(attend, X, torch.randn(24, 24, requires_grad=True))
    assert all(node.target is not torch.ops.aten.alias.default for node in saved)


@pytest.mark.parametrize(
    "pool",
    [
        lambda x: functional.avg_pool2d(x, 2),
        lambda x: functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
        lambda x: functional.max_pool2d(x, 2),
        lambda x: functional.adaptive_avg_pool2d(x, (2, 3)),
        lambda x: functional.adaptive_max_pool2d(x, (2, 3)),
    ],
)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_what_is_pooled_is_not_saved_for_its_shape(
    pool: Callable[[torch.Tensor], torch.Tensor], layout: torch.memory_format
) -> None:
    x = X.detach().to(memory_format=layout).requires_grad_()
    w = torch.randn(4, 3, 2, 2, requires_grad=True)
    saved = _saved(lambda x, w: pool(torch.conv2d(x, w)), x, w)
    targets = [node.target for node in saved if node.op == "call_function"]
    assert torch.ops.aten.convolution.default not in targets
    assert torch.ops.aten.full.default not in targets


def _in_a_checkpoint(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given: checkpoint(function, *given, use_reentrant=False)


def test_what_is_drawn_in_a_checkpoint_is_saved() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return functional.dropout(x.sin(), 0.5).exp()

    saved = _saved(_in_a_checkpoint(function), torch.randn(64, requires_grad=True))
    assert torch.bool in _dtypes(saved)


def test_attention_without_dropout_runs_again_in_a_checkpoint() -> None:
    q = torch.randn(1, 2, 8, 4, requires_grad=True)

    def function(q: torch.Tensor) -> Any:
        attended = functional.scaled_dot_product_attention(q.sin(), q, q)
        return functional.scaled_dot_product_attention(attended.exp(), q, q).exp()

    saved = _saved(_in_a_checkpoint(function), q)
    # What is returned, and what is given.
    assert [node.op for node in saved] == ["call_function", "placeholder"]
