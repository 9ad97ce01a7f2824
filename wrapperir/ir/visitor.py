"""The one exhaustive visitor over line kinds, shared by every reader of a program."""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from wrapperir.ir.line import (
    KEYWORDS,
    AllocateLine,
    AllocatePoolLine,
    AnyLine,
    AssertAlignmentLine,
    AssertNotNanLine,
    AssertScalarLine,
    AssertSizeStrideLine,
    CommentLine,
    ConditionalLine,
    ExternKernelLine,
    FreeLine,
    KernelCallLine,
    KernelDefinitionLine,
    MultiKernelLine,
    MultiOutputLine,
    PlaceLine,
    RecordEventLine,
    ReinterpretLine,
    ReuseLine,
    SubgraphCallLine,
    SymbolDefinitionLine,
    WaitEventLine,
    WhileLoopLine,
)

T = TypeVar("T")

_METHODS = {kind: f"visit_{keyword}" for kind, keyword in KEYWORDS.items()}


class LineVisitor(ABC, Generic[T]):
    """One method a line kind; a subclass that lacks one cannot be instantiated.

    A type checker names the missing method where the subclass is instantiated.
    """

    def visit(self, line: AnyLine) -> T:
        """Return the result of the method for the kind of ``line``."""
        result: T = getattr(self, _METHODS[type(line)])(line)
        return result

    @abstractmethod
    def visit_kernel_definition(self, line: KernelDefinitionLine) -> T:
        """Visit a ``kernel_definition`` line."""

    @abstractmethod
    def visit_multi_kernel(self, line: MultiKernelLine) -> T:
        """Visit a ``multi_kernel`` line."""

    @abstractmethod
    def visit_allocate(self, line: AllocateLine) -> T:
        """Visit a ``allocate`` line."""

    @abstractmethod
    def visit_allocate_pool(self, line: AllocatePoolLine) -> T:
        """Visit a ``allocate_pool`` line."""

    @abstractmethod
    def visit_place(self, line: PlaceLine) -> T:
        """Visit a ``place`` line."""

    @abstractmethod
    def visit_free(self, line: FreeLine) -> T:
        """Visit a ``free`` line."""

    @abstractmethod
    def visit_reuse(self, line: ReuseLine) -> T:
        """Visit a ``reuse`` line."""

    @abstractmethod
    def visit_reinterpret(self, line: ReinterpretLine) -> T:
        """Visit a ``reinterpret`` line."""

    @abstractmethod
    def visit_kernel_call(self, line: KernelCallLine) -> T:
        """Visit a ``kernel_call`` line."""

    @abstractmethod
    def visit_extern_kernel(self, line: ExternKernelLine) -> T:
        """Visit a ``extern_kernel`` line."""

    @abstractmethod
    def visit_multi_output(self, line: MultiOutputLine) -> T:
        """Visit a ``multi_output`` line."""

    @abstractmethod
    def visit_record_event(self, line: RecordEventLine) -> T:
        """Visit a ``record_event`` line."""

    @abstractmethod
    def visit_wait_event(self, line: WaitEventLine) -> T:
        """Visit a ``wait_event`` line."""

    @abstractmethod
    def visit_symbol_definition(self, line: SymbolDefinitionLine) -> T:
        """Visit a ``symbol_definition`` line."""

    @abstractmethod
    def visit_assert_size_stride(self, line: AssertSizeStrideLine) -> T:
        """Visit a ``assert_size_stride`` line."""

    @abstractmethod
    def visit_assert_alignment(self, line: AssertAlignmentLine) -> T:
        """Visit a ``assert_alignment`` line."""

    @abstractmethod
    def visit_assert_scalar(self, line: AssertScalarLine) -> T:
        """Visit a ``assert_scalar`` line."""

    @abstractmethod
    def visit_assert_not_nan(self, line: AssertNotNanLine) -> T:
        """Visit a ``assert_not_nan`` line."""

    @abstractmethod
    def visit_conditional(self, line: ConditionalLine) -> T:
        """Visit a ``conditional`` line."""

    @abstractmethod
    def visit_while_loop(self, line: WhileLoopLine) -> T:
        """Visit a ``while_loop`` line."""

    @abstractmethod
    def visit_subgraph_call(self, line: SubgraphCallLine) -> T:
        """Visit a ``subgraph_call`` line."""

    @abstractmethod
    def visit_comment(self, line: CommentLine) -> T:
        """Visit a ``comment`` line."""
