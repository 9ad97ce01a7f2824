"""Parts of loops that all forms of a nest share."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager

from wrapperir.ir import Expr, Symbol, add, mul, product
from wrapperir.lowering.cpp.body import InstructionWriter
from wrapperir.lowering.cpp.reductions import Accumulator
from wrapperir.lowering.loops import (
    Apply,
    Axis,
    InnerLoop,
    Instruction,
    Reduce,
    Scan,
    Store,
)
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp
from wrapperir.lowering.substitution import results

_LONG_SUM = 256
"""Additions from which ``f32`` is summed in ``f64``."""


@contextmanager
def loops(writer: InstructionWriter, axes: Sequence[Axis]) -> Generator[None]:
    """Put loops over axes, outermost first, around what is written inside."""
    if not axes:
        yield
        return
    extent = writer.indices.format(axes[0].extent)
    name = writer.add_axis(axes[0])
    head = f"for (i64 {name} = 0; {name} < {extent}; ++{name})"
    with writer.source.block(head), loops(writer, axes[1:]):
        yield


@contextmanager
def unless_empty(writer: InstructionWriter, lane: Axis) -> Generator[None]:
    """Put a condition around a lane loop and what is read before it for all lanes."""
    if isinstance(lane.extent, int) and lane.extent > 0:
        yield
        return
    with writer.source.block(f"if ({writer.indices.format(lane.extent)} > 0)"):
        yield


@contextmanager
def checked_point(writer: InstructionWriter) -> Generator[None]:
    """Put a block around what is written inside, which a failed check leaves."""
    start = len(writer.source.lines)
    yield
    if writer.has_jumps:
        inner = writer.source.lines[start:]
        writer.source.lines[start:] = ["{", *inner, "}", "next:;"]


def write_lane_loop(
    writer: InstructionWriter,
    steps: Iterable[Instruction],
    varying: frozenset[str],
    head: Sequence[str],
    write: Callable[[Instruction], None] | None = None,
    finish: Callable[[], None] | None = None,
) -> None:
    """Write a loop over lanes, after what is the same in all of them.

    ``head`` begins the loop, and has what is first in its body.  ``write`` writes an
    instruction of the body, if it is not for ``writer``; ``finish`` writes what is last.
    """
    inner: list[Instruction] = []
    for step in steps:
        if isinstance(step, Store | Reduce | Scan) or not varying.isdisjoint(results(step)):
            inner.append(step)
        else:
            writer.write(step)
    if not inner:
        return
    for step in inner:
        if isinstance(step, Apply) and step.op is ScalarOp.DIV:
            writer.prepare_division(step)
    writer.source.write("#pragma omp simd")
    with writer.source.block(head[0]):
        writer.source.write(*head[1:])
        for step in inner:
            (write or writer.write)(step)
        if finish is not None:
            finish()


def accumulator_of(
    step: Reduce | Scan, name: str, additions: Expr | None = None
) -> Accumulator:
    """Return the state of a reduction or scan, whose variables begin with ``name``.

    ``additions`` is how many values are added up one after the other, if it is known.
    """
    return Accumulator(
        op=step.op,
        dtype=step.dtype,
        name=name,
        # Parts of products are more often out of range than sums.
        is_wide=step.op is ReduceOp.PROD
        or not (isinstance(additions, int) and additions <= _LONG_SUM),
        is_scan=isinstance(step, Scan),
        is_triple=len(step.operands) == 3,
    )


def set_results(
    writer: InstructionWriter, step: Reduce | Scan, accumulator: Accumulator, slot: str
) -> None:
    """Let instructions use the results of a reduction or scan from now on."""
    found = zip(
        step.results, accumulator.result_dtypes, accumulator.results(slot), strict=True
    )
    for name, dtype, text in found:
        writer.set_value(name, dtype, text)


def define_results(
    writer: InstructionWriter, step: Reduce | Scan, accumulator: Accumulator, slot: str = ""
) -> None:
    """Write the definitions of the results of a reduction or scan."""
    found = zip(
        step.results, accumulator.result_dtypes, accumulator.results(slot), strict=True
    )
    for name, dtype, text in found:
        writer.define(name, dtype, text)


def position_in(loop: InnerLoop) -> Expr:
    """Return the row-major position of a point of an inner loop."""
    position: Expr = 0
    for axis in loop.axes:
        position = add(mul(position, axis.extent), Symbol(axis.name))
    return position


def points(axes: Iterable[Axis]) -> Expr:
    """Return the product of extents."""
    return product(tuple(axis.extent for axis in axes))
