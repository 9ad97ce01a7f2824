"""Masks of attention that fused kernels refuse are given to them as dense copies."""

import operator
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from wrapperir.frontend.aten.attention import densify_masks, shorten_attention

attention = torch.nn.functional.scaled_dot_product_attention
aten = torch.ops.aten


def graph_with(
    sizes: Sequence[int],
    device: str = "cuda",
    form: str = "keyword",
    meta: str = "example_value",
) -> torch.fx.GraphModule:
    """Return attention with a mask of these sizes, expanded to 2, 3, 6 and 6."""
    graph = torch.fx.Graph()
    nodes = [graph.placeholder(name) for name in ("q", "k", "v", "given")]
    mask = graph.call_method("expand", (nodes[3], 2, 3, 6, 6))
    with FakeTensorMode():
        made = torch.empty(*sizes, dtype=torch.bool, device=device)
        mask.meta[meta] = made.expand(2, 3, 6, 6)
    function = aten.scaled_dot_product_attention.default if form == "aten" else attention
    results = [
        graph.call_function(function, tuple(nodes[:3]), {"attn_mask": mask})
        if form == "keyword"
        else graph.call_function(function, (*nodes[:3], mask))
        for _ in range(2)
    ]
    graph.output(tuple(results))
    return torch.fx.GraphModule(torch.nn.Module(), graph)


def copies(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    found = graph.graph.find_nodes(op="call_function", target=aten.contiguous.default)
    return list(found)


@given(
    st.tuples(*(st.sampled_from([1, n]) for n in (2, 3, 6, 6))),
    st.sampled_from(["keyword", "position", "aten"]),
    st.sampled_from(["example_value", "val"]),
    st.integers(0, 1000),
)
def test_results_stay(sizes: tuple[int, ...], form: str, meta: str, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(2, 3, 6, 4, generator=generator) for _ in range(3))
    mask = torch.rand(sizes, generator=generator) < 0.7
    graph = graph_with(sizes, form=form, meta=meta)
    wanted = graph(q, k, v, mask)
    densify_masks(graph)
    graph.graph.lint()
    torch.testing.assert_close(graph(q, k, v, mask), wanted, equal_nan=True)
    found = copies(graph)
    assert len(found) == (sizes[-1] == 1)  # both calls have the same
    for copy in found:
        (source,) = copy.all_input_nodes
        narrowed = source.target is aten.narrow.default
        assert narrowed == (1 in sizes[:2])


@pytest.mark.parametrize(
    "facts", [{"sizes": (2, 3, 6, 1), "device": "cpu"}, {"sizes": (1, 1, 1, 6)}]
)
def test_other_masks_stay(facts: dict[str, Any]) -> None:
    graph = graph_with(**facts)
    densify_masks(graph)
    assert not copies(graph)


def test_attention_without_a_mask_stays() -> None:
    graph = torch.fx.symbolic_trace(lambda q: attention(q, q, q, is_causal=True))
    before = graph.code
    densify_masks(graph)
    assert graph.code == before


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("is_training", [False, True])
def test_attention_is_fused(is_training: bool) -> None:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        seen = torch.arange(64, device="cuda")[:, None] >= 0
        return attention(q, k, v, attn_mask=seen.expand(2, 1, 64, 64))

    torch.manual_seed(0)
    made = torch.randn(3, 2, 4, 64, 32, device="cuda", dtype=torch.float16)
    q, k, v = (x.requires_grad_(is_training) for x in made.unbind())
    found = torch.compile(attend, backend="wrapperir")(q, k, v)
    wanted = attend(q.double(), k.double(), v.double())
    torch.testing.assert_close(found.double(), wanted, rtol=4e-3, atol=4e-3)
    if is_training:
        gradients = torch.autograd.grad(found.sum(), (q, k, v))
        expected = torch.autograd.grad(wanted.sum(), (q, k, v))
        torch.testing.assert_close(gradients, expected, rtol=1e-2, atol=1e-2)
    with torch.no_grad():
        compiled = torch.compile(attend, backend="wrapperir")
        compiled(q, k, v)  # tracing calls operators too
        with torch.profiler.profile() as seen:
            compiled(q, k, v)
    names = {event.name for event in seen.events()}
    assert any("scaled_dot_product" in name and "math" not in name for name in names)
    assert not names & {"aten::bmm", "aten::mm"}


def short_graph(
    positions: int = 64,
    keys: int | None = None,
    heads: int = 3,
    has_mask: bool = True,
    has_log_sum: bool = False,
    dropout: float = 0.0,
    result: int = 0,
) -> torch.fx.GraphModule:
    """Return attention as PyTorch traces it on recent GPUs."""
    graph = torch.fx.Graph()
    sizes = [(2, 3, positions, 8), *[(2, heads, keys or positions, 8)] * 2]
    with FakeTensorMode():
        values = [torch.empty(size, device="cuda", dtype=torch.float16) for size in sizes]
        mask = torch.empty(1, 1, positions, sizes[1][2], device="cuda", dtype=torch.float16)
    nodes = [graph.placeholder(name) for name in ("q", "k", "v", "mask")]
    for node, value in zip(nodes, (*values, mask), strict=True):
        node.meta["val"] = value
    call = graph.call_function(
        aten._scaled_dot_product_cudnn_attention.default,
        (*nodes[:3], nodes[3] if has_mask else None, has_log_sum, dropout),
        {"scale": 0.25},
    )
    graph.output(graph.call_function(operator.getitem, (call, result)))
    return torch.fx.GraphModule(torch.nn.Module(), graph)


@pytest.mark.parametrize("facts", [{}, {"keys": 8}, {"has_mask": False, "keys": 7}])
def test_few_positions_take_the_efficient_kernel(facts: dict[str, Any]) -> None:
    graph = short_graph(**facts).graph
    shorten_attention(graph)
    graph.lint()
    (result,) = graph.output_node().all_input_nodes
    (call,) = result.all_input_nodes
    assert call.target is aten._scaled_dot_product_efficient_attention.default
    assert call.kwargs == {"scale": 0.25}
    assert [value.shape for value in call.meta["val"][:1]] == [(2, 3, 64, 8)]
    mask = call.args[3]
    if facts.get("has_mask", True):
        assert isinstance(mask, torch.fx.Node)
        assert mask.meta["val"].shape == (2, 3, 64, facts.get("keys", 64))


@pytest.mark.parametrize(
    "facts",
    [
        {"positions": 65},
        {"positions": 1, "keys": 128},
        {"heads": 1},
        {"has_log_sum": True},
        {"dropout": 0.1},
        {"result": 1},
        {"keys": 7},
    ],
)
def test_other_attention_stays(facts: dict[str, Any]) -> None:
    graph = short_graph(**facts).graph
    before = str(graph)
    shorten_attention(graph)
    assert str(graph) == before


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("positions", [1, 40, 64])
@pytest.mark.parametrize("has_mask", [False, True])
def test_few_positions_are_attended(positions: int, has_mask: bool) -> None:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(positions, positions, device="cuda", dtype=torch.bool).tril()
        return attention(q, k, v, attn_mask=mask if has_mask else None)

    torch.manual_seed(0)
    made = torch.randn(3, 2, positions, 4, 32, device="cuda", dtype=torch.float16)
    q, k, v = made.transpose(2, 3).unbind()
    with torch.no_grad():
        found = torch.compile(attend, backend="wrapperir")(q, k, v)
    wanted = attend(q.double(), k.double(), v.double())
    torch.testing.assert_close(found.double(), wanted, rtol=4e-3, atol=4e-3)
    # The stride of one position means nothing.
    strides = zip(found.shape, found.stride(), attend(q, k, v).stride(), strict=True)
    assert all(count == 1 or ours == theirs for count, ours, theirs in strides)
