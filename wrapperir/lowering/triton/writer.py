"""The lines of a kernel's body, in which equal expressions are computed once.

There are two levels: the kernel's body, and the loop over blocks of an inner loop while
one is open.  A value goes to the outermost level that has all that it is computed from, so
that nothing is computed in a loop that does not change there.
"""

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager

from attrs import evolve, field, frozen

from wrapperir.ir import DType, NodeOrigin
from wrapperir.lowering.triton.dtypes import TYPES, constant_text
from wrapperir.lowering.triton.scalar_code import cast_text
from wrapperir.lowering.triton.tile import BlockDimension, KernelNames, Tile

BODY, LOOP = 0, 1
"""The levels."""


@frozen
class BlockValue:
    """A name, or the text of an expression, in a kernel's source.

    ``dims`` are the dimensions of the tile that it varies along; the others have length 1
    in its shape, and with none it is a scalar.
    """

    text: str
    dtype: DType
    dims: frozenset[BlockDimension] = frozenset()
    level: int = BODY


@frozen
class _Level:
    lines: list[str] = field(factory=list[str])
    origins: list[tuple[NodeOrigin, ...]] = field(factory=list[tuple[NodeOrigin, ...]])
    known: dict[str, BlockValue] = field(factory=dict[str, BlockValue])
    rows: dict[str, int] = field(factory=dict[str, int])

    def add(self, line: str, origins: tuple[NodeOrigin, ...]) -> None:
        self.lines.append(line)
        self.origins.append(origins)

    def add_origins(self, row: int, origins: tuple[NodeOrigin, ...]) -> None:
        self.origins[row] = tuple(dict.fromkeys((*self.origins[row], *origins)))


class Writer:
    """Writes the body of a kernel."""

    def __init__(
        self,
        tile: Tile,
        names: KernelNames,
        masked: frozenset[BlockDimension],
        index_dtype: DType,
    ) -> None:
        """Begin the body; ``masked`` dimensions have points outside of their extent."""
        self.tile = tile
        self.index_dtype = index_dtype
        self.extents: dict[BlockDimension, str] = {}
        self.names = names
        self._masked = masked
        self._levels = [_Level()]
        self._origins: tuple[NodeOrigin, ...] = ()

    @property
    def lines(self) -> list[str]:
        """The lines of the body."""
        return self._levels[BODY].lines

    @property
    def origins(self) -> list[tuple[NodeOrigin, ...]]:
        """The nodes that each line of the body is for."""
        return self._levels[BODY].origins

    @contextmanager
    def computing(self, origins: tuple[NodeOrigin, ...]) -> Generator[None]:
        """Have what is written inside be for these nodes."""
        before, self._origins = self._origins, origins
        yield
        self._origins = before

    @property
    def level(self) -> int:
        """The innermost open level."""
        return len(self._levels) - 1

    def add(self, line: str) -> None:
        """Append a line to the innermost level."""
        self._levels[-1].add(line, self._origins)

    def add_before(self, line: str) -> None:
        """Append a line to the kernel's body, before the loop that is open."""
        self._levels[BODY].add(line, self._origins)

    def define(
        self, value: BlockValue, wanted: str = "t", key: str | None = None
    ) -> BlockValue:
        """Return the name of an expression's value, which is computed once.

        ``key`` tells apart equal texts that have different values.
        """
        if value.text.isidentifier():
            return value
        level, key = self._levels[value.level], key or value.text
        known = level.known.get(key)
        if known is not None:
            level.add_origins(level.rows[key], self._origins)
            return known
        name = self.names.fresh(wanted)
        level.rows[key] = len(level.lines)
        level.add(f"{name} = {value.text}", self._origins)
        level.known[key] = named = evolve(value, text=name)
        return named

    def converted(self, value: BlockValue, dtype: DType, wanted: str = "t") -> BlockValue:
        """Return a value in another dtype."""
        if value.dtype is dtype:
            return value
        text = cast_text(value.text, value.dtype, dtype)
        return self.define(evolve(value, text=text, dtype=dtype), wanted)

    def constant(self, number: float, dtype: DType) -> BlockValue:
        """Return a scalar constant."""
        return self.define(BlockValue(constant_text(number, dtype), dtype))

    def shape(self, dims: Collection[BlockDimension]) -> str:
        """Return the shape of a value that varies along dimensions."""
        lengths = ["1"] * self.tile.rank if dims else []
        for dim in dims:
            lengths[dim.place] = dim.block
        return f"[{', '.join(lengths)}]"

    def mask(self, dims: Iterable[BlockDimension]) -> list[BlockValue]:
        """Return the masks of the dimensions that need one."""
        found = sorted(set(dims) & self._masked, key=lambda dim: dim.place)
        return [
            BlockValue(dim.mask, DType.BOOL, frozenset({dim}), self.level_of(dim))
            for dim in found
        ]

    def is_masked(self, dim: BlockDimension) -> bool:
        """Say whether a dimension has points outside of its extent."""
        return dim in self._masked

    def level_of(self, dim: BlockDimension) -> int:
        """Return the level that a dimension's index is defined on."""
        return BODY if dim.is_parallel or dim.is_held else LOOP

    def broadcast(self, value: BlockValue, dims: frozenset[BlockDimension]) -> BlockValue:
        """Return a value in the shape of dimensions that include its own."""
        if value.dims == dims:
            return value
        level = max([value.level, *(min(self.level_of(d), self.level) for d in dims)])
        if not value.dims:  # a scalar, of no shape
            text = f"tl.full({self.shape(dims)}, {value.text}, {TYPES[value.dtype]})"
        else:
            text = f"tl.broadcast_to({value.text}, {self.shape(dims)})"
        return self.define(BlockValue(text, value.dtype, dims, level))

    def expanded(self, reduced: str) -> str:
        """Return the text of a reduced tile with its last dimension again, of length 1."""
        if self.tile.rank == 1:
            return reduced
        return f"{reduced}[{':, ' * (self.tile.rank - 1)}None]"

    def column(self, vector: str, place: int) -> str:
        """Return the text of a vector along one dimension of the tile."""
        if self.tile.rank == 1:
            return vector
        entries = ["None"] * self.tile.rank
        entries[place] = ":"
        return f"{vector}[{', '.join(entries)}]"

    @contextmanager
    def loop(self, *heads: tuple[str, Mapping[str, str]]) -> Generator[None]:
        """Open a loop; at its end, its lines go to the body, once after each head.

        With each head comes what it has in place of lines.
        """
        self._levels.append(_Level())
        try:
            yield
        finally:
            done = self._levels.pop()
            for head, others in heads:
                self.add(head)
                for line, origins in zip(done.lines, done.origins, strict=True):
                    self._levels[BODY].add(f"    {others.get(line, line)}", origins)
                if not done.lines:
                    self.add("    pass")


def joined(values: Sequence[BlockValue], sign: str, dtype: DType) -> BlockValue:
    """Return the values joined by an infix operator."""
    dims = frozenset[BlockDimension]().union(*(value.dims for value in values))
    level = max(value.level for value in values)
    return BlockValue(f" {sign} ".join(value.text for value in values), dtype, dims, level)
