"""Loops of lanes in strips of a constant length, for reductions over or beside lanes.

What a strip needs of one loop in another is in arrays with an element for each lane.  As
their length is constant, the compiler keeps them in vector registers.
"""

from collections.abc import Callable, Iterable, Sequence

from wrapperir.ir import Expr, Symbol
from wrapperir.lowering.c.lanes import varying_values
from wrapperir.lowering.c.points import (
    accumulator_of,
    define_results,
    loops,
    points,
    position_in,
    set_results,
)
from wrapperir.lowering.c.reductions import Accumulator, Variable
from wrapperir.lowering.cpp.body import CppWriter
from wrapperir.lowering.cpp.half_arrays import HalfArrays, Strip
from wrapperir.lowering.cpp.language import CPP
from wrapperir.lowering.cpp.loop_text import (
    checked_point,
    unless_empty,
    write_lane_loop,
    write_shared,
)
from wrapperir.lowering.loops import (
    Axis,
    Check,
    InnerLoop,
    Instruction,
    Load,
    Nest,
    Reduce,
    Scan,
    Step,
    Store,
)
from wrapperir.lowering.substitution import names_used, needed, results

STRIP = 64
"""Lanes of a strip: four 512-bit registers of ``f32``."""
_LOOP = "for (i64 l = 0; l < n; ++l)"


def write_inner_strips(writer: CppWriter, loop: InnerLoop, name: str) -> None:
    """Write an inner loop whose last axis is lanes; ``name`` begins its variables."""
    source, lane = writer.source, loop.axes[-1]
    varying = varying_values((loop,), lane.name)
    reductions = [step for step in loop.body if isinstance(step, Reduce)]
    if not reductions:
        with loops(writer, loop.axes[:-1]), unless_empty(writer, lane):
            writer.add_axis(lane)
            writer.row_position = writer.indices.format(position_in(loop))
            write_lanes(writer, loop.body, varying, lane)
        return
    width, additions = STRIP, points(loop.axes)
    if isinstance(lane.extent, int):
        while width // 2 >= max(lane.extent, 8):
            width //= 2
    if isinstance(additions, int):
        additions = -(-additions // width)
    found = {
        id(step): accumulator_of(CPP, step, f"{name}_{place}", additions)
        for place, step in enumerate(reductions)
    }
    variables = [v for state in found.values() for v in state.variables("l")]
    source.write(*_declarations(variables, width))
    _write_starts(writer, variables, str(width))
    position = position_in(loop)

    def write(step: Instruction) -> None:
        if isinstance(step, Reduce):
            operands = [writer.names[operand] for operand in step.operands]
            at = writer.indices.format(position)
            with source.computing(step.origins):
                source.write(found[id(step)].step(operands, at, "[l]"))
        else:
            writer.write(step)

    arrays = [variable.name for variable in variables]
    arrays += [row.name for row in writer.rows.arrays]
    with source.block(), loops(writer, loop.axes[:-1]):
        with source.block(_format_head(arrays), "};"):
            axis = writer.add_axis(lane)
            writer.row_position = writer.indices.format(position)
            source.write("const i64 n = lanes;")
            in_strip = (_LOOP, f"const i64 {axis} = base + l;")
            strip = Strip(axis=lane.name, width=width)
            write_lane_loop(writer, loop.body, varying, in_strip, write, strip=strip)
        _write_calls(writer, lane.extent, width)
    with source.block(f"for (i64 half = {width // 2}; half; half >>= 1)"):
        source.write("#pragma omp simd")
        with source.block("for (i64 l = 0; l < half; ++l)"):
            for step in reductions:
                with source.computing(step.origins):
                    source.write(found[id(step)].combine("[l]", "[l + half]"))
    for step in reductions:
        define_results(writer, step, found[id(step)], "[0]")


def _format_head(arrays: Sequence[str]) -> str:
    """Return the head of a function of a strip, which changes some arrays.

    Others are captured by value: what has an address, any store may change.
    """
    captures = ", ".join(["=", *(f"&{name}" for name in arrays)])
    return f"auto strip = [{captures}](i64 base, auto lanes) __attribute__((always_inline))"


def _declarations(variables: Iterable[Variable], width: int) -> list[str]:
    return [f"alignas(64) {v.type} {v.name}[{width}];" for v in variables]


def _write_starts(writer: CppWriter, variables: Sequence[Variable], count: str) -> None:
    writer.source.write("#pragma omp simd")
    with writer.source.block(f"for (i64 l = 0; l < {count}; ++l)"):
        writer.source.write(*(f"{v.name}[l] = {v.start};" for v in variables))


def write_lanes(
    writer: CppWriter,
    steps: Iterable[Instruction],
    varying: frozenset[str],
    lane: Axis,
    part: tuple[str, str] | None = None,
    write: Callable[[Instruction], None] | None = None,
    flags: Sequence[str] = (),
) -> None:
    """Write a loop over the lanes of an axis, or of a part of whole strips of it.

    ``write`` and ``flags`` are as in
    :func:`~wrapperir.lowering.cpp.loop_text.write_lane_loop`.
    """
    source, axis = writer.source, writer.indices.names[lane.name]
    inner = write_shared(writer, steps, varying)
    strip = Strip(axis=lane.name, width=STRIP)
    if not HalfArrays(writer, inner, varying, strip):
        start, end = part or ("0", writer.indices.format(lane.extent))
        head = f"for (i64 {axis} = {start}; {axis} < {end}; ++{axis})"
        write_lane_loop(writer, inner, varying, (head,), write, flags=flags)
        return
    arrays = [*flags, *(row.name for row in writer.rows.arrays)]
    with source.block():
        with source.block(_format_head(arrays), "};"):
            source.write("const i64 n = lanes;")
            in_strip = (_LOOP, f"const i64 {axis} = base + l;")
            write_lane_loop(
                writer, inner, varying, in_strip, write, flags=flags, strip=strip
            )
        _write_calls(writer, lane.extent, STRIP, part)


def _write_calls(
    writer: CppWriter, extent: Expr, width: int, part: tuple[str, str] | None = None
) -> None:
    """Write the calls of ``strip`` for all lanes, or for a part of whole strips."""
    source = writer.source
    if isinstance(extent, int) and extent <= width:
        source.write(f"strip(0, count<{extent}>());")
        return
    start, end = part or ("0", writer.indices.format(extent))
    source.write(f"i64 base = {start};")
    source.write(
        f"for (; base + {width} <= {end}; base += {width}) strip(base, count<{width}>());"
    )
    if not isinstance(extent, int):
        source.write(f"if (base < {end}) strip(base, {end} - base);")
    elif extent % width:
        test = "if (base < end) " if part else ""
        source.write(f"{test}strip(base, count<{extent % width}>());")


class ParallelStrips:
    """Writes the body of a nest whose lanes are of a parallel axis, around inner loops."""

    def __init__(
        self, writer: CppWriter, nest: Nest, lane: Axis, apart: frozenset[str]
    ) -> None:
        """Take the nest, its lanes' axis, and the loads to read apart, by results."""
        self._writer = writer
        self._source = writer.source
        self._nest = nest
        self._lane = lane
        self._varying = varying_values(nest.body, lane.name)
        self._kept = _values_of_several_loops(nest.body) & self._varying
        self._apart = apart
        self._declared: list[str] = []
        self._in_loop: tuple[str, ...] = ()
        self._position = "0"
        self._width = STRIP
        if isinstance(lane.extent, int) and lane.extent <= 2 * STRIP:
            self._width = lane.extent

    def write(self, pragma: str | None, others: Sequence[Axis]) -> None:
        """Write loops over the other axes and strips; ``pragma`` is for all of them."""
        source, width = self._source, self._width
        extent = self._lane.extent
        end = self._writer.indices.format(extent)
        if pragma is not None:
            source.write(pragma)
        head = f"for (i64 start = 0; start < {end}; start += {width})"
        with loops(self._writer, others), source.block(head):
            with source.block(_format_head(()), "};"):
                axis = self._writer.add_axis(self._lane)
                self._in_loop = (_LOOP, f"const i64 {axis} = base + l;")
                source.write("const i64 n = lanes;")
                with source.preceded(self._declared), checked_point(self._writer):
                    self._write_steps()
            if isinstance(extent, int) and extent % width == 0:
                source.write(f"strip(start, count<{width}>());")
                return
            rest = f"count<{extent % width}>()" if isinstance(extent, int) else ""
            source.write(
                f"if (start + {width} <= {end}) strip(start, count<{width}>());",
                f"else strip(start, {rest or f'{end} - start'});",
            )

    def _write_steps(self) -> None:
        straight: list[Instruction] = []
        for place, step in enumerate(self._nest.body):
            if isinstance(step, InnerLoop):
                self._write_segment(straight)
                straight = []
                self._write_inner_loop(step, f"a{place}")
            else:
                straight.append(step)
        self._write_segment(straight)

    def _write_segment(
        self, steps: Sequence[Instruction], states: dict[int, Accumulator] | None = None
    ) -> None:
        """Write a loop over lanes, and keep what other loops use of it."""
        writer = self._writer
        kept = {
            name: f"k{len(self._declared)}_{place}"
            for place, name in enumerate(n for step in steps for n in results(step))
            if name in self._kept and name not in writer.names
        }

        def keep() -> None:
            for step in steps:
                for name in results(step):
                    if name in kept and name in writer.names:
                        with self._source.computing(step.origins):
                            self._source.write(f"{kept[name]}[l] = {writer.names[name]};")

        def write(step: Instruction) -> None:
            self._write_step(step, states or {})

        self._write_loads_apart(steps)
        strip = Strip(axis=self._lane.name, width=self._width, kept=self._kept)
        write_lane_loop(
            writer, steps, self._varying, self._in_loop, write, keep, strip=strip
        )
        for name, array in kept.items():
            if name in writer.names:
                dtype = writer.dtypes[name]
                kept_in = Variable(CPP.scalar(dtype), array, "")
                self._declared += _declarations([kept_in], self._width)
                writer.set_value(name, dtype, f"{array}[l]")

    def _write_loads_apart(self, steps: Sequence[Instruction]) -> None:
        """Write the loop that reads the loads apart, as far as nothing comes before them.

        The other loop then has vector instructions; this one has branches, which are the
        same for most lanes.
        """
        writer = self._writer
        loads: dict[int, Load] = {}
        for place, step in enumerate(steps):
            if isinstance(step, Store | Reduce | Scan | Check):
                break
            if isinstance(step, Load) and step.result in self._apart:
                loads[place] = step
        if not loads:
            return
        with writer.forgetting(), self._source.block(self._in_loop[0]):
            self._source.write(*self._in_loop[1:])
            for place in needed(steps[: max(loads) + 1], loads):
                writer.write(steps[place])
            for load in loads.values():
                array = f"t{len(writer.elements)}"
                kept_in = Variable(CPP.scalar(load.dtype), array, "")
                self._declared += _declarations([kept_in], self._width)
                with self._source.computing(load.origins):
                    self._source.write(f"{array}[l] = {writer.names[load.result]};")
                writer.elements[load.result] = f"{array}[l]"

    def _write_step(self, step: Instruction, states: dict[int, Accumulator]) -> None:
        if not isinstance(step, Reduce | Scan):
            self._writer.write(step)
            return
        state = states[id(step)]
        operands = [self._writer.names[operand] for operand in step.operands]
        with self._source.computing(step.origins):
            self._source.write(state.step(operands, self._position, "[l]"))
        if isinstance(step, Scan):
            define_results(self._writer, step, state, "[l]")

    def _write_inner_loop(self, loop: InnerLoop, name: str) -> None:
        additions = points(loop.axes)
        states = {
            id(step): accumulator_of(CPP, step, f"{name}_{place}", additions)
            for place, step in enumerate(loop.body)
            if isinstance(step, Reduce | Scan)
        }
        self._write_states(
            [states[id(step)] for step in loop.body if isinstance(step, Reduce)]
        )
        scans = [step for step in loop.body if isinstance(step, Scan)]
        with loops(self._writer, loop.axes[:-1]):
            self._write_states([states[id(step)] for step in scans])
            with loops(self._writer, loop.axes[-1:]):
                along = Symbol(loop.axes[-1].name) if scans else position_in(loop)
                self._position = self._writer.indices.format(along)
                self._write_segment(loop.body, states)
        for step in loop.body:
            if isinstance(step, Reduce):
                set_results(self._writer, step, states[id(step)], "[l]")

    def _write_states(self, states: Sequence[Accumulator]) -> None:
        variables = [v for state in states for v in state.variables()]
        if variables:
            self._declared += _declarations(variables, self._width)
            _write_starts(self._writer, variables, "n")


def _values_of_several_loops(steps: Iterable[Step]) -> frozenset[str]:
    """Return the values that are used in a segment or loop other than their own."""
    found: set[str] = set()
    for segment in _segments(steps):
        defined = {name for step in segment for name in results(step)}
        used = {name for step in segment for name in names_used(step)}
        found |= used - defined
    return frozenset(found)


def _segments(steps: Iterable[Step]) -> list[list[Instruction]]:
    """Return runs of instructions between inner loops, and the loops' bodies."""
    segments: list[list[Instruction]] = [[]]
    for step in steps:
        if isinstance(step, InnerLoop):
            segments += [list(step.body), []]
        else:
            segments[-1].append(step)
    return segments
