"""Reductions with several results: mean and variance, and a softmax's divisor."""

from attrs import frozen

from wrapperir.lowering.triton.dtypes import TYPES
from wrapperir.lowering.triton.reduction import Reduction, Results
from wrapperir.lowering.triton.writer import BODY, BlockValue


@frozen
class Moments(Reduction):
    """Mean, sum of squared differences from it, and count."""

    def _divided(self, left: str, right: str) -> str:
        return f"divided({left}, {right})"

    def whole(self) -> Results:
        """Reduce the tile."""
        if len(self.operands) == 3:
            masked = [self.masked(value, 0).text for value in self.operands]
            return self._merged(masked)
        value, dtype = self.operands[0], self.step.dtype
        extent = self.dim.extent
        assert isinstance(extent, int)
        count = self.writer.constant(extent, dtype)
        total = self.masked(value, 0)
        total = self.reduced(f"tl.sum({total.text}, {self.axis})", dtype)
        mean = self.writer.define(
            BlockValue(self._divided(total.text, count.text), dtype, total.dims, BODY),
            self.step.results[0],
        )
        full = self.writer.broadcast(value, self.full)
        difference = BlockValue(f"({full.text} - {mean.text})", dtype, self.full, BODY)
        difference = self.masked(self.writer.define(difference), 0)
        text = f"tl.sum({difference.text} * {difference.text}, {self.axis})"
        squares = self.reduced(text, dtype, self.step.results[1])
        return dict(zip(self.step.results, (mean, squares, count), strict=True))

    def accumulate(self, offset: str) -> None:
        """Add a block's values to the moments of each lane."""
        add, dtype = self.writer.add, self.step.dtype
        mean, squares = self.started(0, dtype), self.started(0, dtype)
        if len(self.operands) == 3:
            count = self.started(0, dtype)
            masked = [self.masked(value, 0).text for value in self.operands]
            state = f"{mean}, {squares}, {count}"
            function = "merged_moments"
            add(f"{state} = {function}({state}, {', '.join(masked)})")
            return
        value = self.writer.broadcast(self.operands[0], self.full).text
        fresh = self.writer.names.fresh
        share, delta, moved, grown = (fresh("t") for _ in range(4))
        # All lanes have as many values, but those that the last block has none for.
        steps = f"tl.full([], {offset} // {self.dim.block} + 1, {TYPES[dtype]})"
        one = self.writer.constant(1, dtype)
        add(f"{share} = {self._divided(one.text, steps)}")
        add(f"{delta} = {value} - {mean}")
        add(f"{moved} = {mean} + {delta} * {share}")
        add(f"{grown} = {squares} + {delta} * ({value} - {moved})")
        for name, new in ((mean, moved), (squares, grown)):
            masks = self.writer.mask((self.dim,))
            text = f"tl.where({masks[0].text}, {new}, {name})" if masks else new
            add(f"{name} = {text}")

    def finish(self) -> Results:
        """Merge the moments of the lanes."""
        if len(self.operands) == 3:
            return self._merged(self.names)
        lanes = self.writer.column(f"tl.arange(0, {self.dim.block})", self.axis)
        extent, block = self.writer.extents[self.dim], self.dim.block
        kind = TYPES[self.step.dtype]
        text = f"(({extent} - {lanes} + {block} - 1) // {block}).to({kind})"
        count = BlockValue(text, self.step.dtype, frozenset({self.dim}), BODY)
        count = self.writer.broadcast(self.writer.define(count), self.full)
        return self._merged([*self.names, count.text])

    def _merged(self, operands: list[str]) -> Results:
        dtypes = [self.step.dtype] * 3
        found = self.reduced_together(operands, dtypes, "merged_moments")
        return dict(zip(self.step.results, found, strict=True))


@frozen
class Softmax(Reduction):
    """The greatest value, and the sum of the exponentials of differences from it."""

    def _named(self, peak: BlockValue, total: BlockValue) -> Results:
        return dict(zip(self.step.results, (peak, total), strict=True))

    def whole(self) -> Results:
        """Reduce the tile."""
        dtype, names = self.step.dtype, self.step.results
        value = self.masked(self.operands[0], float("-inf"))
        function = "maximum"
        text = f"tl.reduce({value.text}, {self.axis}, {function})"
        peak = self.reduced(text, dtype, names[0])
        full = self.writer.broadcast(self.operands[0], self.full)
        text = f"libdevice.exp({full.text} - {peak.text})"
        power = self.writer.define(BlockValue(text, dtype, self.full, BODY))
        power = self.masked(power, 0)
        total = self.reduced(f"tl.sum({power.text}, {self.axis})", dtype, names[1])
        return self._named(peak, total)

    def accumulate(self, offset: str) -> None:
        """Add a block's values to the peak and the sum of each lane."""
        dtype = self.step.dtype
        peak, total = self.started(float("-inf"), dtype), self.started(0, dtype)
        value = self.masked(self.operands[0], float("-inf"))
        ones = self.masked(self.writer.constant(1, dtype), 0)
        function = "merged_softmax"
        state = f"{peak}, {total}"
        self.writer.add(f"{state} = {function}({state}, {value.text}, {ones.text})")

    def finish(self) -> Results:
        """Merge the lanes."""
        dtype, names = self.step.dtype, self.step.results
        peak, total = self.reduced_together(self.names, (dtype, dtype), "merged_softmax")
        # The difference of equal infinities is NaN.
        nan = self.writer.constant(float("nan"), dtype)
        text = f'tl.where(tl.abs({peak.text}) == float("inf"), {nan.text}, {total.text})'
        total = self.writer.define(BlockValue(text, dtype, peak.dims, BODY), names[1])
        return self._named(peak, total)
