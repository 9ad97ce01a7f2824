"""Loops and reductions of single points."""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager

from wrapperir.ir import DType, Expr, Symbol, add, mul, product
from wrapperir.lowering.c.instructions import InstructionWriter
from wrapperir.lowering.c.language import CLanguage
from wrapperir.lowering.c.reductions import Accumulator
from wrapperir.lowering.loops import Axis, Check, InnerLoop, Nest, Reduce, Scan, Store
from wrapperir.lowering.scalar_op import ReduceOp, reduced_dtypes, scanned_dtypes
from wrapperir.lowering.substitution import instructions, results

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
    head = f"for ({writer.indices.kind} {name} = 0; {name} < {extent}; ++{name})"
    with writer.source.block(head), loops(writer, axes[1:]):
        yield


def value_dtypes(nest: Nest) -> dict[str, DType]:
    """Return the dtype of every value of a nest."""
    found: dict[str, DType] = {}
    for step in instructions(nest.body):
        if isinstance(step, Reduce):
            dtypes = reduced_dtypes(step.op, step.dtype)
        elif isinstance(step, Scan):
            dtypes = scanned_dtypes(step.op, step.dtype)
        elif isinstance(step, Store | Check):
            dtypes = ()
        else:
            dtypes = (step.dtype,)
        found.update(zip(results(step), dtypes, strict=True))
    return found


def accumulator_of(
    language: CLanguage, step: Reduce | Scan, name: str, additions: Expr | None = None
) -> Accumulator:
    """Return the state of a reduction or scan, whose variables begin with ``name``.

    ``additions`` is how many values are added up one after the other, if it is known.
    """
    return Accumulator(
        language=language,
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
    with writer.source.computing(step.origins):
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


def write_points(writer: InstructionWriter, nest: Nest) -> None:
    """Write loops over the points of a nest, in order."""
    with loops(writer, nest.axes):
        for place, step in enumerate(nest.body):
            if isinstance(step, InnerLoop):
                write_inner_loop(writer, step, f"a{place}")
            else:
                writer.write(step)


def write_inner_loop(writer: InstructionWriter, loop: InnerLoop, name: str) -> None:
    """Write an inner loop of single points; ``name`` begins its variables."""
    found: list[tuple[Reduce, Accumulator]] = []
    starts: list[str] = []
    scans: list[str] = []

    def write_step(step: Reduce | Scan, place: int) -> Accumulator:
        state = accumulator_of(writer.language, step, f"{name}_{place}")
        is_scan = isinstance(step, Scan)
        for variable in state.variables():
            line = f"{variable.type} {variable.name} = {variable.start};"
            (scans if is_scan else starts).append(line)
        operands = [writer.operand(operand) for operand in step.operands]
        position = writer.indices.names[loop.axes[-1].name]
        if not is_scan:
            position = writer.indices.format(position_in(loop))
        with writer.source.computing(step.origins):
            writer.source.write(state.step(operands, position))
        return state

    source = writer.source
    with (
        source.preceded(starts),
        loops(writer, loop.axes[:-1]),
        source.preceded(scans),
        loops(writer, loop.axes[-1:]),
    ):
        for place, step in enumerate(loop.body):
            if isinstance(step, Reduce):
                found.append((step, write_step(step, place)))
            elif isinstance(step, Scan):
                define_results(writer, step, write_step(step, place))
            else:
                writer.write(step)
    for step, state in found:
        define_results(writer, step, state)
