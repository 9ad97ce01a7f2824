"""Reductions and scans as OpenCL C statements."""

from collections.abc import Sequence

from attrs import frozen

from wrapperir.ir import DType
from wrapperir.lowering.dtypes import accumulated, identity
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp
from wrapperir_opencl.renderer.operators import (
    format_apply,
    format_cast,
    format_literal,
    scalar_type,
)

_STEPS = {
    ReduceOp.SUM: ScalarOp.ADD,
    ReduceOp.PROD: ScalarOp.MUL,
    ReduceOp.MIN: ScalarOp.MINIMUM,
    ReduceOp.MAX: ScalarOp.MAXIMUM,
}


@frozen(kw_only=True)
class Accumulator:
    """The state of a reduction or scan of values of ``dtype``, in variables.

    ``name`` begins their names.  Sums of ``f32`` are in ``f64``, since the error of a long
    sum would grow with its length.
    """

    op: ReduceOp
    dtype: DType
    name: str
    is_scan: bool = False

    @property
    def _kind(self) -> DType:
        narrow = accumulated(self.dtype)
        is_wide = self.op in (ReduceOp.SUM, ReduceOp.PROD, ReduceOp.WELFORD)
        return DType.F64 if narrow is DType.F32 and is_wide else narrow

    def declarations(self) -> list[str]:
        """Return the variables, with the values that they begin with."""
        kind, start = scalar_type(self._kind), identity(self.op, self._kind)
        text = "0" if start is None else format_literal(start, self._kind)
        more = {
            ReduceOp.ARGMIN: [f"long {self.name}_at = 0;"],
            ReduceOp.ARGMAX: [f"long {self.name}_at = 0;"],
            ReduceOp.ONLINE_SOFTMAX: [f"{kind} {self.name}_total = 0;"],
            ReduceOp.WELFORD: [f"{kind} {self.name}_squares = 0, {self.name}_count = 0;"],
        }
        if self.op in (ReduceOp.ANY, ReduceOp.ALL):
            kind, text = "bool", "false" if self.op is ReduceOp.ANY else "true"
        return [f"{kind} {self.name} = {text};", *more.get(self.op, [])]

    def step(self, operands: Sequence[str], position: str) -> str:
        """Return the statement that adds a value, which is at ``position``."""
        values = [format_cast(x, self.dtype, self._kind) for x in operands]
        state, value = self.name, values[0]
        match self.op:
            case ReduceOp.SUM | ReduceOp.PROD | ReduceOp.MIN | ReduceOp.MAX:
                dtypes = (self._kind, self._kind)
                both = (state, value)
                return (
                    f"{state} = {format_apply(_STEPS[self.op], self._kind, dtypes, both)};"
                )
            case ReduceOp.ANY:
                return f"{state} = {state} || {value} != 0;"
            case ReduceOp.ALL:
                return f"{state} = {state} && {value} != 0;"
            case ReduceOp.ARGMIN | ReduceOp.ARGMAX:
                sign = "<" if self.op is ReduceOp.ARGMIN else ">"
                test = (
                    f"{value} {sign} {state} || ({value} != {value} && {state} == {state})"
                )
                if self.is_scan:  # the last of equal values
                    test = f"{value} != {value} || {value} {sign}= {state}"
                return f"if ({test}) {{ {state} = {value}; {state}_at = {position}; }}"
            case ReduceOp.WELFORD:
                given = ", ".join([*values, "0", "1"][:3])
                return f"welford(&{state}, &{state}_squares, &{state}_count, {given});"
            case ReduceOp.ONLINE_SOFTMAX:
                kind = scalar_type(self._kind)
                return f"online_softmax_{kind}(&{state}, &{state}_total, {value});"

    def results(self) -> list[tuple[DType, str]]:
        """Return the dtype and the text of each result."""
        state, kind = self.name, self._kind
        first = (self.dtype, format_cast(state, kind, self.dtype))
        match self.op:
            case ReduceOp.SUM | ReduceOp.PROD | ReduceOp.MIN | ReduceOp.MAX:
                return [first]
            case ReduceOp.ANY | ReduceOp.ALL:
                return [(DType.BOOL, state)]
            case ReduceOp.ARGMIN | ReduceOp.ARGMAX:
                at = (DType.I64, f"{state}_at")
                return [first, at] if self.is_scan else [at]
            case ReduceOp.WELFORD:
                names = (state, f"{state}_squares", f"{state}_count")
                return [(self.dtype, format_cast(x, kind, self.dtype)) for x in names]
            case ReduceOp.ONLINE_SOFTMAX:
                total = f"softmax_total_{scalar_type(kind)}({state}, {state}_total)"
                return [first, (self.dtype, format_cast(total, kind, self.dtype))]
