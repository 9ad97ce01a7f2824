"""The lowering of each kind of line, and of the lines of a block in order."""

import dataclasses
from collections.abc import Callable
from typing import Any

from torch._inductor.codegen import wrapper as inductor
from torch._inductor.utils import LineContext

from wrapperir.diagnostics import Code
from wrapperir.frontend.inductor import (
    extern_lines,
    kernel_lines,
    memory_lines,
    multi_kernels,
    symbol_lines,
    user_streams,
)
from wrapperir.frontend.inductor.scope import BlockScope
from wrapperir.frontend.inductor.versions import (
    ENTER_STREAM,
    ENTER_STREAMS,
    EXIT_STREAM,
    EXIT_STREAMS,
    EXTERN_MULTI_OUT_LINE,
)


@dataclasses.dataclass
class RecordLine(inductor.WrapperLine):
    """A line that stands for text of Inductor's: a lowering, and its arguments."""

    lower: Callable[..., None]
    arguments: tuple[Any, ...]


def _lower_nothing(scope: BlockScope, line: Any) -> None:
    """Lower a line whose facts other lines carry."""


def _lower_record(scope: BlockScope, line: RecordLine) -> None:
    line.lower(scope, *line.arguments)


def _lower_kernel_call(scope: BlockScope, line: inductor.KernelCallLine) -> None:
    multi = scope.session.multi_kernels.defined.get(line.kernel_name)
    if multi is None:
        kernel_lines.lower_call(scope, line)
    else:
        multi_kernels.lower_multi_call(scope, line, multi)


def _lower_extern_alloc(scope: BlockScope, line: inductor.ExternKernelAllocLine) -> None:
    if user_streams.is_synchronization(line.node):
        user_streams.lower_synchronization(scope, line.node)
    else:
        extern_lines.lower_extern_alloc(scope, line)


_LOWER: dict[object, Callable[[BlockScope, Any], None]] = {
    inductor.AllocateLine: memory_lines.lower_allocate,
    inductor.FreeLine: memory_lines.lower_free,
    inductor.FreeIfNotReusedLine: memory_lines.lower_free_if_not_reused,
    inductor.ReuseLine: memory_lines.lower_reuse,
    inductor.ReinterpretLine: memory_lines.lower_reinterpret,
    inductor.NullLine: _lower_nothing,
    inductor.CommentLine: _lower_nothing,
    inductor.KernelCallLine: _lower_kernel_call,
    inductor.ExternKernelAllocLine: _lower_extern_alloc,
    inductor.ExternKernelOutLine: extern_lines.lower_extern_out,
    EXTERN_MULTI_OUT_LINE: extern_lines.lower_extern_multi_out,
    inductor.MultiOutputLine: extern_lines.lower_multi_output,
    inductor.IndexPutFallbackLine: extern_lines.lower_index_put,
    inductor.ScatterFallbackLine: extern_lines.lower_scatter,
    inductor.DynamicScalarLine: symbol_lines.lower_dynamic_scalar,
    inductor.SymbolicCallArgLine: symbol_lines.lower_symbolic_argument,
    inductor.UnbackedSymbolDefsLine: symbol_lines.lower_unbacked_definitions,
    inductor.EnterDeviceContextManagerLine: _lower_nothing,
    inductor.ExitDeviceContextManagerLine: _lower_nothing,
    ENTER_STREAMS: _lower_nothing,
    EXIT_STREAMS: _lower_nothing,
    ENTER_STREAM: user_streams.lower_enter_stream,
    EXIT_STREAM: user_streams.lower_exit_stream,
    LineContext: _lower_nothing,
    RecordLine: _lower_record,
}


def lower_lines(scope: BlockScope, lines: list[Any]) -> None:
    """Lower the lines of one block.

    Raises:
        DiagnosticError: WIR65x, a line has no form in a program.
    """
    calls: dict[str, Any] = {}
    known = scope.session.multi_kernels.defined
    for line in lines:
        if type(line) is inductor.KernelCallLine:
            multi = known.get(line.kernel_name)
            for call in [line] if multi is None else multi.calls(line):
                calls.setdefault(call.kernel_name, call)
    for line in lines:
        kind = type(line)
        if kind is inductor.KernelDefinitionLine:
            kernel_lines.lower_definition(scope, line, calls.get(line.kernel_name))
            continue
        lower = _LOWER.get(kind)
        if lower is None:
            message = f"Inductor's {kind.__name__} has no form in a program"
            raise Code.INDUCTOR_LINE.error(message)
        lower(scope, line)
        scope.finish_line()
