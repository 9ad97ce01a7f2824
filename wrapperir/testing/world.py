"""The state that all blocks of a generated program share."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from attrs import define, field

from wrapperir.ir import (
    LINES,
    DType,
    Expr,
    ExternKernelLine,
    KernelDefinitionLine,
    Language,
    Line,
    Number,
    Symbol,
    TensorType,
    ZeroMode,
    evaluate_int,
    mul,
    tensor,
)
from wrapperir.ir.builder import NamedValue, ProgramBuilder
from wrapperir.testing.kernels import KernelKind, library_kernel

if TYPE_CHECKING:
    from wrapperir.testing.generator import BlockGenerator


@define(eq=False)
class World:
    """The state that all blocks of a program share: sizes, kernels, features in use.

    ``lines`` are the line kinds that it may have, and ``steps`` add lines of these kinds.
    ``greatest_alignment`` is the most bytes that memory may be aligned to.
    ``operator_names`` are the operators that it may call; ``None`` is every one.
    ``largest`` has the upper bounds of the symbols that sizes are made of.
    """

    builder: ProgramBuilder
    languages: tuple[Language, ...]
    rows: Expr
    columns: int
    pools: bool = True
    special_memory: bool = False
    lines: frozenset[type[Line]] = frozenset(LINES)
    steps: "Sequence[Callable[[BlockGenerator], object]]" = ()
    operator_names: frozenset[str] | None = None
    descriptors: bool = True
    zero_modes: frozenset[ZeroMode] = frozenset(ZeroMode)
    greatest_alignment: int | None = None
    largest: dict[str, Number] = field(factory=dict[str, Number])
    kernels: dict[str, KernelDefinitionLine] = field(
        factory=dict[str, KernelDefinitionLine]
    )
    program_workspaces: list[NamedValue] = field(factory=list[NamedValue])
    counts: Counter[str] = field(factory=Counter[str])

    @property
    def operators(self) -> bool:
        """Whether the program may call every operator."""
        return ExternKernelLine in self.lines and self.operator_names is None

    def may_call(self, operator: str) -> bool:
        """Say whether the program may call an operator."""
        names = self.operator_names
        return ExternKernelLine in self.lines and (names is None or operator in names)

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
        return self.define(library_kernel(kind, language))

    def define(self, definition: KernelDefinitionLine) -> KernelDefinitionLine:
        """Return a kernel, defined on its first use."""
        if definition.name not in self.kernels:
            self.kernels[definition.name] = self.builder.kernel(definition)
        return self.kernels[definition.name]

    def most(self, numel: Expr) -> int:
        """Return the greatest value of a number of elements."""
        return evaluate_int(numel, self.largest)

    def alignments(self, *options: int) -> list[int]:
        """Return alignments, none greater than what memory may have."""
        most = self.greatest_alignment
        return [option if most is None else min(option, most) for option in options]

    def may_multiply(self) -> bool:
        """Say whether one more product keeps values small enough to be exact."""
        self.counts["product"] += 1
        return self.counts["product"] <= 3

    def new_symbol(self) -> Symbol:
        """Return a symbol that the program does not have."""
        self.counts["symbol"] += 1
        return Symbol(f"u{self.counts['symbol']}")
