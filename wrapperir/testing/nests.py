"""Hypothesis strategies for loop nests of every kind of instruction.

A nest grows by steps; each adds a few instructions.  What is known of a value decides what
may be computed of it, so that renderers must agree with the interpreter.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import frozen
from hypothesis import strategies as st

from wrapperir.ir import (
    DType,
    evaluate_int,
    storage_extent,
)
from wrapperir.lowering.loops import (
    Axis,
    BufferView,
    LoopGraph,
    Nest,
)
from wrapperir.testing.nest_steps import NestMaker
from wrapperir.testing.value_facts import EXTENTS, GREATEST, SIZE_VALUES

if TYPE_CHECKING:
    import torch


@frozen(kw_only=True)
class DrawnNest:
    """A graph of one nest, and what its inputs and outputs are.

    Elements of ``positions``, inputs of whole numbers, are at least 0 and below the number
    given.  Other inputs have whole numbers of at most 4 in absolute value.  ``rough`` has
    the greatest absolute value of outputs that renderers may round otherwise.
    """

    graph: LoopGraph
    positions: Mapping[str, int]
    rough: Mapping[str, float]


@st.composite
def nests(draw: st.DrawFn) -> DrawnNest:
    """Draw a nest that is well formed and has no fault, as a graph of its own.

    It has the size symbol ``s0``, which is at least 1.
    """
    maker = NestMaker(draw)
    extents = draw(st.lists(st.sampled_from(EXTENTS), max_size=3))
    axes = tuple(Axis(f"i{n}", extent) for n, extent in enumerate(extents))
    maker.axes += axes
    maker.load()
    maker.grow(4)
    for _ in range(draw(st.integers(0, 2))):
        maker.inner_loop()
        maker.grow(3)
    if draw(st.integers(0, 3)) == 0:
        maker.combine()
    maker.store()
    buffers = maker.buffers
    views = [(name, BufferView(buffer=name, type=buffers[name])) for name in maker.outputs]
    graph = LoopGraph(
        buffers=buffers,
        inputs=tuple(maker.inputs),
        items=(Nest(name="nest", axes=axes, body=tuple(maker.body)),),
        outputs=tuple(views),
    )
    return DrawnNest(graph=graph, positions=maker.positions, rough=maker.rough)


def nest_inputs(drawn: DrawnNest, seed: int = 0) -> "dict[str, torch.Tensor]":
    """Return the memory of the inputs of a nest, in one dimension each."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    found: dict[str, torch.Tensor] = {}
    for name in drawn.graph.inputs:
        type = drawn.graph.buffers[name]
        count = evaluate_int(storage_extent(type), SIZE_VALUES)
        limit = drawn.positions.get(name)
        low, high = (-GREATEST, GREATEST + 1) if limit is None else (0, limit)
        if type.dtype is DType.U8:
            low = 0
        numbers = torch.randint(low, high, (count,), generator=generator)
        found[name] = numbers.to(getattr(torch, type.dtype.torch_name))
    return found
