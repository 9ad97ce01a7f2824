"""The renderer: one work-item for each point of a nest's parallel axes."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, assert_never

from wrapperir import ir as wir
from wrapperir.ir import DType, Expr, ExprOp, Operation, Symbol
from wrapperir.lowering import loops
from wrapperir.lowering.dtypes import HALVES
from wrapperir.lowering.indexing import distance
from wrapperir.lowering.renderer import LoopKernel, Renderer
from wrapperir.lowering.scalar_op import ScalarOp
from wrapperir.lowering.source_parts import SIGNS
from wrapperir.lowering.substitution import all_axes, index_of, instructions
from wrapperir_opencl.kernels import FAULT, LANGUAGE
from wrapperir_opencl.renderer.operators import (
    STORED,
    format_apply,
    format_literal,
    scalar_type,
)
from wrapperir_opencl.renderer.reductions import Accumulator
from wrapperir_opencl.renderer.snippets import combining_function, kernel_source

_COMBINING: Mapping[loops.StoreMode, ScalarOp] = {
    loops.StoreMode.ADD: ScalarOp.ADD,
    loops.StoreMode.MUL: ScalarOp.MUL,
    loops.StoreMode.MIN: ScalarOp.MINIMUM,
    loops.StoreMode.MAX: ScalarOp.MAXIMUM,
}
_POWERS: Mapping[float, str] = {
    **{2: "{0} * {0}", 3: "{0} * {0} * {0}", 1: "{0}"},
    **{-1: "1 / {0}", -2: "1 / ({0} * {0})"},
}
"""Powers to known exponents, as eager computes them."""
_INFIX = {**SIGNS, ExprOp.AND: "&&", ExprOp.OR: "||"}
_CALLS: Mapping[ExprOp, str] = {
    ExprOp.FLOORDIV: "floordiv_long({0}, {1})",
    ExprOp.MOD: "remainder_long({0}, {1})",
    ExprOp.CEILDIV: "(-floordiv_long(-{0}, {1}))",
    ExprOp.MIN: "min((long){0}, (long){1})",
    ExprOp.MAX: "max((long){0}, (long){1})",
    ExprOp.NEG: "(-{0})",
    ExprOp.NOT: "(!{0})",
    ExprOp.WHERE: "({0} ? {1} : {2})",
    ExprOp.TRUEDIV: "((double){0} / (double){1})",
    ExprOp.TO_FLOAT: "(double){0}",
}

_KNOWN = frozenset({*_INFIX, *_CALLS})


class OpenclRenderer(Renderer):
    """Writes OpenCL C 1.2.

    Each buffer is two parameters: the memory, and the elements before its first one.
    Inner loops run in order in each work-item.
    """

    language: ClassVar[wir.Language] = wir.Language.OPAQUE
    device_kinds: ClassVar[frozenset[str]] = frozenset({"opencl"})

    def refusal(self, nest: loops.Nest) -> str | None:
        """Return why the nest cannot be written."""
        dtypes: dict[str, DType] = {}
        exprs: list[Expr] = [axis.extent for axis in all_axes(nest.axes, nest.body)]
        for step in instructions(nest.body):
            exprs += index_of(step)
            if isinstance(step, loops.Check):
                continue
            if isinstance(step, loops.Store):
                dtype = dtypes.get(step.value, DType.I64)
                plain = step.mode is loops.StoreMode.OVERWRITE
                if not plain and (dtype.itemsize < 4 or dtype in HALVES):
                    return f"OpenCL has no atomic operations on {dtype.value}"
                continue
            if step.dtype not in STORED:
                return f"OpenCL kernels have no {step.dtype.value}"
            if not isinstance(step, loops.Reduce | loops.Scan):
                dtypes[step.result] = step.dtype
            else:
                made = Accumulator(
                    op=step.op,
                    dtype=step.dtype,
                    name="",
                    is_scan=isinstance(step, loops.Scan),
                )
                dtypes.update(
                    zip(step.results, (d for d, _ in made.results()), strict=True)
                )
        lacking = [op for expr in exprs for op in _operators(expr) if op not in _KNOWN]
        return f"OpenCL indices have no {lacking[0].value}" if lacking else None

    def render_kernel(self, kernel: LoopKernel) -> wir.KernelDefinitionLine:
        """Return the kernel's definition; its grid has the points of the parallel axes."""
        has_checks = any(isinstance(x, loops.Check) for x in instructions(kernel.nest.body))
        writer = _KernelWriter(kernel)
        text = writer.write(kernel, has_checks)
        buffers = [
            wir.BufferParameter(b.name, b.type.dtype, b.access) for b in kernel.buffers
        ]
        return wir.KernelDefinitionLine(
            name=kernel.name,
            language=self.language,
            parameters=(*buffers, *kernel.symbols),
            grid=(wir.product(tuple(axis.extent for axis in kernel.nest.axes)),),
            entry=kernel.name,
            metadata=(LANGUAGE, FAULT) if has_checks else (LANGUAGE,),
            source=kernel_source(writer.functions, text),
        )


def _operators(expr: Expr) -> list[ExprOp]:
    if not isinstance(expr, Operation):
        return []
    return [expr.op, *(op for arg in expr.args for op in _operators(arg))]


class _KernelWriter:
    """Writes a nest; ``functions`` are what its atomic stores need."""

    def __init__(self, kernel: LoopKernel) -> None:
        self.functions: list[str] = []
        self._pointers = {b.name: f"p{n}" for n, b in enumerate(kernel.buffers)}
        self._types = {b.name: b.type for b in kernel.buffers}
        self._names = {s.name: f"s{n}" for n, s in enumerate(kernel.symbols)}
        self._dtypes = {s.name: s.dtype for s in kernel.symbols}
        self._literals: dict[str, int | float | bool] = {}
        self._variables = 0
        self._lines: list[str] = []
        self._margin = "  "

    def write(self, kernel: LoopKernel, has_checks: bool) -> str:
        """Return the kernel's function."""
        given: list[str] = []
        for n, buffer in enumerate(kernel.buffers):
            const = "" if buffer.access.writes else "const "
            given += [f"global {const}{STORED[buffer.type.dtype]} *p{n}", f"long o{n}"]
            self._write(f"p{n} += o{n};")
        for n, symbol in enumerate(kernel.symbols):
            given.append(f"{STORED[symbol.dtype]} n{n}")
            self._write(
                f"const {'long' if symbol.dtype.is_integer else 'double'} s{n} = n{n};"
            )
        given += ["global int *fault", "int fault_number"] if has_checks else []
        if kernel.nest.axes:
            self._write("long point = get_global_id(0);")
        for n, axis in reversed(list(enumerate(kernel.nest.axes))):
            extent, name = self._index(axis.extent), f"i{n}"
            self._write(f"const long {name} = {f'point % {extent}' if n else 'point'};")
            if n:
                self._write(f"point /= {extent};")
            self._names[axis.name] = name
        for step in kernel.nest.body:
            if isinstance(step, loops.InnerLoop):
                self._write_loop(step)
            else:
                self._write_step(step)
        body = "\n".join(self._lines)
        return f"kernel void {kernel.name}({', '.join(given)}) {{\n{body}\n}}"

    def _write(self, line: str) -> None:
        self._lines.append(self._margin + line)

    def _new_variable(self, prefix: str) -> str:
        """Return a new name; two loops of a nest may have axes of one name."""
        self._variables += 1
        return f"{prefix}{self._variables}"

    def _define(self, name: str, dtype: DType, text: str) -> None:
        local = self._new_variable("v")
        self._names[name], self._dtypes[name] = local, dtype
        self._write(f"const {scalar_type(dtype)} {local} = {text};")

    def _write_step(self, step: loops.Instruction) -> None:
        match step:
            case loops.Literal():
                self._define(
                    step.result, step.dtype, format_literal(step.value, step.dtype)
                )
                self._literals[step.result] = step.value
            case loops.IndexValue():
                kind = scalar_type(step.dtype)
                self._define(step.result, step.dtype, f"({kind})({self._index(step.expr)})")
            case loops.Load():
                text = self._element(step.buffer, step.index)
                text = f"({text} != 0)" if step.dtype is DType.BOOL else text
                if step.mask is not None:
                    other = format_literal(step.other, step.dtype)
                    text = f"{self._names[step.mask]} ? {text} : {other}"
                self._define(step.result, step.dtype, text)
            case loops.Apply():
                dtypes = [self._dtypes[operand] for operand in step.operands]
                operands = [self._names[operand] for operand in step.operands]
                text = format_apply(step.op, step.dtype, dtypes, operands)
                if step.op is ScalarOp.POW and step.dtype in (DType.F32, DType.F64):
                    power = _POWERS.get(self._literals.get(step.operands[1], math.nan))
                    text = text if power is None else power.format(operands[0])
                self._define(step.result, step.dtype, text)
            case loops.Store():
                self._write_store(step)
            case loops.Check():
                test = f"!{self._names[step.condition]}"
                test = test if step.mask is None else f"{self._names[step.mask]} && {test}"
                self._write(
                    f"if ({test}) {{ atomic_cmpxchg(fault, 0, fault_number); return; }}"
                )
            case loops.Reduce() | loops.Scan():
                raise AssertionError("a reduction outside of an inner loop")
            case _:
                assert_never(step)

    def _write_store(self, step: loops.Store) -> None:
        element, value = self._element(step.buffer, step.index), self._names[step.value]
        text = f"{element} = {value};"
        if step.mode is not loops.StoreMode.OVERWRITE:
            dtype = self._dtypes[step.value]
            name = f"combine_{step.mode.value}_{scalar_type(dtype)}"
            result = format_apply(_COMBINING[step.mode], dtype, (dtype, dtype), ("a", "b"))
            function = combining_function(name, dtype, result)
            if function not in self.functions:
                self.functions.append(function)
            text = f"{name}(&{element}, {value});"
        self._write(text if step.mask is None else f"if ({self._names[step.mask]}) {text}")

    def _write_loop(self, loop: loops.InnerLoop) -> None:
        states: dict[int, Accumulator] = {}
        for n, step in enumerate(loop.body):
            if isinstance(step, loops.Reduce | loops.Scan):
                name, is_scan = f"a{len(self._lines)}_{n}", isinstance(step, loops.Scan)
                states[n] = Accumulator(
                    op=step.op, dtype=step.dtype, name=name, is_scan=is_scan
                )
        outer = self._margin
        self._declare(state for state in states.values() if not state.is_scan)
        for depth, axis in enumerate(loop.axes):
            if depth == len(loop.axes) - 1:
                self._declare(state for state in states.values() if state.is_scan)
            name = self._names[axis.name] = self._new_variable("r")
            extent = self._index(axis.extent)
            self._write(f"for (long {name} = 0; {name} < {extent}; ++{name}) {{")
            self._margin += "  "
        sizes = tuple(axis.extent for axis in loop.axes)
        at = tuple(Symbol(axis.name) for axis in loop.axes)
        for n, step in enumerate(loop.body):
            if not isinstance(step, loops.Reduce | loops.Scan):
                self._write_step(step)
                continue
            position = (
                at[-1] if states[n].is_scan else distance(at, wir.contiguous_stride(sizes))
            )
            operands = [self._names[operand] for operand in step.operands]
            self._write(states[n].step(operands, self._index(position)))
            if states[n].is_scan:
                self._define_results(step.results, states[n])
        for _ in loop.axes:
            self._margin = self._margin[2:]
            self._write("}")
        assert self._margin == outer
        for n, step in enumerate(loop.body):
            if isinstance(step, loops.Reduce):
                self._define_results(step.results, states[n])

    def _declare(self, states: Iterable[Accumulator]) -> None:
        for state in states:
            for line in state.declarations():
                self._write(line)

    def _define_results(self, names: Sequence[str], state: Accumulator) -> None:
        for name, (dtype, text) in zip(names, state.results(), strict=True):
            self._define(name, dtype, text)

    def _element(self, buffer: str, index: tuple[Expr, ...]) -> str:
        offset = distance(index, self._types[buffer].stride)
        return f"{self._pointers[buffer]}[{self._index(offset)}]"

    def _index(self, expr: Expr) -> str:
        if isinstance(expr, float):
            return f"({expr!r})"
        if isinstance(expr, int):
            return f"{int(expr)}L" if expr >= 0 else f"({int(expr)}L)"
        if isinstance(expr, Symbol):
            name, dtype = self._names[expr.name], self._dtypes.get(expr.name, DType.I64)
            return f"(long){name}" if dtype.itemsize < 8 and dtype.is_integer else name
        args = [self._index(arg) for arg in expr.args]
        if expr.op in _INFIX:
            return "(" + f" {_INFIX[expr.op]} ".join(args) + ")"
        text = _CALLS[expr.op]
        result = text.format(*args)
        for arg in args[2:] if expr.op in (ExprOp.MIN, ExprOp.MAX) else ():
            result = text.format(result, arg)
        return result
