"""The state of a block while a program is generated: its values, memory and symbols.

The rules that make generated programs valid are here: which values may be read, written,
reused or returned.  A step adds a few lines to a block and takes its operands from here.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeVar

from attrs import define, field, frozen
from hypothesis import strategies as st

from wrapperir.ir import (
    DEFAULT_SPACE,
    DESCRIPTOR_ALIGNMENT,
    DType,
    Expr,
    KernelDefinitionLine,
    Language,
    Symbol,
    SymbolSource,
    TensorType,
    ZeroMode,
    contiguous_stride,
    mul,
    product,
)
from wrapperir.ir.builder import BlockBuilder, NamedValue, Operand
from wrapperir.testing.kernels import KernelKind
from wrapperir.testing.pool_space import PoolSpace, TakenUnits, TrackedMemory
from wrapperir.testing.world import World

T = TypeVar("T")

_PLACED = (True, True, True, False)
"""Odds of placing a buffer in a pool that has space."""

BOOLEANS = st.booleans()
"""Yes or no; Hypothesis validates a strategy once if it is made once, else in each draw."""


@cache
def indices(count: int) -> st.SearchStrategy[int]:
    """Return the strategy for an index of ``count`` options."""
    return st.integers(0, count - 1)


@cache
def _several_indices(count: int, most: int) -> st.SearchStrategy[list[int]]:
    """Return the strategy for at most ``most`` different indices of ``count`` options."""
    return st.lists(st.sampled_from(range(count)), max_size=most, unique=True)


@cache
def _orders(count: int) -> st.SearchStrategy[list[int]]:
    """Return the strategy for an order of ``count`` items."""
    return st.permutations(range(count))


class NothingToUseError(Exception):
    """A step found no value that it can use; the program goes on without it."""


@define(eq=False)
class Tracked:
    """A tensor of the program: its memory, and whether its name may be dropped."""

    value: NamedValue
    memory: TrackedMemory
    owned: bool = True
    is_input: bool = False

    @property
    def type(self) -> TensorType:
        """The declared type."""
        assert isinstance(self.value.type, TensorType)
        return self.value.type

    @property
    def plain(self) -> bool:
        """Whether the memory is of the ordinary kind."""
        type = self.type
        return type.space == DEFAULT_SPACE and not type.pinned and type.layout is None

    @property
    def dense(self) -> bool:
        """Whether the elements are in a row."""
        return self.type.stride == contiguous_stride(self.type.size)


@frozen(eq=False)
class TrackedTuple:
    """A tuple that an operator returned, and the memory that its elements may be in."""

    value: NamedValue
    shares: TrackedMemory | None = None


@define(eq=False)
class BlockGenerator:
    """A block while steps add lines to it; ``recorded``: it is in a graph region.

    ``flying`` is memory that a collective in flight uses.
    """

    draw: st.DrawFn
    world: World
    block: BlockBuilder
    depth: int = 0
    tensors: list[Tracked] = field(factory=list[Tracked])
    tuples: list[TrackedTuple] = field(factory=list[TrackedTuple])
    symbols: list[Symbol] = field(factory=list[Symbol])
    sizes: list[Symbol] = field(factory=list[Symbol])
    pools: list[PoolSpace] = field(factory=list[PoolSpace])
    recorded: bool = False
    flying: tuple[TrackedMemory, ...] = ()

    def choose(self, options: Sequence[T]) -> T:
        """Draw one of several; the first is the simplest."""
        return options[self.draw(indices(len(options)))]

    def choose_several(self, options: Sequence[T], most: int) -> list[T]:
        """Draw at most ``most`` different ones of several, in any order."""
        if not options:
            return []
        return [options[n] for n in self.draw(_several_indices(len(options), most))]

    def flip(self) -> bool:
        """Draw yes or no."""
        return self.draw(BOOLEANS)

    def choose_operator(self, operators: Sequence[str]) -> str:
        """Draw one of several operators that the program may call.

        Raises:
            NothingToUseError: it may call none of them.
        """
        known = [operator for operator in operators if self.world.may_call(operator)]
        if not known:
            raise NothingToUseError
        return self.choose(known)

    def find(self, wanted: Callable[[Tracked], bool]) -> Tracked | None:
        """Draw a live tensor of some kind; return ``None`` if there is none."""
        options = [tracked for tracked in self.tensors if wanted(tracked)]
        if self.flying:
            options = [tracked for tracked in options if not self._flies(tracked.memory)]
        return self.choose(options) if options else None

    def _flies(self, memory: TrackedMemory) -> bool:
        """Say whether a collective in flight may use some of a memory."""
        return any(_may_be(memory, each) or _may_be(each, memory) for each in self.flying)

    def pick(self, wanted: Callable[[Tracked], bool]) -> Tracked:
        """Draw a live tensor of some kind.

        Raises:
            NothingToUseError: there is none.
        """
        found = self.find(wanted)
        if found is None:
            raise NothingToUseError
        return found

    def pick_matrix(self, dtype: DType | None = None) -> Tracked:
        """Draw a matrix as :meth:`find_matrix` does.

        Raises:
            NothingToUseError: there is none.
        """
        return self.pick(lambda t: self._is_readable_matrix(t, dtype))

    def find_matrix(self, dtype: DType, but: TrackedMemory | None = None) -> Tracked | None:
        """Draw a dense matrix that may be read, of memory other than ``but``."""
        return self.find(
            lambda t: t.memory is not but and self._is_readable_matrix(t, dtype)
        )

    def _is_readable_matrix(self, tracked: Tracked, dtype: DType | None) -> bool:
        return (
            tracked.plain
            and tracked.memory.written
            and self.is_matrix(tracked)
            and (dtype is None or tracked.type.dtype is dtype)
        )

    def pick_input_cell(self) -> Tracked:
        """Draw an input of one integer; example inputs have small ones.

        Raises:
            NothingToUseError: there is none.
        """
        return self.pick(
            lambda t: t.is_input and t.type.size == () and t.type.dtype is DType.I64
        )

    def language(self) -> Language:
        """Draw the language of a kernel.

        Raises:
            NothingToUseError: the program has no kernels.
        """
        if not self.world.languages:
            raise NothingToUseError
        return self.choose(self.world.languages)

    def kernel(self, kind: KernelKind) -> KernelDefinitionLine:
        """Return a kernel of the library in some language, defined on its first use.

        Raises:
            NothingToUseError: the program has no kernels.
        """
        return self.world.kernel(kind, self.language())

    def workspace_mode(self) -> ZeroMode:
        """Draw a zero mode; nested blocks have no workspaces of the program.

        Raises:
            NothingToUseError: the program has no workspaces.
        """
        modes = list(ZeroMode) if self.depth == 0 else list(ZeroMode)[:2]
        modes = [mode for mode in modes if mode in self.world.zero_modes]
        if not modes:
            raise NothingToUseError
        return self.choose(modes)

    def is_matrix(self, tracked: Tracked) -> bool:
        """Say whether a tensor is a dense matrix at the start of its memory."""
        type, matrix = tracked.type, self.world.matrix(tracked.type.dtype)
        return (type.size, type.stride, type.offset) == (matrix.size, matrix.stride, 0)

    def fills(self, tracked: Tracked) -> bool:
        """Say whether a tensor is dense and covers its memory, and may be written."""
        memory = tracked.memory
        return (
            memory.writable
            and memory.certain
            and memory.numel == self.world.numel
            and tracked.type.size in (self.world.flat(DType.F32).size, self._matrix_size())
            and tracked.type.stride[-1] == 1
            and tracked.type.offset == 0
        )

    def _matrix_size(self) -> tuple[Expr, ...]:
        return (self.world.rows, self.world.columns)

    def add(
        self, value: NamedValue, memory: TrackedMemory | None = None, *, owned: bool = True
    ) -> Tracked:
        """Track a tensor that a line defined; of new, written memory by default."""
        assert isinstance(value.type, TensorType)
        if memory is None:
            memory = TrackedMemory(self.numel(value.type))
        tracked = Tracked(value, memory, owned)
        self.tensors.append(tracked)
        return tracked

    def call(self, operator: str, *operands: Operand, type: TensorType) -> Tracked:
        """Call an operator that returns a new tensor."""
        return self.add(self.block.extern(operator, *operands, type=type))

    def call_out(self, operator: str, *operands: Operand, out: Tracked) -> None:
        """Call an operator that writes all of ``out``."""
        self.block.extern_out(operator, *operands, out=out.value)
        out.memory.written = True

    def numel(self, type: TensorType) -> Expr:
        """Return the number of elements of a tensor."""
        if type.size == self._matrix_size():
            return self.world.numel
        return product(type.size)

    def buffer(self, type: TensorType, *, workspace: ZeroMode | None = None) -> Tracked:
        """Allocate a dense buffer, or place it in a pool with space; it is not written."""
        memory = TrackedMemory(self.numel(type), written=workspace is ZeroMode.ZERO_ON_CALL)
        placed = bool(self.pools) and self.choose(_PLACED)
        for pool in self.pools if placed else []:
            count = pool.units(type, memory.numel, self.world.most)
            first = None if count is None else self.take(pool, count, memory)
            if first is not None:
                offset = mul(pool.unit, first)
                value = self.block.place(pool.value, offset, type, workspace=workspace)
                memory.leaves = pool.leaves
                memory.aligned = pool.alignment % DESCRIPTOR_ALIGNMENT == 0
                return self.add(value, memory)
        return self.add(self.block.allocate(type, workspace=workspace), memory)

    def take(
        self, pool: PoolSpace, count: int, holder: TrackedMemory | PoolSpace
    ) -> int | None:
        """Take units of a pool that nothing lives in, or return ``None``."""
        pool.taken = [t for t in pool.taken if t.holder is None or self._lives(t.holder)]
        options = pool.free_units(count)
        if not options:
            return None
        first = self.choose(options)
        pool.taken.append(TakenUnits(first, first + count, holder))
        return first

    def _lives(self, holder: TrackedMemory | PoolSpace) -> bool:
        if isinstance(holder, PoolSpace):
            kept = [t.holder for t in holder.taken]
            return holder in self.pools or any(h and self._lives(h) for h in kept)
        memories = [t.memory for t in self.tensors] + [t.shares for t in self.tuples]
        return any(_may_be(memory, holder) for memory in memories)

    def define_symbol(
        self, source: SymbolSource, *, lower: int | None = None, upper: int | None = None
    ) -> Symbol:
        """Define a symbol of the body, under a name of its own."""
        symbol = self.world.new_symbol()
        self.block.define_symbol(symbol.name, source, lower=lower, upper=upper)
        self.symbols.append(symbol)
        return symbol

    def drop(self, tracked: Tracked) -> None:
        """Forget a name that a line dropped."""
        self.tensors = [other for other in self.tensors if other is not tracked]

    def fresh_matrix(self, dtype: DType = DType.F32) -> NamedValue:
        """Return a dense matrix that the block owns, made from another if need be."""
        found = self.find(
            lambda t: (
                t.owned
                and t.memory.written
                and not t.memory.lent
                and t.memory.certain
                and t.memory.leaves
                and t.type == self.world.matrix(dtype)
            )
        )
        if found is not None:
            return found.value
        source = self.find_matrix(dtype)
        type = self.world.matrix(dtype)
        if source is not None and self.world.may_call("aten.neg.default"):
            return self.call("aten.neg.default", source.value, type=type).value
        if not self.world.operators:
            return self._negated(source).value
        value = self.block.extern("aten.full.default", type.size, 1, dtype=dtype, type=type)
        return self.add(value).value

    def _negated(self, source: Tracked | None) -> Tracked:
        """Return a new matrix that a kernel fills from ``source``, which is of f32.

        Raises:
            NothingToUseError: there is no source, or the program has no kernels.
        """
        if source is None:
            raise NothingToUseError
        kernel = self.kernel(KernelKind.NEGATE)
        # Not placed: a block returns no memory of a pool that it is lent.
        target = self.add(self.block.allocate(self.world.matrix(DType.F32)))
        self.block.call(kernel, source.value, target.value, self.world.numel)
        return target

    def free_all_but(self, kept: Sequence[NamedValue]) -> None:
        """Free, in some order, every name the block owns and does not return."""
        names = {value.name for value in kept}
        owned = [t.value for t in self.tensors if t.owned]
        owned += [t.value for t in self.tuples]
        owned += [pool.value for pool in self.pools if pool.owned]
        waiting = [value for value in owned if value.name not in names]
        for index in self.draw(_orders(len(waiting))):
            self.block.free(waiting[index])


def _may_be(memory: TrackedMemory | None, other: TrackedMemory) -> bool:
    """Say whether a memory is, or may be, the other."""
    while memory is not None:
        if memory is other:
            return True
        memory = memory.base
    return False
