"""Reductions by a function of two values, and the positions of extreme values."""

from collections.abc import Mapping
from typing import ClassVar

from attrs import frozen

from wrapperir.ir import DType
from wrapperir.lowering.dtypes import HALVES, accumulated, identity
from wrapperir.lowering.scalar_op import ReduceOp
from wrapperir.lowering.triton.dtypes import TYPES, widened
from wrapperir.lowering.triton.reduction import Reduction, Results
from wrapperir.lowering.triton.writer import BlockValue

_FUNCTIONS: Mapping[ReduceOp, str] = {
    ReduceOp.PROD: "multiplied",
    ReduceOp.MIN: "minimum",
    ReduceOp.MAX: "maximum",
    ReduceOp.ANY: "either",
    ReduceOp.ALL: "both",
}
_SIGNS: Mapping[ReduceOp, str] = {
    ReduceOp.SUM: "+",
    ReduceOp.PROD: "*",
    ReduceOp.ANY: "|",
    ReduceOp.ALL: "&",
}


@frozen
class Fold(Reduction):
    """A reduction by an associative function of two values."""

    @property
    def _op(self) -> ReduceOp:
        """The operator; on bools there are only two."""
        if self.step.dtype is DType.BOOL:
            is_any = self.step.op in (ReduceOp.SUM, ReduceOp.MAX, ReduceOp.ANY)
            return ReduceOp.ANY if is_any else ReduceOp.ALL
        return self.step.op

    @property
    def _identity(self) -> float:
        value = identity(self._op, accumulated(self.step.dtype))
        assert value is not None
        return value

    def _operand(self) -> BlockValue:
        value = self.operands[0]
        is_bool = self._op in (ReduceOp.ANY, ReduceOp.ALL)
        dtype = DType.BOOL if is_bool else accumulated(value.dtype)
        value = self.writer.converted(value, dtype)
        return self.masked(value, self._identity)

    def _reduced(self, text: str) -> Results:
        (name,) = self.step.results
        if self._op is ReduceOp.SUM:
            text = f"tl.sum({text}, {self.axis})"
        else:
            function = _FUNCTIONS[self._op]
            text = f"tl.reduce({text}, {self.axis}, {function})"
        dtype = self.step.dtype
        if self._op in (ReduceOp.ANY, ReduceOp.ALL):
            dtype = DType.BOOL
        elif dtype in HALVES or dtype.itemsize < 4:
            text = f"{text}.to({TYPES[dtype]})"  # Triton adds small numbers in 32 bits
        return {name: self.reduced(text, dtype, name)}

    def whole(self) -> Results:
        """Reduce the tile."""
        return self._reduced(self._operand().text)

    def accumulate(self, offset: str) -> None:
        """Combine each lane with a block's value."""
        value = self._operand()
        total = self.started(self._identity, value.dtype)
        sign = _SIGNS.get(self._op)
        if sign is not None:
            self.writer.add(f"{total} = {total} {sign} {value.text}")
        else:
            function = _FUNCTIONS[self._op]
            self.writer.add(f"{total} = {function}({total}, {value.text})")

    def finish(self) -> Results:
        """Combine the lanes."""
        return self._reduced(self.names[0])


@frozen
class ExtremePlace(Reduction):
    """The first position of the least or the greatest value."""

    _LAST: ClassVar[Mapping[DType, int]] = {
        DType.I32: (1 << 31) - 1,
        DType.I64: (1 << 63) - 1,
    }

    @property
    def _function(self) -> str:
        is_least = self.step.op is ReduceOp.ARGMIN
        return "first_minimum" if is_least else "first_maximum"

    def _start(self, dtype: DType) -> float:
        value = identity(self.step.op, dtype)
        assert value is not None
        return value

    def _pair(self) -> tuple[BlockValue, BlockValue]:
        value = self.operands[0]
        value = self.writer.converted(value, widened(value.dtype))
        place = BlockValue(
            self.dim.index,
            self.writer.index_dtype,
            frozenset({self.dim}),
            self.writer.level_of(self.dim),
        )
        start = self._start(value.dtype)
        return self.masked(value, start), self.masked(place, self._LAST[place.dtype])

    def whole(self) -> Results:
        """Reduce the tile: find the extreme value, then the first place that has it.

        Both take fewer instructions than pairs of values and places do.
        """
        (name,) = self.step.results
        value, place = self._pair()
        function = "minimum" if self.step.op is ReduceOp.ARGMIN else "maximum"
        best = self.reduced(
            f"tl.reduce({value.text}, {self.axis}, {function})", value.dtype
        )
        is_best = f"({value.text} == {best.text})"
        if value.dtype.is_float:
            is_best = f"({is_best} | ({value.text} != {value.text}))"
        places = f"tl.where({is_best}, {place.text}, {self._LAST[place.dtype]})"
        found = self.reduced(f"tl.min({places}, {self.axis})", place.dtype)
        return {name: self.writer.converted(found, DType.I64, name)}

    def accumulate(self, offset: str) -> None:
        """Keep the better value of each lane."""
        value, place = self._pair()
        best = self.started(self._start(value.dtype), value.dtype)
        where = self.started(self._LAST[place.dtype], place.dtype)
        state = f"{best}, {where}"
        self.writer.add(f"{state} = {self._function}({state}, {value.text}, {place.text})")

    def finish(self) -> Results:
        """Find the best of the lanes."""
        (name,) = self.step.results
        dtypes = (widened(self.operands[0].dtype), self.writer.index_dtype)
        _, found = self.reduced_together(self.names, dtypes, self._function)
        return {name: self.writer.converted(found, DType.I64, name)}
