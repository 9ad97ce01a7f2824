"""The walk over a list of lines, and the check of each line kind."""

from collections.abc import Callable, Sequence

from wrapperir.ir import (
    BODY_LINES,
    DEFINITION_LINES,
    AllocateLine,
    AllocatePoolLine,
    AnyLine,
    AssertAlignmentLine,
    AssertNotNanLine,
    AssertScalarLine,
    AssertSizeStrideLine,
    BodyLine,
    CommentLine,
    ConditionalLine,
    ExternKernelLine,
    FreeLine,
    KernelCallLine,
    KernelDefinitionLine,
    Line,
    LineVisitor,
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
    keyword,
)
from wrapperir.ir.effects import LineEffects
from wrapperir.verify.asserts import (
    check_assert_alignment,
    check_assert_not_nan,
    check_assert_scalar,
    check_assert_size_stride,
)
from wrapperir.verify.calls import check_kernel_call
from wrapperir.verify.control_flow import (
    check_conditional,
    check_subgraph_call,
    check_while_loop,
)
from wrapperir.verify.events import check_record_event, check_wait_event
from wrapperir.verify.kernels import check_kernel_definition
from wrapperir.verify.lifetimes import (
    check_allocate,
    check_free,
    check_reinterpret,
    check_reuse,
)
from wrapperir.verify.multi_kernels import check_multi_kernel
from wrapperir.verify.names import report_awaited
from wrapperir.verify.operators import check_extern_kernel, check_multi_output
from wrapperir.verify.pools import check_allocate_pool, check_place
from wrapperir.verify.state import State
from wrapperir.verify.symbols import check_symbol_definition


class LineChecks(LineVisitor[None]):
    """Checks lines, one after the other; ``state`` says where the walk is."""

    def __init__(self, state: State) -> None:
        """Check for one walk."""
        self._state = state
        self.by_kind: dict[type[Line], Callable[[AnyLine], None]] = {
            kind: getattr(self, f"visit_{keyword(kind)}")
            for kind in (*DEFINITION_LINES, *BODY_LINES)
        }
        """The methods, for dispatch without a search."""

    def walk(self, lines: Sequence[BodyLine]) -> None:
        """Check the lines of the current scope, in order."""
        scope, by_kind = self._state.scope, self.by_kind
        effects = LineEffects(None)
        for index, line in enumerate(lines):
            if scope.awaited and not effects.visit(line).leaves_types_open:
                report_awaited(self._state)
            scope.index = index
            by_kind[line.__class__](line)
        report_awaited(self._state)

    def visit_kernel_definition(self, line: KernelDefinitionLine) -> None:
        """Check a kernel."""
        check_kernel_definition(self._state, line)

    def visit_multi_kernel(self, line: MultiKernelLine) -> None:
        """Check a multi-kernel."""
        check_multi_kernel(self._state, line)

    def visit_allocate(self, line: AllocateLine) -> None:
        """Check an allocation."""
        check_allocate(self._state, line)

    def visit_allocate_pool(self, line: AllocatePoolLine) -> None:
        """Check the allocation of a pool."""
        check_allocate_pool(self._state, line)

    def visit_place(self, line: PlaceLine) -> None:
        """Check a placement."""
        check_place(self._state, line)

    def visit_free(self, line: FreeLine) -> None:
        """Check a free."""
        check_free(self._state, line)

    def visit_reuse(self, line: ReuseLine) -> None:
        """Check a reuse."""
        check_reuse(self._state, line)

    def visit_reinterpret(self, line: ReinterpretLine) -> None:
        """Check a view."""
        check_reinterpret(self._state, line)

    def visit_kernel_call(self, line: KernelCallLine) -> None:
        """Check a kernel call."""
        check_kernel_call(self._state, line)

    def visit_extern_kernel(self, line: ExternKernelLine) -> None:
        """Check an operator call."""
        check_extern_kernel(self._state, line)

    def visit_multi_output(self, line: MultiOutputLine) -> None:
        """Check the naming of a tuple's element."""
        check_multi_output(self._state, line)

    def visit_record_event(self, line: RecordEventLine) -> None:
        """Check an event."""
        check_record_event(self._state, line)

    def visit_wait_event(self, line: WaitEventLine) -> None:
        """Check a wait."""
        check_wait_event(self._state, line)

    def visit_symbol_definition(self, line: SymbolDefinitionLine) -> None:
        """Check a symbol."""
        check_symbol_definition(self._state, line)

    def visit_assert_size_stride(self, line: AssertSizeStrideLine) -> None:
        """Check an assert."""
        check_assert_size_stride(self._state, line)

    def visit_assert_alignment(self, line: AssertAlignmentLine) -> None:
        """Check an assert."""
        check_assert_alignment(self._state, line)

    def visit_assert_scalar(self, line: AssertScalarLine) -> None:
        """Check an assert."""
        check_assert_scalar(self._state, line)

    def visit_assert_not_nan(self, line: AssertNotNanLine) -> None:
        """Check an assert."""
        check_assert_not_nan(self._state, line)

    def visit_conditional(self, line: ConditionalLine) -> None:
        """Check a conditional and its blocks."""
        check_conditional(self._state, line, self.walk)

    def visit_while_loop(self, line: WhileLoopLine) -> None:
        """Check a loop and its blocks."""
        check_while_loop(self._state, line, self.walk)

    def visit_subgraph_call(self, line: SubgraphCallLine) -> None:
        """Check a call of a block."""
        check_subgraph_call(self._state, line, self.walk)

    def visit_comment(self, line: CommentLine) -> None:
        """Accept any remark."""
