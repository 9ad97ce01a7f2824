"""The walk over a list of lines, and the check of each line kind."""

from collections.abc import Callable, Sequence

from wrapperir.ir import (
    LINES,
    AnyLine,
    BodyLine,
    CommentLine,
    Line,
    LineVisitor,
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


class LineChecks(State, LineVisitor[None]):
    """The checks of lines as methods of the walk's state.

    A type checker sees that each line kind has one.
    """

    visit_kernel_definition = check_kernel_definition
    visit_multi_kernel = check_multi_kernel
    visit_allocate = check_allocate
    visit_allocate_pool = check_allocate_pool
    visit_place = check_place
    visit_free = check_free
    visit_reuse = check_reuse
    visit_reinterpret = check_reinterpret
    visit_kernel_call = check_kernel_call
    visit_extern_kernel = check_extern_kernel
    visit_multi_output = check_multi_output
    visit_record_event = check_record_event
    visit_wait_event = check_wait_event
    visit_symbol_definition = check_symbol_definition
    visit_assert_size_stride = check_assert_size_stride
    visit_assert_alignment = check_assert_alignment
    visit_assert_scalar = check_assert_scalar
    visit_assert_not_nan = check_assert_not_nan
    visit_conditional = check_conditional
    visit_while_loop = check_while_loop
    visit_subgraph_call = check_subgraph_call

    def visit_comment(self, line: CommentLine) -> None:
        """Accept any remark."""

    def walk(self, lines: Sequence[BodyLine]) -> None:
        """Check the lines of the current scope, in order."""
        scope, effects = self.scope, LineEffects(None)
        for index, line in enumerate(lines):
            if scope.awaited and not effects.visit(line).leaves_types_open:
                report_awaited(self)
            scope.index = index
            _METHODS[line.__class__](self, line)
        report_awaited(self)


_METHODS: dict[type[Line], Callable[[LineChecks, AnyLine], None]] = {
    kind: getattr(LineChecks, f"visit_{keyword(kind)}") for kind in LINES
}
"""The method for each line kind, for dispatch without a search."""
