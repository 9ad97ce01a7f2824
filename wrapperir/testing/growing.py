"""A block of a generated program while it grows: its values, memory and symbols.

The rules that make a grown program valid live here: which values may be read, written,
reused or returned.  The steps that add lines ask for values by what they need.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from attrs import define, field, frozen
from hypothesis import strategies as st

from wrapperir.ir.builder import BlockBuilder, ProgramBuilder, Value
from wrapperir.ir.expr import Expr, Symbol, mul
from wrapperir.ir.kernel import Language
from wrapperir.ir.line import KernelDefinitionLine, MultiKernelLine, SymbolSource
from wrapperir.ir.types import DType, TensorType, tensor
from wrapperir.testing.kernels import KernelKind, library_kernel

T = TypeVar("T")


@define(eq=False)
class Memory:
    """Bytes that values share.

    ``numel`` is how many elements there are, ``written`` whether all of them hold
    something, ``lent`` whether they are not the block's to give away, and ``certain``
    whether it is known which memory this is.
    """

    numel: Expr
    written: bool = True
    lent: bool = False
    writable: bool = True
    certain: bool = True


@define(eq=False)
class Tracked:
    """A tensor of the program: where it is, and whether its name may be dropped."""

    value: Value
    memory: Memory
    owned: bool = True
    is_input: bool = False

    @property
    def type(self) -> TensorType:
        """The declared type."""
        assert isinstance(self.value.type, TensorType)
        return self.value.type


@frozen(eq=False)
class World:
    """What is the same all over a program: its sizes and its kernels."""

    builder: ProgramBuilder
    languages: tuple[Language, ...]
    rows: Expr
    columns: int
    kernels: dict[str, KernelDefinitionLine] = field(
        factory=dict[str, KernelDefinitionLine]
    )
    multi_kernels: list[MultiKernelLine] = field(factory=list[MultiKernelLine])
    program_workspaces: list[Value] = field(factory=list[Value])
    counts: Counter[str] = field(factory=Counter[str])

    @property
    def numel(self) -> Expr:
        """Elements of a matrix."""
        return mul(self.rows, self.columns)

    def matrix(self, dtype: DType) -> TensorType:
        """Return the type that most values have: dense, rows by columns."""
        return tensor(dtype, (self.rows, self.columns))

    def vector(self, dtype: DType) -> TensorType:
        """Return the type of one number a row."""
        return tensor(dtype, (self.rows,))

    def flat(self, dtype: DType) -> TensorType:
        """Return the type of a matrix's elements in one dimension."""
        return tensor(dtype, (self.numel,))

    def kernel(self, kind: KernelKind, language: Language) -> KernelDefinitionLine:
        """Return a kernel of the library, defined on its first use."""
        definition = library_kernel(kind, language)
        if definition.name not in self.kernels:
            self.kernels[definition.name] = self.builder.kernel(definition)
        return self.kernels[definition.name]

    def may_multiply(self) -> bool:
        """Say whether one more product keeps values small enough to be exact."""
        self.counts["product"] += 1
        return self.counts["product"] <= 3


@define(eq=False)
class Growing:
    """A block while steps add lines to it."""

    draw: st.DrawFn
    world: World
    block: BlockBuilder
    depth: int = 0
    tensors: list[Tracked] = field(factory=list[Tracked])
    tuples: list[Value] = field(factory=list[Value])
    symbols: list[Symbol] = field(factory=list[Symbol])

    def choose(self, options: Sequence[T]) -> T:
        """Draw one of several; the first is the simplest."""
        return self.draw(st.sampled_from(options))

    def flip(self) -> bool:
        """Draw yes or no."""
        return self.draw(st.booleans())

    def pick(self, wanted: Callable[[Tracked], bool]) -> Tracked | None:
        """Draw a live tensor of some kind, or return ``None`` if there is none."""
        options = [tracked for tracked in self.tensors if wanted(tracked)]
        return self.choose(options) if options else None

    def pick_matrix(
        self, dtype: DType | None = None, but: Memory | None = None
    ) -> Tracked | None:
        """Draw a dense matrix that may be read, of memory other than ``but``."""
        return self.pick(
            lambda t: (
                t.memory.written
                and t.memory is not but
                and self.is_matrix(t)
                and (dtype is None or t.type.dtype is dtype)
            )
        )

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
        self, value: Value, memory: Memory | None = None, *, owned: bool = True
    ) -> Tracked:
        """Track a tensor that a line defined; of new, written memory by default."""
        assert isinstance(value.type, TensorType)
        if memory is None:
            memory = Memory(self._numel(value.type))
        tracked = Tracked(value, memory, owned)
        self.tensors.append(tracked)
        return tracked

    def _numel(self, type: TensorType) -> Expr:
        if type.size == self._matrix_size():
            return self.world.numel
        result: Expr = 1
        for size in type.size:
            result = mul(result, size)
        return result

    def define_symbol(
        self, source: SymbolSource, *, lower: int | None = None, upper: int | None = None
    ) -> Symbol:
        """Define a symbol of the body, under a name of its own."""
        self.world.counts["symbol"] += 1
        name = f"u{self.world.counts['symbol']}"
        symbol = self.block.define_symbol(name, source, lower=lower, upper=upper)
        self.symbols.append(symbol)
        return symbol

    def drop(self, tracked: Tracked) -> None:
        """Forget a name that a line dropped."""
        self.tensors = [other for other in self.tensors if other is not tracked]

    def fresh_matrix(self, dtype: DType = DType.F32) -> Value:
        """Return a dense matrix that the block owns, made from another if need be."""
        found = self.pick(
            lambda t: (
                t.owned
                and t.memory.written
                and not t.memory.lent
                and t.memory.certain
                and t.type == self.world.matrix(dtype)
            )
        )
        if found is not None:
            return found.value
        source = self.pick_matrix(dtype)
        type = self.world.matrix(dtype)
        if source is None:
            size = (self.world.rows, self.world.columns)
            value = self.block.extern("aten.full.default", size, 1, dtype=dtype, type=type)
        else:
            value = self.block.extern("aten.neg.default", source.value, type=type)
        return self.add(value).value

    def free_all_but(self, kept: Sequence[Value]) -> None:
        """Free, in some order, every name the block owns and does not return."""
        names = {value.name for value in kept}
        owned = [t.value for t in self.tensors if t.owned] + self.tuples
        waiting = [value for value in owned if value.name not in names]
        for value in self.draw(st.permutations(waiting)):
            self.block.free(value)
