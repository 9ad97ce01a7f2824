"""Reductions and scans as statements, of one element or one of several lanes.

A reduction keeps its state in variables, or in arrays with an element for each lane.  The
text that follows a variable's name is the *slot*: empty, or an index such as ``[l]``.
"""

from collections.abc import Sequence
from typing import assert_never

from attrs import frozen

from wrapperir.ir import DType
from wrapperir.lowering.c.language import CLanguage
from wrapperir.lowering.dtypes import accumulated, identity
from wrapperir.lowering.scalar_op import ReduceOp, ScalarOp, reduced_dtypes, scanned_dtypes


@frozen
class Variable:
    """A variable of a reduction's state: its type, name and value at the start."""

    type: str
    name: str
    start: str


@frozen(kw_only=True)
class Accumulator:
    """The state of a reduction or scan of values of ``dtype``.

    ``name`` begins the names of its variables.  ``is_wide`` sums ``f32`` in ``f64``, since
    the error of a long sum would grow with its length.  ``is_scan`` keeps, with the extreme
    value, the last of equal positions, as ``cummax`` does.  ``is_triple`` says that the
    operands are means, squares and counts to combine.
    """

    language: CLanguage
    op: ReduceOp
    dtype: DType
    name: str
    is_wide: bool = True
    is_scan: bool = False
    is_triple: bool = False

    @property
    def result_dtypes(self) -> tuple[DType, ...]:
        """The dtypes of the results."""
        dtypes = scanned_dtypes if self.is_scan else reduced_dtypes
        return dtypes(self.op, self.dtype)

    def variables(self, first: str = "0") -> tuple[Variable, ...]:
        """Return the variables; ``first`` is the position of the first value."""
        kind, name = self.language.scalar(self._kind), self.name
        value = identity(self.op, self._kind)
        start = "0" if value is None else self.language.literal(value, self._kind)
        match self.op:
            case ReduceOp.SUM | ReduceOp.PROD | ReduceOp.MIN | ReduceOp.MAX:
                return (Variable(kind, name, start),)
            case ReduceOp.ANY | ReduceOp.ALL:
                # Lanes of bool, a byte each, would be widened for each comparison.
                return (Variable(self.language.scalar(DType.I32), name, start),)
            case ReduceOp.ARGMIN | ReduceOp.ARGMAX:
                at = Variable(self.language.scalar(DType.I64), f"{name}_at", first)
                return Variable(kind, name, start), at
            case ReduceOp.WELFORD:
                names = (name, f"{name}_squares", f"{name}_count")
                return tuple(Variable(kind, part, start) for part in names)
            case ReduceOp.ONLINE_SOFTMAX:
                total = Variable(kind, f"{name}_total", "0")
                return (Variable(kind, name, start), total)
        assert_never(self.op)

    def step(self, operands: Sequence[str], position: str, slot: str = "") -> str:
        """Return the statement that adds a value, which is at ``position``."""
        values = [self._converted(operand) for operand in operands]
        return self._step(values, position, slot)

    def _step(self, values: Sequence[str], position: str, slot: str) -> str:
        state, value = f"{self.name}{slot}", values[0]
        match self.op:
            case ReduceOp.SUM | ReduceOp.PROD:
                op = ScalarOp.ADD if self.op is ReduceOp.SUM else ScalarOp.MUL
                kinds = (self._kind, self._kind)
                result = self.language.apply(op, self._kind, kinds, (state, value))
                return f"{state} = {result};"
            case ReduceOp.MIN | ReduceOp.MAX:
                function = self.language.function(f"{self.op.value}imum", self._kind)
                return f"{state} = {function}({state}, {value});"
            case ReduceOp.ANY:
                return f"{state} = {state} | ({value} != 0);"
            case ReduceOp.ALL:
                return f"{state} = {state} & ({value} != 0);"
            case ReduceOp.ARGMIN | ReduceOp.ARGMAX:
                at = f"{self.name}_at{slot}"
                return (
                    f"if ({self._is_better(value, state)})"
                    f" {state} = {value}, {at} = {position};"
                )
            case ReduceOp.WELFORD:
                name = "welford" if self.is_triple else "welford_value"
                name = "add_square" if self._sums_squares else name
                return self._change(name, slot, values)
            case ReduceOp.ONLINE_SOFTMAX:
                return self._change("online_softmax_value", slot, (value,))
        assert_never(self.op)

    def combine(self, into: str, other: str) -> str:
        """Return the statement that adds the state of one slot to that of another."""
        state, value = f"{self.name}{into}", f"{self.name}{other}"
        match self.op:
            case ReduceOp.ARGMIN | ReduceOp.ARGMAX:
                at, place = f"{self.name}_at{into}", f"{self.name}_at{other}"
                better = self._is_better(value, state)
                is_same = self.language.function("is_same", self._kind)
                earlier = f"{is_same}({value}, {state}) & ({place} < {at})"
                return f"if ({better} | ({earlier})) {state} = {value}, {at} = {place};"
            case ReduceOp.WELFORD:
                name = "add_squares" if self._sums_squares else "welford"
                return self._change(name, into, self._state(other))
            case ReduceOp.ONLINE_SOFTMAX:
                return self._change("online_softmax", into, self._state(other))
            case (
                ReduceOp.SUM
                | ReduceOp.PROD
                | ReduceOp.MIN
                | ReduceOp.MAX
                | ReduceOp.ANY
                | ReduceOp.ALL
            ):
                return self._step((value,), "", into)

    def results(self, slot: str = "") -> tuple[str, ...]:
        """Return the results, of :attr:`result_dtypes`."""
        state = f"{self.name}{slot}"
        match self.op:
            case ReduceOp.ARGMIN | ReduceOp.ARGMAX:
                at = f"{self.name}_at{slot}"
                return (self._result(state), at) if self.is_scan else (at,)
            case ReduceOp.WELFORD:
                mean, squares, count = (f"{v.name}{slot}" for v in self.variables())
                if self._sums_squares:
                    function = self.language.function("squared_differences", DType.F64)
                    squares = f"{function}({mean}, {squares}, {count})"
                    mean = f"{mean} / {count}"
                return tuple(map(self._result, (f"({mean})", squares, count)))
            case ReduceOp.ONLINE_SOFTMAX:
                function = self.language.function("softmax_total", self._kind)
                total = f"{function}({state}, {self.name}_total{slot})"
                return self._result(state), self._result(total)
            case (
                ReduceOp.SUM
                | ReduceOp.PROD
                | ReduceOp.MIN
                | ReduceOp.MAX
                | ReduceOp.ANY
                | ReduceOp.ALL
            ):
                return (self._result(state),)

    @property
    def _sums_squares(self) -> bool:
        """Whether variance is from sums in ``f64``, which round less than Welford's."""
        is_narrow = self.dtype is not DType.F64
        return self.op is ReduceOp.WELFORD and is_narrow and not self.is_triple

    @property
    def _kind(self) -> DType:
        """The dtype of the state."""
        is_sum = self.op in (ReduceOp.SUM, ReduceOp.PROD) and self.is_wide
        narrow = accumulated(self.dtype)
        if narrow is DType.F32 and (is_sum or self._sums_squares):
            return DType.F64
        return narrow

    def _converted(self, operand: str) -> str:
        if self._kind is self.dtype or not self.dtype.is_float:
            return operand
        return self.language.cast(operand, self.dtype, self._kind)

    def _result(self, text: str) -> str:
        return self.language.cast(text, self._kind, self.dtype)

    def _state(self, slot: str) -> list[str]:
        return [f"{variable.name}{slot}" for variable in self.variables()]

    def _change(self, name: str, slot: str, values: Sequence[str]) -> str:
        """Return the call of a function that changes the state of a slot."""
        state = map(self.language.reference, self._state(slot))
        function = self.language.function(name, self._kind)
        return f"{function}({', '.join((*state, *values))});"

    def _is_better(self, value: str, state: str) -> str:
        if not self.is_scan:
            test = "is_before" if self.op is ReduceOp.ARGMIN else "is_after"
            return f"{self.language.function(test, self._kind)}({value}, {state})"
        sign = "<=" if self.op is ReduceOp.ARGMIN else ">="
        return f"({value} != {value}) | ({value} {sign} {state})"
