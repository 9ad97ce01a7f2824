"""Rows of matrices that are padded, so that GPUs read and write them aligned.

cuBLAS has fast kernels only for rows that begin at multiples of 16 bytes, which rows of
50,257 halves do not.  Inductor copies such operands to padded ones; here what is computed
is laid out so from the start, also what a forward saves for its backward.
"""

from collections.abc import Iterator, Sequence, Set
from typing import Any

import torch
from torch._guards import TracingContext, detect_fake_mode

from wrapperir.frontend.aten.values import is_symbolic

aten: Any = torch.ops.aten

ALIGNED_BYTES = 16
LEAST_COLUMNS = 64
LEAST_ROWS = 16

_MATRICES = {
    aten.mm.default: slice(0, 2),
    aten.bmm.default: slice(0, 2),
    aten.addmm.default: slice(1, 3),
}
"""The matrix operands of products."""

_VIEWS = frozenset[Any](
    {
        *(aten.view.default, aten._unsafe_view.default, aten.unsqueeze.default),
        *(aten.t.default, aten.transpose.int, aten.permute.default, aten.alias.default),
        *(aten.slice.Tensor, aten.select.int, aten.expand.default, aten.squeeze.dims),
        *(aten.squeeze.dim, aten.detach.default),
    }
)

DEVICES = frozenset({"cuda"})

_BEFORE = "layout_before_padding"


def is_product(node: torch.fx.Node) -> bool:
    """Say whether a node is a matrix product, whose result may have any layout."""
    return node.target in _MATRICES


def take_examples(module: torch.fx.GraphModule, examples: Sequence[Any]) -> None:
    """Note layouts of inputs that are not those that the graph was traced with.

    A backward is given what its forward saved, which may be padded.
    """
    placeholders = module.graph.find_nodes(op="placeholder")
    for node, example in zip(placeholders, examples, strict=True):
        before = node.meta.get("val")
        if isinstance(example, torch.Tensor) and is_padded(example):
            assert isinstance(before, torch.Tensor)
            if before.stride() != example.stride():
                _set_layout(node, example)


def pad_rows(module: torch.fx.GraphModule, *, saves: bool) -> None:
    """Give results of products, and what products are computed from, padded rows.

    So has what a forward ``saves`` for its backward, which reads it faster.  Layouts are
    noted in ``meta["val"]`` of nodes of functional ATen graphs, and of their views.  What
    the caller sees keeps its layout.
    """
    graph = module.graph
    results: Any = graph.output_node().args[0]
    seen = _results_of_caller(len(results), saves=saves)
    visible = {node for node in results[:seen] if isinstance(node, torch.fx.Node)}
    for node in graph.nodes:
        if is_product(node):
            operands = map(_computed, node.args[_MATRICES[node.target]])
            for each in (node, *operands):
                _pad(each, visible)
    for saved in results[seen:]:
        _pad(_computed(saved), visible)


def padded_strides(module: torch.fx.GraphModule) -> Sequence[Sequence[int] | None]:
    """Return the strides of the results of a graph that are padded."""
    found: list[Sequence[int] | None] = []
    results: Any = module.graph.output_node().args[0]
    for result in results:
        example = result.meta.get("val") if isinstance(result, torch.fx.Node) else None
        stride = None
        if isinstance(example, torch.Tensor) and is_padded(example):
            stride = tuple(example.stride())
        found.append(stride)
    return found


def report_strides(strides: Sequence[Sequence[int] | None]) -> None:
    """Tell AOTAutograd the strides of results that are not as it traced them."""
    context = TracingContext.try_get()
    if context is not None and context.output_strides is not None:
        context.output_strides += [None if x is None else tuple(x) for x in strides]


def is_padded(example: torch.Tensor) -> bool:
    """Say whether a tensor is dense but for the padding of its rows."""
    if example.dim() < 2 or any(map(is_symbolic, example.shape)):
        return False
    stride = _padded_stride(example.shape, example.element_size())
    return example.stride() == stride and not example.is_contiguous()


def lay_out_as_before(node: torch.fx.Node) -> None:
    """Undo the padding of a node whose operator lays out its result itself."""
    if _BEFORE in node.meta:
        node.meta["val"] = node.meta.pop(_BEFORE)


def _padded_stride(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    aligned = ALIGNED_BYTES // itemsize
    stride = [1]
    step = -(-shape[-1] // aligned) * aligned
    for extent in reversed(shape[:-1]):
        stride.append(step)
        step *= extent
    return tuple(reversed(stride))


def _results_of_caller(count: int, *, saves: bool) -> int:
    """Return how many results of a graph are the caller's; they come first."""
    if not saves:
        return count
    context = TracingContext.get()
    assert context.fw_metadata is not None
    return int(context.fw_metadata.num_forward_returns)


def _computed(operand: Any) -> Any:
    """Return the node that an operand is a view of."""
    while isinstance(operand, torch.fx.Node) and operand.target in _VIEWS:
        operand = operand.args[0]
    return operand


def _pad(node: Any, visible: Set[torch.fx.Node]) -> None:
    """Pad the rows of what a node computes, if that suits its use."""
    if not isinstance(node, torch.fx.Node) or node.op != "call_function":
        return
    example = node.meta.get("val")
    if not isinstance(example, torch.Tensor) or not _suits(example):
        return
    if not visible & {node, *_views(node)}:
        stride = _padded_stride(example.shape, example.element_size())
        mode = detect_fake_mode([example])
        assert mode is not None
        with mode:
            padded = example.new_empty_strided(example.shape, stride)
        _set_layout(node, padded)


def _suits(example: torch.Tensor) -> bool:
    return (
        example.device.type in DEVICES
        and example.dtype in (torch.float16, torch.bfloat16)
        and example.dim() >= 2
        and not any(map(is_symbolic, example.shape))
        and example.is_contiguous()
        and example.shape[-1] * example.element_size() % ALIGNED_BYTES != 0
        and example.shape[-1] >= LEAST_COLUMNS
        and example.numel() >= LEAST_ROWS * example.shape[-1]
    )


def _views(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """Yield the views of what a node computes, each after what it views."""
    for user in node.users:
        if user.target in _VIEWS:
            yield user
            yield from _views(user)


def _set_layout(node: torch.fx.Node, example: torch.Tensor) -> None:
    """Note an example of a node, and what that makes of its views."""
    found = {node: example}
    mode = detect_fake_mode([example])
    assert mode is not None
    try:
        with mode:
            for view in _views(node):
                viewed, *rest = view.args
                function: Any = view.target
                found[view] = function(found[viewed], *rest, **view.kwargs)  # type: ignore[index]
    except (RuntimeError, ValueError):  # a view joins rows
        return
    for each, value in found.items():
        each.meta.setdefault(_BEFORE, each.meta["val"])
        each.meta["val"] = value
