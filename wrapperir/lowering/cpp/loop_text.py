"""Parts of loops over lanes that all forms of a nest share."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager

from wrapperir.lowering.cpp.body import CppWriter
from wrapperir.lowering.cpp.half_arrays import HalfArrays, Strip
from wrapperir.lowering.loops import Apply, Axis, Instruction, Reduce, Scan, Store
from wrapperir.lowering.scalar_op import ScalarOp
from wrapperir.lowering.substitution import results


@contextmanager
def unless_empty(writer: CppWriter, lane: Axis) -> Generator[None]:
    """Put a condition around a lane loop and what is read before it for all lanes."""
    if isinstance(lane.extent, int) and lane.extent > 0:
        yield
        return
    with writer.source.block(f"if ({writer.indices.format(lane.extent)} > 0)"):
        yield


@contextmanager
def checked_point(writer: CppWriter) -> Generator[None]:
    """Put a block around what is written inside, which a failed check leaves."""
    start = len(writer.source.lines)
    yield
    if writer.has_jumps:
        writer.source.enclose(start, "{", "}", "next:;")


def write_lane_loop(
    writer: CppWriter,
    steps: Iterable[Instruction],
    varying: frozenset[str],
    head: Sequence[str],
    write: Callable[[Instruction], None] | None = None,
    finish: Callable[[], None] | None = None,
    flags: Sequence[str] = (),
    strip: Strip | None = None,
) -> None:
    """Write a loop over lanes, after what is the same in all of them.

    ``head`` begins the loop, and has what is first in its body.  ``write`` writes an
    instruction of the body, if it is not for ``writer``; ``finish`` writes what is last.
    ``flags`` are variables of which lanes set bits.  ``strip`` has the lanes, if they are
    those of a strip.
    """
    inner = write_shared(writer, steps, varying)
    if not inner:
        return
    halves = None if strip is None else HalfArrays(writer, inner, varying, strip)
    if halves:
        halves.write_before()
    reduced = f" reduction(|:{', '.join(flags)})" if flags else ""
    writer.source.write(f"#pragma omp simd{reduced}")
    with writer.source.block(head[0]):
        writer.source.write(*head[1:])
        for step in inner:
            if not halves or not halves.write(step):
                (write or writer.write)(step)
        if finish is not None:
            finish()
    if halves:
        halves.write_after()


def write_shared(
    writer: CppWriter, steps: Iterable[Instruction], varying: frozenset[str]
) -> list[Instruction]:
    """Write what is the same in all lanes, and return the other instructions."""
    inner: list[Instruction] = []
    for step in steps:
        if isinstance(step, Store | Reduce | Scan) or not varying.isdisjoint(results(step)):
            inner.append(step)
        else:
            writer.write(step)
    for step in inner:
        if isinstance(step, Apply) and step.op is ScalarOp.DIV:
            with writer.source.computing(step.origins):
                writer.prepare_division(step)
    return inner
