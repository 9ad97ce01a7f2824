"""Programs with lines that mark when they are reached, and the operator these lines call.

Importing this module registers ``wrapperir_profile::mark`` with PyTorch.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, cast

import torch
from attrs import frozen
from torch.fx.node import has_side_effect
from torch.library import Library

from wrapperir import ir as wir
from wrapperir.diagnostics import LinePath
from wrapperir.ir.blocks import nested_blocks, walk_places
from wrapperir.ir.effects import Actor, Effects
from wrapperir.ir.line_effects import LineEffects, value_types
from wrapperir.trace.inserted_lines import insert_lines, receiving

MarkSink: TypeAlias = Callable[[int, "wir.Number | None"], None]
"""Takes the number of a mark, and the value of the symbol that its line defines."""

GPU = "cuda"
"""The kind of device whose work is timed with events."""

START_MARKS = 4
"""Marks in a row at the start of a program, for each stream of a GPU.

The time between them is what each mark adds to the time of a line.
"""

_sinks: list[MarkSink] = []


def marking(sink: MarkSink) -> AbstractContextManager[None]:
    """Give the marks that are reached to ``sink``, in all threads."""
    return receiving(_sinks, sink)


@frozen
class TimeMark:
    """A place that is marked when it is reached.

    The time since the mark before it is that of the line at ``path``; marks without a path
    are at the start of the program.  ``stream`` is the stream of a GPU that the line gave
    work to, and ``symbol`` one that it defines.  A mark that ``enters`` is at the start of
    a block of the line.
    """

    path: LinePath | None
    stream: wir.Stream | None = None
    symbol: str | None = None
    enters: bool = False


@frozen(eq=False)
class MarkedProgram:
    """A program with lines that call the operator, and its marks by number."""

    program: wir.Program
    marks: tuple[TimeMark, ...]
    streams: tuple[wir.Stream, ...]
    """The streams of GPUs that lines give work to."""


def with_marks(program: wir.Program) -> MarkedProgram:
    """Return the program with a mark after each line, and at the start of each block.

    Before::

        program @main(%x: f32[8]) {
          %y = extern_kernel aten.relu.default(%x) : f32[8]
          return %y
        }

    After, with marks 0 to 3 at the start::

        program @main(%x: f32[8]) {
          extern_kernel wrapperir_profile.mark.default(0)
          ...
          %y = extern_kernel aten.relu.default(%x) : f32[8]
          extern_kernel wrapperir_profile.mark.default(4)
          return %y
        }

    Marks are given no buffer: lifetimes and the plan of memory stay as they are, and no
    stream waits.  The program has no graph regions.  Linear in the program.
    """
    effects = LineEffects.of_program(program)
    types = value_types(program)
    after = {
        path: TimeMark(
            path,
            _gpu_stream(effects.visit(line), types),
            line.symbol if isinstance(line, wir.SymbolDefinitionLine) else None,
        )
        for line, path in walk_places(program.lines)
        # These take no time, or that of the operator whose tuple they take apart.
        if not isinstance(line, wir.CommentLine | wir.MultiOutputLine)
    }
    entered = {
        (*path, name): TimeMark(path, enters=True)
        for line, path in walk_places(program.lines)
        for name, _ in nested_blocks(line)
    }
    streams = tuple(dict.fromkeys(m.stream for m in after.values() if m.stream is not None))
    starts = [TimeMark(None, s) for s in streams or (None,) for _ in range(START_MARKS)]
    starts += [TimeMark(None, symbol=line.symbol) for line in program.symbols]
    marks = (*starts, *entered.values(), *after.values())
    numbers = iter(range(len(marks)))
    first: dict[LinePath, list[wir.BodyLine]] = {
        (): [_mark_line(next(numbers), mark) for mark in starts]
    }
    first |= _lines(entered, numbers)
    return MarkedProgram(
        insert_lines(program, _lines(after, numbers), first), marks, streams
    )


def _lines(
    marks: Mapping[LinePath, TimeMark], numbers: Iterator[int]
) -> dict[LinePath, list[wir.BodyLine]]:
    return {place: [_mark_line(next(numbers), mark)] for place, mark in marks.items()}


def _mark_line(number: int, mark: TimeMark) -> wir.ExternKernelLine:
    value = () if mark.symbol is None else (wir.Symbol(mark.symbol),)
    return wir.ExternKernelLine(
        operator="wrapperir_profile.mark.default",
        arguments=(number, *value),
        device=wir.CPU if mark.stream is None else mark.stream.device,
        stream=0 if mark.stream is None else mark.stream.number,
    )


def _gpu_stream(done: Effects, types: Mapping[str, wir.ValueType]) -> wir.Stream | None:
    """Return the stream of a GPU that a line gives work to, or orders."""
    if done.stream is not None:
        return done.stream if done.stream.device.kind == GPU else None
    for access in done.accesses:
        type_ = types.get(access.name)
        is_on_gpu = isinstance(type_, wir.TensorType) and type_.device.kind == GPU
        if access.by is Actor.STREAM_0 and isinstance(type_, wir.TensorType) and is_on_gpu:
            return wir.Stream(type_.device, 0)
    return None


def _mark(number: int, value: "wir.Number | None" = None) -> None:
    for sink in tuple(_sinks):
        sink(number, value)


def _mark_nothing(number: int, value: object = None) -> None:
    """Stand for a call where tensors have no memory."""


# torch gives these no types; an operator lives as long as its library.
_LIBRARY = cast(Any, Library)("wrapperir_profile", "FRAGMENT")
_LIBRARY.define("mark(int number, Scalar? value=None) -> ()")
_LIBRARY.impl("mark", _mark, "CompositeExplicitAutograd")
_LIBRARY._register_fake("mark", _mark_nothing)
has_side_effect(torch.ops.wrapperir_profile.mark.default)
