"""The body of a nest as C++ statements."""

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import assert_never

from wrapperir.ir import DType, Expr, Symbol, TensorType, add, mul, product
from wrapperir.lowering.cpp.elements import STORED, format_literal, scalar_type
from wrapperir.lowering.cpp.indices import IndexFormatter
from wrapperir.lowering.cpp.operators import format_apply
from wrapperir.lowering.cpp.reductions import (
    Accumulation,
    accumulate,
    accumulate_scan,
    result_dtypes,
    scan_dtypes,
)
from wrapperir.lowering.loops import (
    Apply,
    Axis,
    Check,
    IndexValue,
    InnerLoop,
    Instruction,
    Literal,
    Load,
    Reduce,
    Scan,
    Step,
    Store,
    StoreMode,
)
from wrapperir.lowering.scalar_op import ScalarOp

_COMBINING: Mapping[StoreMode, ScalarOp] = {
    StoreMode.ADD: ScalarOp.ADD,
    StoreMode.MIN: ScalarOp.MINIMUM,
    StoreMode.MAX: ScalarOp.MAXIMUM,
}


class BodyWriter:
    """Writes the steps of a nest, one element at a time.

    ``lines`` is what was written.  ``pointers`` and ``types`` are by buffer.
    """

    def __init__(
        self, pointers: Mapping[str, str], types: Mapping[str, TensorType]
    ) -> None:
        """Begin with nothing written; the caller adds sizes to ``indices``."""
        self.lines: list[str] = []
        self.indices = IndexFormatter()
        self._pointers = pointers
        self._types = types
        self._depth = 0
        self._names: dict[str, str] = {}
        self._dtypes: dict[str, DType] = {}
        self._axis_count = 0
        self._checks = 0

    def write(self, line: str) -> None:
        """Append a line."""
        self.lines.append("  " * self._depth + line)

    @contextmanager
    def block(self, head: str) -> Generator[None]:
        """Put braces after ``head`` around what is written inside."""
        self.write(f"{head} {{" if head else "{")
        self._depth += 1
        yield
        self._depth -= 1
        self.write("}")

    def add_axis(self, axis: Axis) -> str:
        """Return the C++ name of an axis, which expressions may use from now on."""
        name = f"i{self._axis_count}"
        self._axis_count += 1
        self.indices.names[axis.name] = name
        most = axis.extent - 1 if isinstance(axis.extent, int) else float("inf")
        self.indices.ranges[axis.name] = (0, most)
        return name

    @contextmanager
    def loops(self, axes: Iterable[Axis]) -> Generator[None]:
        """Put loops over axes, outermost first, around what is written inside."""
        axes = list(axes)
        if not axes:
            yield
            return
        extent = self.indices.format(axes[0].extent)
        name = self.add_axis(axes[0])
        with (
            self.block(f"for (i64 {name} = 0; {name} < {extent}; ++{name})"),
            self.loops(axes[1:]),
        ):
            yield

    def write_steps(self, steps: Iterable[Step]) -> None:
        """Write instructions and inner loops."""
        for step in steps:
            if isinstance(step, InnerLoop):
                self._write_inner_loop(step)
            else:
                self._write_instruction(step)

    def _define(self, name: str, dtype: DType, text: str) -> None:
        self._dtypes[name] = dtype
        local = self._names[name] = f"v{len(self._names)}"
        if dtype.is_integer:
            self.indices.names[name] = f"i64({local})"
        self.write(f"{scalar_type(dtype)} {local} = {text};")

    def _write_instruction(self, step: Instruction) -> None:
        match step:
            case Literal():
                self._define(
                    step.result, step.dtype, format_literal(step.value, step.dtype)
                )
            case IndexValue():
                text = self.indices.format(step.expr)
                self._define(step.result, step.dtype, f"{scalar_type(step.dtype)}({text})")
            case Load():
                self._write_load(step)
            case Apply():
                dtypes = [self._dtypes[operand] for operand in step.operands]
                operands = [self._names[operand] for operand in step.operands]
                text = format_apply(step.op, step.dtype, dtypes, operands)
                self._define(step.result, step.dtype, text)
            case Store():
                self._write_store(step)
            case Check():
                self._checks += 1
                condition = f"!{self._names[step.condition]}"
                if step.mask is not None:
                    condition = f"{self._names[step.mask]} && {condition}"
                self.write(f"if ({condition}) {{ *fault = {self._checks}; continue; }}")
            case Reduce() | Scan():
                raise AssertionError("a reduction outside of an inner loop")
            case _:
                assert_never(step)

    def _element(self, buffer: str, index: tuple[Expr, ...]) -> str:
        offset: Expr = 0
        for part, stride in zip(index, self._types[buffer].stride, strict=True):
            offset = add(offset, mul(part, stride))
        return f"{self._pointers[buffer]}[{self.indices.format(offset)}]"

    def _write_load(self, step: Load) -> None:
        text = self._element(step.buffer, step.index)
        if step.dtype is DType.BOOL:
            text = f"{text} != 0"
        if step.mask is not None:
            other = format_literal(step.other, step.dtype)
            text = f"{self._names[step.mask]} ? {text} : {other}"
        self._define(step.result, step.dtype, text)

    def _write_store(self, step: Store) -> None:
        element = self._element(step.buffer, step.index)
        value, dtype = self._names[step.value], self._dtypes[step.value]
        if step.mode is not StoreMode.OVERWRITE:
            there = (
                f"bool({element})" if dtype is DType.BOOL else f"{STORED[dtype]}({element})"
            )
            combined = _COMBINING[step.mode]
            value = format_apply(combined, dtype, (dtype, dtype), (there, value))
        statement = f"{element} = {value};"
        if step.mask is not None:
            statement = f"if ({self._names[step.mask]}) {statement}"
        self.write(statement)

    def _write_inner_loop(self, loop: InnerLoop) -> None:
        position: Expr = 0
        for axis in loop.axes:
            position = add(mul(position, axis.extent), Symbol(axis.name))
        results: list[tuple[Reduce, Accumulation]] = []
        before, self.lines = self.lines, []
        starts: list[str] = []
        scans: list[str] = []
        outer, last = loop.axes[:-1], loop.axes[-1:]
        with self.loops(outer):
            depth, place = self._depth, len(self.lines)
            with self.loops(last):
                for step in loop.body:
                    match step:
                        case Reduce():
                            results.append(
                                (step, self._write_reduce(step, position, starts))
                            )
                        case Scan():
                            self._write_scan(step, loop.axes[-1], scans)
                        case _:
                            self._write_instruction(step)
            self.lines[place:place] = ["  " * depth + line for line in scans]
        inner, self.lines = self.lines, before
        for start in starts:
            self.write(start)
        self.lines += inner
        for reduce, accumulation in results:
            dtypes = result_dtypes(reduce.op, reduce.dtype)
            for name, dtype, text in zip(
                reduce.results, dtypes, accumulation.results, strict=True
            ):
                self._define(name, dtype, text)

    def _write_reduce(
        self, step: Reduce, position: Expr, starts: list[str]
    ) -> Accumulation:
        operands = [self._names[operand] for operand in step.operands]
        name = f"a{len(self._names)}_{len(starts)}"
        at = self.indices.format(position)
        accumulation = accumulate(step.op, step.dtype, operands, name, at)
        starts += accumulation.start
        for line in accumulation.step:
            self.write(line)
        return accumulation

    def _write_scan(self, step: Scan, axis: Axis, starts: list[str]) -> None:
        operand = self._names[step.operands[0]]
        name = f"c{len(self._names)}_{len(starts)}"
        at = self.indices.names[axis.name]
        scan = accumulate_scan(step.op, step.dtype, operand, name, at)
        starts += scan.start
        for line in scan.step:
            self.write(line)
        dtypes = scan_dtypes(step.op, step.dtype)
        for result, dtype, text in zip(step.results, dtypes, scan.results, strict=True):
            self._define(result, dtype, text)


def points(axes: Iterable[Axis]) -> Expr:
    """Return the product of extents."""
    return product(tuple(axis.extent for axis in axes))
