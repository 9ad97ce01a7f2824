"""The one exhaustive visitor over line kinds, shared by every reader of a program."""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from wrapperir.ir import line as lines
from wrapperir.ir.definition import KernelDefinitionLine, MultiKernelLine

T = TypeVar("T")

_METHODS = {kind: f"visit_{keyword}" for kind, keyword in lines.KEYWORDS.items()}


class LineVisitor(ABC, Generic[T]):
    """One method for each line kind: ``visit_`` and the keyword of the kind.

    A subclass that lacks a method cannot be instantiated.  A type checker names the method
    where the class itself is called.
    """

    def visit(self, line: lines.AnyLine) -> T:
        """Return the result of the method for the kind of ``line``."""
        result: T = getattr(self, _METHODS[type(line)])(line)
        return result

    @abstractmethod
    def visit_kernel_definition(self, line: KernelDefinitionLine) -> T: ...

    @abstractmethod
    def visit_multi_kernel(self, line: MultiKernelLine) -> T: ...

    @abstractmethod
    def visit_allocate(self, line: lines.AllocateLine) -> T: ...

    @abstractmethod
    def visit_allocate_pool(self, line: lines.AllocatePoolLine) -> T: ...

    @abstractmethod
    def visit_place(self, line: lines.PlaceLine) -> T: ...

    @abstractmethod
    def visit_free(self, line: lines.FreeLine) -> T: ...

    @abstractmethod
    def visit_reuse(self, line: lines.ReuseLine) -> T: ...

    @abstractmethod
    def visit_reinterpret(self, line: lines.ReinterpretLine) -> T: ...

    @abstractmethod
    def visit_kernel_call(self, line: lines.KernelCallLine) -> T: ...

    @abstractmethod
    def visit_extern_kernel(self, line: lines.ExternKernelLine) -> T: ...

    @abstractmethod
    def visit_multi_output(self, line: lines.MultiOutputLine) -> T: ...

    @abstractmethod
    def visit_record_event(self, line: lines.RecordEventLine) -> T: ...

    @abstractmethod
    def visit_wait_event(self, line: lines.WaitEventLine) -> T: ...

    @abstractmethod
    def visit_collective(self, line: lines.CollectiveLine) -> T: ...

    @abstractmethod
    def visit_wait_collective(self, line: lines.WaitCollectiveLine) -> T: ...

    @abstractmethod
    def visit_symbol_definition(self, line: lines.SymbolDefinitionLine) -> T: ...

    @abstractmethod
    def visit_assert_size_stride(self, line: lines.AssertSizeStrideLine) -> T: ...

    @abstractmethod
    def visit_assert_alignment(self, line: lines.AssertAlignmentLine) -> T: ...

    @abstractmethod
    def visit_assert_scalar(self, line: lines.AssertScalarLine) -> T: ...

    @abstractmethod
    def visit_assert_not_nan(self, line: lines.AssertNotNanLine) -> T: ...

    @abstractmethod
    def visit_conditional(self, line: lines.ConditionalLine) -> T: ...

    @abstractmethod
    def visit_while_loop(self, line: lines.WhileLoopLine) -> T: ...

    @abstractmethod
    def visit_subgraph_call(self, line: lines.SubgraphCallLine) -> T: ...

    @abstractmethod
    def visit_graph_region(self, line: lines.GraphRegionLine) -> T: ...

    @abstractmethod
    def visit_comment(self, line: lines.CommentLine) -> T: ...
