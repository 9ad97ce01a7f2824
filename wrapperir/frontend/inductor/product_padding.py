"""Padding of matrix products, without copies of rows that Inductor pads anyway."""

import contextlib
from collections.abc import Generator
from contextvars import ContextVar
from typing import Any

import torch
from attrs import field, frozen
from torch._inductor import config
from torch._inductor.fx_passes import pad_mm
from torch._inductor.graph import mark_nodes_dislike_padding
from torch._inductor.lowering import fallbacks

aten = torch.ops.aten

_PRODUCTS: Any = (aten.mm, aten.addmm)
_MADE_BY_LIBRARIES = frozenset[Any](
    (
        aten.mm.default,
        aten.addmm.default,
        aten.bmm.default,
        aten.baddbmm.default,
        aten.convolution.default,
        aten.convolution_backward.default,
    )
)


@frozen
class Padding:
    """Decisions about the products of the graphs that are compiled at one time."""

    _dense: dict[torch.fx.Graph, set[torch.fx.Node]] = field(factory=dict, init=False)

    def is_needed(self, x: torch.fx.Node, w: torch.fx.Node) -> bool:
        """Return whether rows of an operand of ``x @ w``, or of it, may be unaligned."""
        weights: torch.Tensor = w.meta["val"]
        step: int = pad_mm.get_alignment_size(weights)
        is_aligned = (
            _is_multiple(weights.shape[1], step)
            and self._is_aligned(x, step)
            and self._is_aligned(w, step)
        )
        return not is_aligned

    def _is_aligned(self, operand: torch.fx.Node, step: int) -> bool:
        value: torch.Tensor = operand.meta["val"]
        sizes, strides = value.shape, value.stride()
        if 1 not in strides:
            return False
        along = 0 if strides[0] == 1 else 1
        stride = strides[1 - along]
        return _is_multiple(stride, step) or (
            stride == sizes[along]
            and self._has_padded_rows(pad_mm.get_non_view_def(operand), stride)
        )

    def _has_padded_rows(self, maker: torch.fx.Node, size: int | torch.SymInt) -> bool:
        """Return whether Inductor's kernel for a node will pad rows of this size."""
        made = maker.meta.get("val")
        return (
            config.comprehensive_padding
            and isinstance(size, int)
            and size > config.padding_stride_threshold
            and maker.op == "call_function"
            and maker.target not in _MADE_BY_LIBRARIES
            and maker.target not in fallbacks
            and isinstance(made, torch.Tensor)
            and made.is_contiguous()
            and made.shape[-1] == size
            and maker not in self._dense_nodes(maker.graph)
        )

    def _dense_nodes(self, graph: torch.fx.Graph) -> set[torch.fx.Node]:
        if graph not in self._dense:
            self._dense[graph] = dense_nodes(graph)
        return self._dense[graph]


def _is_multiple(size: int | torch.SymInt, step: int) -> bool:
    return isinstance(size, int) and step > 0 and size % step == 0


def dense_nodes(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """Return the nodes whose rows Inductor does not pad, as something needs them dense.

    The caller needs the results of a forward so, but not gradients, which depend on
    tangents.
    """
    depends = set[torch.fx.Node]()
    for node in graph.nodes:
        is_tangent = node.op == "placeholder" and "tangents" in str(node.target)
        if is_tangent or not depends.isdisjoint(node.all_input_nodes):
            depends.add(node)
    outputs: dict[torch.fx.Node, tuple[int, ...]] = {
        node: () for node in graph.output_node().all_input_nodes if node not in depends
    }
    mark_nodes_dislike_padding(graph, outputs)
    # Inductor marks nodes again, after further passes.
    return {node for node in graph.nodes if node.meta.pop("dislike_padding", False)}


_PADDING = ContextVar[Padding | None]("wrapperir_padding", default=None)


@contextlib.contextmanager
def padding_where_needed() -> Generator[None]:
    """Have Inductor, in this thread, copy operands to padded ones only if rows need it.

    It compares a product of dense operands with a padded product.  But the kernels that it
    writes pad long rows, so such a copy of what they make gains nothing.
    """
    token = _PADDING.set(Padding())
    try:
        yield
    finally:
        _PADDING.reset(token)


def _should_pad(match: Any, mat1: Any, mat2: Any, op: Any, input: Any = None) -> bool:
    padding = _PADDING.get()
    if padding is not None and op in _PRODUCTS:
        x, w = match.kwargs["mat1"], match.kwargs["mat2"]
        if not padding.is_needed(x, w):
            return False
    decided: bool = _STOCK(match, mat1, mat2, op, input)
    return decided


# For the process, as scopes of two threads may overlap; outside a scope it does nothing.
_STOCK = pad_mm.should_pad
pad_mm.should_pad = _should_pad
