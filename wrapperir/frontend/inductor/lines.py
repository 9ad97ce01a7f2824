"""The lowering of each kind of line, and of the lines of a block in order."""

from collections.abc import Callable
from typing import Any

from torch._inductor.codegen import wrapper as inductor
from torch._inductor.utils import LineContext

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend.inductor import (
    block_lines,
    extern_lines,
    kernel_lines,
    memory_lines,
    multi_kernel_lines,
    node_lines,
    records,
    symbol_lines,
)
from wrapperir.frontend.inductor.scope import Scope
from wrapperir.frontend.inductor.versions import EXTERN_MULTI_OUT_LINE


def _nothing(scope: Scope, line: Any) -> None:
    """Lower a line whose facts other lines carry."""


def _lower_call(scope: Scope, line: inductor.KernelCallLine) -> None:
    multi = scope.session.multi_kernels.defined.get(line.kernel_name)
    if multi is None:
        kernel_lines.lower_call(scope, line)
    else:
        multi_kernel_lines.lower_multi_call(scope, line, multi)


_LOWER: dict[type, Callable[[Scope, Any], None]] = {
    inductor.AllocateLine: memory_lines.lower_allocate,
    inductor.FreeLine: memory_lines.lower_free,
    inductor.FreeIfNotReusedLine: memory_lines.lower_free_if_not_reused,
    inductor.ReuseLine: memory_lines.lower_reuse,
    inductor.ReinterpretLine: memory_lines.lower_reinterpret,
    inductor.NullLine: _nothing,
    inductor.CommentLine: _nothing,
    inductor.KernelCallLine: _lower_call,
    inductor.ExternKernelAllocLine: extern_lines.lower_extern_alloc,
    inductor.ExternKernelOutLine: extern_lines.lower_extern_out,
    inductor.MultiOutputLine: extern_lines.lower_multi_output,
    inductor.IndexPutFallbackLine: extern_lines.lower_index_put,
    inductor.ScatterFallbackLine: extern_lines.lower_scatter,
    inductor.DynamicScalarLine: symbol_lines.lower_dynamic_scalar,
    inductor.SymbolicCallArgLine: symbol_lines.lower_symbolic_argument,
    inductor.UnbackedSymbolDefsLine: symbol_lines.lower_unbacked_definitions,
    inductor.EnterDeviceContextManagerLine: _nothing,
    inductor.ExitDeviceContextManagerLine: _nothing,
    LineContext: _nothing,
    records.BranchLine: block_lines.lower_branch,
    records.LoopLine: block_lines.lower_loop,
    records.InvokeLine: block_lines.lower_invoke,
    records.NodeLine: node_lines.lower_node,
    records.SizeStrideLine: symbol_lines.lower_size_stride,
    records.AlignmentLine: symbol_lines.lower_alignment,
    records.NotNanLine: symbol_lines.lower_not_nan,
    records.SymbolLine: symbol_lines.lower_symbol,
}

if EXTERN_MULTI_OUT_LINE is not None:
    _LOWER[EXTERN_MULTI_OUT_LINE] = extern_lines.lower_extern_multi_out


def lower_lines(scope: Scope, lines: list[Any]) -> None:
    """Lower the lines of one block.

    Raises:
        DiagnosticError: WIR65x names what has no form in a program.
    """
    calls: dict[str, Any] = {}
    multi_kernels = scope.session.multi_kernels.defined
    for line in lines:
        if type(line) is inductor.KernelCallLine:
            multi = multi_kernels.get(line.kernel_name)
            for call in [line] if multi is None else multi.calls(line):
                calls.setdefault(call.kernel_name, call)
    for line in lines:
        kind = type(line)
        if kind is inductor.KernelDefinitionLine:
            kernel_lines.lower_definition(scope, line, calls.get(line.kernel_name))
            continue
        lower = _LOWER.get(kind)
        if lower is None:
            raise _unsupported(line)
        lower(scope, line)


def _unsupported(line: object) -> DiagnosticError:
    return Code.INDUCTOR_LINE.error(
        f"Inductor's {type(line).__name__} has no form in a program"
    )
