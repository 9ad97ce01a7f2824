"""Check that a loop nest is well formed: names, numbers of operands, dtypes, accesses."""

from collections.abc import Iterator, Mapping, Sequence

from attrs import define, field

from wrapperir.diagnostics import Code, Diagnostic, LinePath
from wrapperir.ir import DType, Expr, TensorType, symbols_in
from wrapperir.lowering.access_checks import AccessCheck
from wrapperir.lowering.accesses import nest_ranges
from wrapperir.lowering.kernel import SizeSymbols
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
)
from wrapperir.lowering.scalar_op import (
    REDUCED_REAL,
    SCANS,
    ReduceOp,
    ScalarOp,
    operand_count,
    reduced_dtypes,
    result_dtype,
    scanned_dtypes,
    takes_dtype,
)
from wrapperir.lowering.substitution import index_of, operands, results


def check_nest(
    nest: Nest, buffers: Mapping[str, TensorType], symbols: SizeSymbols
) -> tuple[Diagnostic, ...]:
    """Return what is wrong with a nest: WIR670 to WIR677, each with its instruction.

    ``buffers`` are those that it may access, ``symbols`` the size symbols that it may use.
    Paths begin at the nest: ``("body", 2, "body", 0)``.
    """
    check = _NestCheck(buffers, {*symbols})
    check.axes(nest.axes)
    for number, step in enumerate(nest.body):
        path: LinePath = ("body", number)
        if isinstance(step, InnerLoop):
            check.loop(step, path)
        else:
            check.instruction(step, path)
    if check.found:
        return tuple(check.found)
    return tuple(AccessCheck(nest_ranges(nest, symbols), buffers).nest(nest))


@define
class _NestCheck:
    """The names that are visible where an instruction is, and what was found so far."""

    buffers: Mapping[str, TensorType]
    symbols: set[str]
    found: list[Diagnostic] = field(factory=list[Diagnostic])
    _visible_axes: set[str] = field(factory=set[str])
    _extents: dict[str, Expr] = field(factory=dict[str, Expr])
    _values: dict[str, DType] = field(factory=dict[str, DType])
    _defined: set[str] = field(factory=set[str])
    _hidden: dict[str, str] = field(factory=dict[str, str])
    _is_inner: bool = False

    def axes(self, axes: Sequence[Axis], path: LinePath = ()) -> None:
        for number, axis in enumerate(axes):
            at = (*path, "axes", number)
            if axis.name in self._visible_axes or axis.name in self._defined:
                self._report(Code.LOOP_REDEFINITION, f"{axis.name} is defined twice", at)
            for name in symbols_in(axis.extent):
                if name not in self.symbols:
                    message = f"the extent of {axis.name} uses {name}, which is not a size"
                    self._report(Code.LOOP_NAME, message, at)
            if self._extents.setdefault(axis.name, axis.extent) != axis.extent:
                message = f"{axis.name} has another extent in another loop"
                self._report(Code.LOOP_REDEFINITION, message, at)
            self._visible_axes.add(axis.name)

    def loop(self, loop: InnerLoop, path: LinePath) -> None:
        outer_axes, outer_values = set(self._visible_axes), dict(self._values)
        self.axes(loop.axes, path)
        reduced: dict[str, DType] = {}
        self._is_inner = True
        for number, each in enumerate(loop.body):
            self.instruction(each, (*path, "body", number))
            if isinstance(each, Reduce):
                dtypes = reduced_dtypes(each.op, each.dtype)
                for name, dtype in zip(each.results, dtypes, strict=False):
                    self._hidden[name] = "it is known only after its loop"
                    reduced[name] = dtype
        self._is_inner = False
        for name in self._values.keys() - outer_values.keys():
            self._hidden[name] = "it is known only in its loop"
        for name in reduced:
            self._hidden.pop(name, None)
        self._visible_axes, self._values = outer_axes, outer_values | reduced

    def instruction(self, step: Instruction, path: LinePath) -> None:
        before = len(self.found)
        self._check_names(step, path)
        if len(self.found) == before:
            for code, message in self._wrong(step):
                self._report(code, message, path)
        for name in results(step):
            if name in self._defined or name in self._visible_axes:
                self._report(Code.LOOP_REDEFINITION, f"{name} is defined twice", path)
            self._defined.add(name)
        if not isinstance(step, Reduce):
            self._values.update(zip(results(step), _result_dtypes(step), strict=False))

    def _check_names(self, step: Instruction, path: LinePath) -> None:
        for name in operands(step):
            if name not in self._values:
                self._report(Code.LOOP_NAME, f"{name} is not a value here", path, name)
        for expr in index_of(step):
            self._check_index(expr, path)
        if isinstance(step, Load | Store) and step.buffer not in self.buffers:
            message = f"there is no buffer {step.buffer}"
            self._report(Code.LOOP_BUFFER, message, path)

    def _check_index(self, expr: Expr, path: LinePath) -> None:
        for name in symbols_in(expr):
            if name in self._visible_axes or name in self.symbols:
                continue
            dtype = self._values.get(name)
            if dtype is None:
                message = f"an index uses {name}, which is not an axis, value or size here"
                self._report(Code.LOOP_NAME, message, path, name)
            elif not dtype.is_integer or dtype is DType.BOOL:
                message = f"an index uses {name}, which is {dtype.value}"
                self._report(Code.LOOP_DTYPE, message, path)

    def _wrong(self, step: Instruction) -> Iterator[tuple[Code, str]]:
        """Yield what is wrong with an instruction whose names are all known."""
        dtypes = [self._values[name] for name in operands(step)]
        match step:
            case Literal():
                return
            case IndexValue():
                if not step.dtype.is_integer and step.dtype not in (DType.F32, DType.F64):
                    yield Code.LOOP_DTYPE, f"an index is not given as {step.dtype.value}"
            case Load() | Store():
                yield from self._wrong_access(step, dtypes)
            case Apply():
                yield from _wrong_operator(step, dtypes)
            case Reduce() | Scan():
                yield from self._wrong_reduction(step, dtypes)
            case Check():
                if any(dtype is not DType.BOOL for dtype in dtypes):
                    yield Code.LOOP_DTYPE, "the condition and mask of a check are bools"

    def _wrong_access(
        self, step: Load | Store, dtypes: list[DType]
    ) -> Iterator[tuple[Code, str]]:
        type = self.buffers[step.buffer]
        value = step.dtype if isinstance(step, Load) else dtypes[0]
        if value is not type.dtype:
            message = f"{step.buffer} is {type.dtype.value}, its element {value.value}"
            yield Code.LOOP_DTYPE, message
        if step.mask is not None and dtypes[-1] is not DType.BOOL:
            yield Code.LOOP_DTYPE, f"the mask {step.mask} is {dtypes[-1].value}"
        if len(step.index) != len(type.size):
            message = (
                f"{step.buffer} has {len(type.size)} dimensions, not {len(step.index)}"
            )
            yield Code.LOOP_ARITY, message

    def _wrong_reduction(
        self, step: Reduce | Scan, dtypes: list[DType]
    ) -> Iterator[tuple[Code, str]]:
        word = step.op.value
        if not self._is_inner:
            yield Code.LOOP_PLACE, f"{word} is outside of an inner loop"
        if isinstance(step, Scan) and step.op not in SCANS:
            yield Code.LOOP_PLACE, f"{word} is not a scan"
        counts = (1, 3) if step.op is ReduceOp.WELFORD else (1,)
        if len(dtypes) not in counts:
            yield Code.LOOP_ARITY, f"{word} does not take {len(dtypes)} operands"
        if len(step.results) != len(_result_dtypes(step)):
            yield Code.LOOP_ARITY, f"{word} does not have {len(step.results)} results"
        if any(dtype is not step.dtype for dtype in dtypes):
            names = ", ".join(dtype.value for dtype in dtypes)
            yield Code.LOOP_DTYPE, f"{word} of {step.dtype.value} is given {names}"
        if step.op in REDUCED_REAL and step.dtype not in (DType.F32, DType.F64):
            yield Code.LOOP_DTYPE, f"{word} does not take {step.dtype.value}"

    def _report(
        self, code: Code, message: str, path: LinePath, name: str | None = None
    ) -> None:
        hint = self._hidden.get(name) if name is not None else None
        self.found.append(Diagnostic(code, message, path=path, hint=hint))


def _result_dtypes(step: Instruction) -> tuple[DType, ...]:
    match step:
        case Reduce():
            return reduced_dtypes(step.op, step.dtype)
        case Scan():
            return scanned_dtypes(step.op, step.dtype)
        case Literal() | IndexValue() | Load() | Apply():
            return (step.dtype,)
        case Store() | Check():
            return ()


def _wrong_operator(step: Apply, dtypes: list[DType]) -> Iterator[tuple[Code, str]]:
    word = step.op.value
    if len(dtypes) != operand_count(step.op):
        yield Code.LOOP_ARITY, f"{word} does not take {len(dtypes)} operands"
        return
    if step.op is ScalarOp.WHERE and dtypes.pop(0) is not DType.BOOL:
        yield Code.LOOP_DTYPE, "the condition of where is a bool"
    names = ", ".join(dtype.value for dtype in dtypes)
    if len({*dtypes}) != 1 or not takes_dtype(step.op, dtypes[0]):
        yield Code.LOOP_DTYPE, f"{word} does not take {names}"
    if step.op is ScalarOp.BITCAST and dtypes[0].itemsize != step.dtype.itemsize:
        message = f"bitcast of {names} to {step.dtype.value}, which has another size"
        yield Code.LOOP_DTYPE, message
    wanted = result_dtype(step.op, [DType.BOOL, *dtypes][-len(step.operands) :])
    if wanted not in (None, step.dtype):
        assert wanted is not None
        yield Code.LOOP_DTYPE, f"{word} gives {wanted.value}, not {step.dtype.value}"
