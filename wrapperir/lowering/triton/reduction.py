"""The base of reductions of a tile along its last dimension, at once or over blocks.

Over blocks, each lane of the tile accumulates its own points, and the lanes are combined
after the loop.  The variance of a tile at hand takes two passes over it; over blocks it is
by Welford's recurrence, and lanes are merged by the formula of Chan, Golub and LeVeque
(1979).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from attrs import field, frozen

from wrapperir.ir import DType
from wrapperir.lowering.loops import Reduce
from wrapperir.lowering.triton.dtypes import TYPES, number_text
from wrapperir.lowering.triton.tile import BlockDimension
from wrapperir.lowering.triton.writer import BODY, BlockValue, Writer

Results = Mapping[str, BlockValue]


@frozen
class Reduction(ABC):
    """A reduction of values along a dimension."""

    step: Reduce
    writer: Writer
    dim: BlockDimension
    operands: tuple[BlockValue, ...]
    names: list[str] = field(factory=list[str], init=False)

    @abstractmethod
    def whole(self) -> Results:
        """Reduce values that are all at hand; return the results."""

    @abstractmethod
    def accumulate(self, offset: str) -> None:
        """Accumulate a block of values, in the loop; ``offset`` is where it begins."""

    @abstractmethod
    def finish(self) -> Results:
        """Reduce what was accumulated, after the loop; return the results."""

    @property
    def full(self) -> frozenset[BlockDimension]:
        """All dimensions of the tile."""
        return frozenset({*self.writer.tile.parallel, self.dim})

    @property
    def axis(self) -> int:
        """The place of the dimension."""
        return self.dim.place

    def masked(self, value: BlockValue, number: float) -> BlockValue:
        """Return a value in the shape of the tile, with ``number`` outside of the loop."""
        value = self.writer.broadcast(value, self.full)
        masks = self.writer.mask((self.dim,))
        if not masks:
            return value
        other = self.writer.constant(number, value.dtype)
        text = f"tl.where({masks[0].text}, {value.text}, {other.text})"
        level = max(value.level, masks[0].level)
        return self.writer.define(BlockValue(text, value.dtype, self.full, level))

    def started(self, number: float, dtype: DType) -> str:
        """Return the name of an accumulator that begins with a number."""
        name = self.writer.names.fresh("lanes")
        shape = self.writer.shape(self.full)
        start = number_text(number, dtype)
        self.writer.add_before(f"{name} = tl.full({shape}, {start}, {TYPES[dtype]})")
        self.names.append(name)
        return name

    def reduced(self, text: str, dtype: DType, wanted: str = "t") -> BlockValue:
        """Return the value of a reduction's text, in the shape of the tile again."""
        dims = frozenset(self.writer.tile.parallel)
        value = BlockValue(self.writer.expanded(text), dtype, dims, BODY)
        return self.writer.define(value, wanted)

    def reduced_together(
        self, operands: Sequence[str], dtypes: Sequence[DType], function: str
    ) -> list[BlockValue]:
        """Return the results of a reduction of several values by a device function."""
        names = [self.writer.names.fresh("t") for _ in operands]
        given = f"({', '.join(operands)})"
        self.writer.add(f"{', '.join(names)} = tl.reduce({given}, {self.axis}, {function})")
        return [
            self.reduced(name, dtype) for name, dtype in zip(names, dtypes, strict=True)
        ]
