"""Reductions by a function of two values, and the positions of extreme values."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from attrs import evolve, frozen

from wrapperir.ir import DType
from wrapperir.lowering.scalar_op import ReduceOp
from wrapperir.lowering.triton.dtypes import HALF, TYPES, limits
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
    def _dtype(self) -> DType:
        return DType.F32 if self.step.dtype in HALF else self.step.dtype

    @property
    def _op(self) -> ReduceOp:
        """The operator; on bools there are only two."""
        if self.step.dtype is DType.BOOL:
            is_any = self.step.op in (ReduceOp.SUM, ReduceOp.MAX, ReduceOp.ANY)
            return ReduceOp.ANY if is_any else ReduceOp.ALL
        return self.step.op

    @property
    def _identity(self) -> float:
        low, high = limits(self._dtype)
        match self._op:
            case ReduceOp.MIN:
                return high
            case ReduceOp.MAX:
                return low
            case ReduceOp.PROD | ReduceOp.ALL:
                return 1
            case _:
                return 0

    def _operand(self) -> BlockValue:
        value = self.operands[0]
        if self._op in (ReduceOp.ANY, ReduceOp.ALL) and value.dtype is not DType.BOOL:
            text = BlockValue(f"({value.text} != 0)", DType.BOOL, value.dims, value.level)
            value = self.writer.define(text)
        elif value.dtype in HALF:
            text = BlockValue(
                f"{value.text}.to(tl.float32)", DType.F32, value.dims, value.level
            )
            value = self.writer.define(text)
        return self.masked(value, self._identity)

    def _reduced(self, text: str) -> Results:
        (name,) = self.step.results
        if self._op is ReduceOp.SUM:
            text = f"tl.sum({text}, {self.axis})"
        else:
            function = self.writer.call(_FUNCTIONS[self._op])
            text = f"tl.reduce({text}, {self.axis}, {function})"
        dtype = self.step.dtype
        if self._op in (ReduceOp.ANY, ReduceOp.ALL):
            dtype = DType.BOOL
        elif dtype in HALF or dtype.itemsize < 4:
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
            function = self.writer.call(_FUNCTIONS[self._op])
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
        return self.writer.call("first_minimum" if is_least else "first_maximum")

    def _start(self, dtype: DType) -> float:
        return limits(dtype)[self.step.op is ReduceOp.ARGMIN]

    def _pair(self) -> tuple[BlockValue, BlockValue]:
        value = self.operands[0]
        if value.dtype in HALF or value.dtype is DType.BOOL:
            wide = DType.F32 if value.dtype in HALF else DType.I32
            text = f"{value.text}.to({TYPES[wide]})"
            value = self.writer.define(BlockValue(text, wide, value.dims, value.level))
        place = BlockValue(
            self.dim.index,
            self.writer.index_dtype,
            frozenset({self.dim}),
            self.writer.level_of(self.dim),
        )
        start = self._start(value.dtype)
        return self.masked(value, start), self.masked(place, self._LAST[place.dtype])

    def _reduced(self, value: str, place: str, dtypes: Sequence[DType]) -> Results:
        (name,) = self.step.results
        _, found = self.reduced_together((value, place), dtypes, self._function)
        wide = evolve(found, text=f"{found.text}.to(tl.int64)", dtype=DType.I64)
        return {name: self.writer.define(wide, name)}

    def whole(self) -> Results:
        """Reduce the tile."""
        value, place = self._pair()
        return self._reduced(value.text, place.text, (value.dtype, place.dtype))

    def accumulate(self, offset: str) -> None:
        """Keep the better value of each lane."""
        value, place = self._pair()
        best = self.started(self._start(value.dtype), value.dtype)
        where = self.started(self._LAST[place.dtype], place.dtype)
        state = f"{best}, {where}"
        self.writer.add(f"{state} = {self._function}({state}, {value.text}, {place.text})")

    def finish(self) -> Results:
        """Find the best of the lanes."""
        dtype = self.operands[0].dtype
        dtype = DType.F32 if dtype in HALF else DType.I32 if dtype is DType.BOOL else dtype
        best, where = self.names
        return self._reduced(best, where, (dtype, self.writer.index_dtype))
