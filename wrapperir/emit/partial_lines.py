"""A visitor for emitters that grow: a line kind is declared where it is overridden."""

from typing import NoReturn

from wrapperir import ir as wir
from wrapperir.diagnostics import Code


class OperatorCollectives(wir.LineVisitor[None]):
    """Refuses collectives, for visitors of programs in which they are operator calls.

    These are the programs that emitters get whose ``Support`` has no collectives, as it has
    none by default.
    """

    def visit_collective(self, line: wir.CollectiveLine) -> None:
        """Refuse it."""
        _refuse(line)

    def visit_wait_collective(self, line: wir.WaitCollectiveLine) -> None:
        """Refuse it."""
        _refuse(line)


class PartialLines(OperatorCollectives):
    """Refuses every line kind.

    A subclass overrides the methods of the kinds that it emits, and :func:`declared_lines`
    returns these for its emitter's ``Support``.  Programs with others are then refused
    before they get here.
    """

    def visit_kernel_definition(self, line: wir.KernelDefinitionLine) -> None:
        """Refuse it."""
        _refuse(line)

    def visit_multi_kernel(self, line: wir.MultiKernelLine) -> None:
        """Refuse it."""
        _refuse(line)

    def visit_allocate(self, line: wir.AllocateLine) -> None:
        """Refuse it."""
        _refuse(line)

    def visit_allocate_pool(self, line: wir.AllocatePoolLine) -> None:
        """Refuse it."""
        _refuse(line)

    def visit_place(self, line: wir.PlaceLine) -> None:
        """Refuse it."""
        _refuse(line)

    def visit_free(self, line: wir.FreeLine) -> None:
        """Refuse it."""
        _refuse(line)

    def visit_reuse(self, line: wir.ReuseLine) -> None:
        """Refuse it."""
        _refuse(line)

    def visit_reinterpret(self, line: wir.ReinterpretLine) -> None:
        """Refuse it."""
        _refuse(line)

    def visit_kernel_call(self, line: wir.KernelCallLine) -> None:
        """Refuse it."""
        _refuse(line)

    def visit_extern_kernel(self, line: wir.ExternKernelLine) -> None:
        """Refuse it."""
        _refuse(line)

    def visit_multi_output(self, line: wir.MultiOutputLine) -> None:
        """Refuse it."""
        _refuse(line)

    def visit_record_event(self, line: wir.RecordEventLine) -> None:
        """Refuse it."""
        _refuse(line)

    def visit_wait_event(self, line: wir.WaitEventLine) -> None:
        """Refuse it."""
        _refuse(line)

    def visit_symbol_definition(self, line: wir.SymbolDefinitionLine) -> None:
        """Refuse it."""
        _refuse(line)

    def visit_assert_size_stride(self, line: wir.AssertSizeStrideLine) -> None:
        """Refuse it."""
        _refuse(line)

    def visit_assert_alignment(self, line: wir.AssertAlignmentLine) -> None:
        """Refuse it."""
        _refuse(line)

    def visit_assert_scalar(self, line: wir.AssertScalarLine) -> None:
        """Refuse it."""
        _refuse(line)

    def visit_assert_not_nan(self, line: wir.AssertNotNanLine) -> None:
        """Refuse it."""
        _refuse(line)

    def visit_conditional(self, line: wir.ConditionalLine) -> None:
        """Refuse it."""
        _refuse(line)

    def visit_while_loop(self, line: wir.WhileLoopLine) -> None:
        """Refuse it."""
        _refuse(line)

    def visit_subgraph_call(self, line: wir.SubgraphCallLine) -> None:
        """Refuse it."""
        _refuse(line)

    def visit_graph_region(self, line: wir.GraphRegionLine) -> None:
        """Refuse it."""
        _refuse(line)

    def visit_comment(self, line: wir.CommentLine) -> None:
        """Refuse it."""
        _refuse(line)


def declared_lines(kind: type[PartialLines]) -> frozenset[type[wir.Line]]:
    """Return the line kinds whose methods a subclass overrides."""
    found: set[type[wir.Line]] = set()
    for line in wir.LINES:
        method = f"visit_{wir.keyword(line)}"
        if getattr(kind, method) is not getattr(PartialLines, method):
            found.add(line)
    return frozenset(found)


def _refuse(line: wir.AnyLine) -> NoReturn:
    raise Code.UNSUPPORTED_LINE.error(f"there is no code for {wir.keyword(line)} lines")
