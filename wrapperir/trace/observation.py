"""Programs with lines that observe values, and the operators that these lines call.

Importing this module registers ``wrapperir_trace::value`` and ``wrapperir_trace::number``
with PyTorch.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, cast

import torch
from torch.fx.node import has_side_effect
from torch.library import Library

from wrapperir import ir as wir
from wrapperir.diagnostics import LinePath
from wrapperir.trace.inserted_lines import insert_lines, receiving
from wrapperir.trace.points import Point, PointRole

Sink: TypeAlias = Callable[[int, "torch.Tensor | wir.Number"], None]
"""Takes the number of a point, and the value that was observed there."""

_sinks: list[Sink] = []


def observing(sink: Sink) -> AbstractContextManager[None]:
    """Give what lines observe to ``sink``, in all threads."""
    return receiving(_sinks, sink)


def with_observations(program: wir.Program, points: Sequence[Point]) -> wir.Program:
    """Return the program with a line for each point, which calls an operator of ours.

    Before::

        program @main(%x: f32[8]) {
          %y = extern_kernel aten.relu.default(%x) : f32[8]
          return %y
        }

    After, with a point for ``%y``::

        program @main(%x: f32[8]) {
          %y = extern_kernel aten.relu.default(%x) : f32[8]
          extern_kernel wrapperir_trace.value.default(%y, 0)
          return %y
        }

    Such a line runs on the point's stream.  It follows the symbols that its value's type
    may mention.  Linear in the program.
    """
    added: dict[LinePath, list[wir.BodyLine]] = {}
    for number, point in enumerate(points):
        line = _observation(number, point)
        added.setdefault(() if point.path[0] == "symbols" else point.path, []).append(line)
    return insert_lines(program, added, {(): added.get((), ())})


def _observation(number: int, point: Point) -> wir.ExternKernelLine:
    is_symbol = point.role is PointRole.SYMBOL
    operator = "number" if is_symbol else "value"
    value = wir.Symbol(point.name) if is_symbol else wir.BufferRef(point.name)
    return wir.ExternKernelLine(
        operator=f"wrapperir_trace.{operator}.default",
        arguments=(value, number),
        device=point.device,
        stream=point.stream,
    )


def _observe(value: "torch.Tensor | wir.Number", point: int) -> None:
    for sink in tuple(_sinks):
        sink(point, value)


def _observe_nothing(value: object, point: int) -> None:
    """Stand for a call where tensors have no memory."""


# torch gives these no types; an operator lives as long as its library.
_LIBRARY = cast(Any, Library)("wrapperir_trace", "FRAGMENT")
for _schema in (
    "value(Tensor value, int point) -> ()",
    "number(Scalar value, int point) -> ()",
):
    _name = _schema.partition("(")[0]
    _LIBRARY.define(_schema)
    _LIBRARY.impl(_name, _observe, "CompositeExplicitAutograd")
    _LIBRARY._register_fake(_name, _observe_nothing)
    has_side_effect(getattr(torch.ops.wrapperir_trace, _name).default)
