"""Instructions of several points at once: the points of an axis are a vector.

What differs between the points is a vector, unless a language has none for its dtype or
operator: then each element is computed alone.  Contiguous elements are read and written by
one instruction.  In OpenCL C::

    const float8 v0 = vload8(0, p0 + i0);
    const float8 v1 = exp(v0);
    vstore8(v1, 0, p1 + i0);
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext

from wrapperir.ir import DType, TensorType, ceildiv
from wrapperir.lowering.c.instructions import InstructionWriter
from wrapperir.lowering.c.lanes import LaneAnalysis, Lanes, varying_values
from wrapperir.lowering.c.language import CLanguage
from wrapperir.lowering.c.points import (
    accumulator_of,
    define_results,
    loops,
    points,
    position_in,
    write_inner_loop,
)
from wrapperir.lowering.c.vector_language import VectorLanguage
from wrapperir.lowering.loops import (
    Apply,
    Axis,
    Check,
    IndexValue,
    InnerLoop,
    Instruction,
    Literal,
    Load,
    Nest,
    Reduce,
    Scan,
    Store,
    StoreMode,
)
from wrapperir.lowering.scalar_op import ReduceOp
from wrapperir.lowering.substitution import instructions, names_used

_REDUCED = (
    *(ReduceOp.SUM, ReduceOp.PROD, ReduceOp.MIN, ReduceOp.MAX),
    *(ReduceOp.WELFORD, ReduceOp.ONLINE_SOFTMAX),
)


class VectorWriter(InstructionWriter):
    """Writes vectors inside of :meth:`_lanes`, and single values outside."""

    def __init__(
        self,
        language: CLanguage,
        vectors: VectorLanguage,
        nest: Nest,
        pointers: Mapping[str, str],
        types: Mapping[str, TensorType],
    ) -> None:
        """Begin with nothing written; the caller adds sizes to ``indices``."""
        super().__init__(language, pointers, types)
        self._single, self._vectors, self._nest = language, vectors, nest
        self._analysis = LaneAnalysis(nest, types)
        self._axis: Axis | None = None
        self._varying = frozenset[str]()
        is_plain = all(map(_has_vector_state, instructions(nest.body)))
        chosen = self._analysis.choose()
        # Elements of transposed loads, read one by one, cost what vectors gain.
        is_better = is_plain and chosen.across is None
        self._chosen = chosen if is_better else Lanes()

    @property
    def lane(self) -> Axis | None:
        """The parallel axis whose points are vectors, if there is one."""
        axes = self._nest.axes
        return next((axis for axis in axes if axis.name == self._chosen.axis), None)

    def write_point(self, axes: Sequence[Axis], point: str) -> tuple[Axis, ...]:
        """Write the position of one point, or of the first of a vector, on each axis.

        ``point`` counts points and vectors.  The result are axes that have so many.
        """
        lane, source, width = self.lane, self.source, self._vectors.width
        counted = {axis.name: axis.extent for axis in axes}
        if lane is not None:
            counted[lane.name] = ceildiv(lane.extent, width)
        if axes:
            source.write(f"{self.indices.kind} point = {point};")
        # Neighbours on the axis of vectors, which is innermost, are neighbours.
        others = [axis for axis in reversed(axes) if axis is not lane]
        for axis in others if lane is None else [lane, *others]:
            count, name = self.indices.format(counted[axis.name]), self.add_axis(axis)
            scale = f" * {width}" if axis is lane else ""
            source.write(
                f"const {self.indices.kind} {name} = point % {count}{scale};",
                f"point /= {count};",
            )
        return tuple(Axis(name, extent) for name, extent in counted.items())

    def write_nest(self) -> None:
        """Write the body of the nest; points of :attr:`lane` are from its name on."""
        lane, width = self.lane, self._vectors.width
        if lane is None:
            self._write_body()
            return
        first, extent = self.indices.names[lane.name], self.indices.format(lane.extent)
        is_whole = isinstance(lane.extent, int) and lane.extent % width == 0
        test = "" if is_whole else f"if ({first} + {width} <= {extent})"
        varying = varying_values(self._nest.body, lane.name)
        with self.forgetting(), self.source.block(test), self._lanes(lane, varying):
            self._write_body()
        if not is_whole:
            name = self.add_axis(lane)
            head = (
                f"for ({self.indices.kind} {name} = {first}; {name} < {extent}; ++{name})"
            )
            with self.source.block(f"else {head}"):
                self._write_body()

    def _write_body(self) -> None:
        for place, step in enumerate(self._nest.body):
            if not isinstance(step, InnerLoop):
                self.write(step)
            elif place in self._chosen.loops:
                self._write_strips(step, f"a{place}")
            else:
                write_inner_loop(self, step, f"a{place}")

    def _write_strips(self, loop: InnerLoop, name: str) -> None:
        """Write a loop whose last axis is vectors; ``name`` begins its variables."""
        source, lane, width = self.source, loop.axes[-1], self._vectors.width
        varying = varying_values((loop,), lane.name)
        found = {
            (id(step), slot): accumulator_of(
                language, step, f"{name}_{place}", points(loop.axes)
            )
            for place, step in enumerate(loop.body)
            if isinstance(step, Reduce)
            for slot, language in (("", self._single), ("_v", self._vectors))
        }
        for (_, slot), state in found.items():
            for variable in state.variables():
                source.write(f"{variable.type} {variable.name}{slot} = {variable.start};")
        with loops(self, loop.axes[:-1]):
            extent, at = self.indices.format(lane.extent), self.add_axis(lane)
            position = self.indices.format(position_in(loop))
            heads = {
                "_v": f"for (; {at} + {width} <= {extent}; {at} += {width})",
                "": f"for (; {at} < {extent}; ++{at})",
            }
            source.write(f"{self.indices.kind} {at} = 0;")
            for slot, head in heads.items():
                lanes = self._lanes(lane, varying) if slot else nullcontext()
                with self.forgetting(), source.block(head), lanes:
                    for step in loop.body:
                        if not isinstance(step, Reduce):
                            self.write(step)
                            continue
                        operands = [self.operand(x) for x in step.operands]
                        state = found[id(step), slot]
                        with source.computing(step.origins):
                            source.write(state.step(operands, position, slot))
        for step in loop.body:
            if isinstance(step, Reduce):
                state = found[id(step), ""]
                elements = [
                    self._vectors.element("_v", step.dtype, n) for n in range(width)
                ]
                with source.computing(step.origins):
                    source.write(*(state.combine("", element) for element in elements))
                define_results(self, step, state)

    @contextmanager
    def _lanes(self, axis: Axis, varying: frozenset[str]) -> Generator[None]:
        """Let the points of an axis be a vector, inside; ``varying`` are its vectors."""
        self._axis, self._varying, self.language = axis, varying, self._vectors
        yield
        self._axis, self.language = None, self._single

    @contextmanager
    def _single_values(self) -> Generator[None]:
        axis, language = self._axis, self.language
        self._axis, self.language = None, self._single
        yield
        self._axis, self.language = axis, language

    @contextmanager
    def _of_lane(self, axis: Axis, lane: int) -> Generator[None]:
        """Let names stand for the element of one point, inside."""
        with self.forgetting(), self._single_values():
            self.indices.names[axis.name] = f"({self.indices.names[axis.name]} + {lane})"
            for name in self._varying & self.names.keys():
                dtype = self.dtypes[name]
                text = self._vectors.element(self.names[name], dtype, lane)
                self.set_value(name, dtype, text)
            yield

    def operand(self, name: str) -> str:
        """Return a value as an operand: a vector where all are."""
        if self._axis is None or name in self._varying:
            return self.names[name]
        return self._vectors.splat(self.names[name], self.dtypes[name])

    def write(self, step: Instruction) -> None:
        """Write an instruction other than a reduction or a scan."""
        axis = self._axis
        if axis is None:
            super().write(step)
        elif self._varying.union((axis.name,)).isdisjoint(names_used(step)):
            with self._single_values():
                super().write(step)
        else:
            with self.source.computing(step.origins):
                self._write_vectors(axis, step)

    def _write_vectors(self, axis: Axis, step: Instruction) -> None:
        """Write an instruction of a vector of points, or of each point of it."""
        if isinstance(step, Literal | IndexValue | Load | Apply):
            self.define(step.result, step.dtype, self._format_vector(axis, step))
        elif isinstance(step, Store) and self._is_contiguous(axis, step):
            dtype, value = self.dtypes[step.value], self.operand(step.value)
            stored = self._vectors.store(self.format_element(step), dtype, value)
            test = "" if step.mask is None else f"if ({self.names[step.mask]}) "
            self.source.write(test + stored)
        else:
            self._checks += isinstance(step, Check)
            for lane in range(self._vectors.width):
                with self._of_lane(axis, lane):
                    if isinstance(step, Store):
                        self.source.write(self.format_store(step))
                    elif isinstance(step, Check):
                        self.source.write(self.format_check(step, self._checks))

    def _is_contiguous(self, axis: Axis, step: Load | Store) -> bool:
        """Say whether an access is of a vector in memory, of all its elements or none."""
        if isinstance(step, Store) and step.mode is not StoreMode.OVERWRITE:
            return False
        is_whole = step.mask not in self._varying
        return is_whole and self._analysis.stride(step, axis.name, self._varying) == 1

    def _format_vector(self, axis: Axis, step: Literal | IndexValue | Load | Apply) -> str:
        """Return the vector that an instruction defines."""
        vectors = self._vectors
        match step:
            case Load() if self._is_contiguous(axis, step):
                text = vectors.load(self.format_element(step), step.dtype)
                if step.mask is None:
                    return text
                other = vectors.literal(step.other, step.dtype)
                return f"{self.names[step.mask]} ? {text} : {other}"
            case Apply() if vectors.has(
                step.op, self.dtypes[step.operands[-1]], step.dtype
            ):
                return self.format_apply(step)
            case _:
                texts: list[str] = []
                for lane in range(vectors.width):
                    with self._of_lane(axis, lane):
                        texts.append(self.format_value(step))
                return vectors.pack(step.dtype, texts)


def _has_vector_state(step: Instruction) -> bool:
    """Say whether an instruction's state, if it has one, may be of vectors."""
    if not isinstance(step, Reduce | Scan):
        return True
    return step.op in _REDUCED and step.dtype in (DType.F32, DType.F64)
