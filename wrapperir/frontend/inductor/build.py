"""Building of a program, and of nested blocks, from the lines of a wrapper."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import sympy
import torch
from attrs import evolve
from torch._inductor import config, ir
from torch._inductor.codegen import wrapper as inductor
from torch._inductor.utils import LineContext
from torch._inductor.virtualized import V
from torch.utils._sympy.symbol import SymT, symbol_is_type

from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError
from wrapperir.frontend.inductor import (
    extern_lines,
    kernel_lines,
    memory_lines,
    node_lines,
    records,
    symbol_lines,
)
from wrapperir.frontend.inductor.layouts import layout_type, scalar_type, tensor_type
from wrapperir.frontend.inductor.operands import lower_operand
from wrapperir.frontend.inductor.scope import Scope
from wrapperir.frontend.lowered import Lowered
from wrapperir.frontend.sympy_expr import lower_sympy
from wrapperir.ir import line as wir
from wrapperir.ir.kernel import Access, BufferParameter
from wrapperir.ir.program import ConstantInput, Input, Program
from wrapperir.ir.types import OpaqueType, TensorType, ValueType

if TYPE_CHECKING:
    from wrapperir.frontend.inductor.session import Session
    from wrapperir.frontend.inductor.wrapper import CaptureWrapper


def _nothing(scope: Scope, line: Any) -> None:
    """Lower a line whose facts other lines carry."""


_LOWER: dict[type, Callable[[Scope, Any], None]] = {
    inductor.AllocateLine: memory_lines.lower_allocate,
    inductor.FreeLine: memory_lines.lower_free,
    inductor.FreeIfNotReusedLine: memory_lines.lower_free_if_not_reused,
    inductor.ReuseLine: memory_lines.lower_reuse,
    inductor.ReinterpretLine: memory_lines.lower_reinterpret,
    inductor.NullLine: _nothing,
    inductor.CommentLine: _nothing,
    inductor.KernelCallLine: kernel_lines.lower_call,
    inductor.ExternKernelAllocLine: extern_lines.lower_extern_alloc,
    inductor.ExternKernelOutLine: extern_lines.lower_extern_out,
    inductor.ExternKernelMultiOutLine: extern_lines.lower_extern_multi_out,
    inductor.MultiOutputLine: extern_lines.lower_multi_output,
    inductor.IndexPutFallbackLine: extern_lines.lower_index_put,
    inductor.ScatterFallbackLine: extern_lines.lower_scatter,
    inductor.DynamicScalarLine: symbol_lines.lower_dynamic_scalar,
    inductor.SymbolicCallArgLine: symbol_lines.lower_symbolic_argument,
    inductor.UnbackedSymbolDefsLine: symbol_lines.lower_unbacked_definitions,
    inductor.EnterDeviceContextManagerLine: _nothing,
    inductor.ExitDeviceContextManagerLine: _nothing,
    LineContext: _nothing,
    records.NodeLine: node_lines.lower_node,
    records.SizeStrideLine: symbol_lines.lower_size_stride,
    records.AlignmentLine: symbol_lines.lower_alignment,
    records.NotNanLine: symbol_lines.lower_not_nan,
    records.SymbolLine: symbol_lines.lower_symbol,
}


def lower_lines(scope: Scope, lines: list[Any]) -> None:
    """Lower the lines of one block.

    Raises:
        DiagnosticError: WIR65x names what has no form in a program.
    """
    calls: dict[str, Any] = {}
    for line in lines:
        if type(line) is inductor.KernelCallLine:
            calls.setdefault(line.kernel_name, line)
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
    return DiagnosticError(
        Diagnostic(
            code=Code.INDUCTOR_LINE,
            message=f"Inductor's {type(line).__name__} has no form in a program",
        )
    )


def build_program(wrapper: "CaptureWrapper") -> Lowered:
    """Return the program of the outermost graph, and its constants."""
    session = wrapper.session
    graph: Any = V.graph
    scope = Scope(session, graph, nested=False)
    constants = {**session.constants, **graph.constants}
    types: dict[str, ValueType] = {}
    for name in graph.graph_input_names:
        types[name] = input_type(graph.graph_inputs[name])
        scope.borrow(name, types[name], freeable=True)
    for name, tensor in constants.items():
        scope.borrow(name, constant_type(tensor))
    symbols = input_symbols(scope)
    lower_lines(scope, wrapper.lines)
    outputs = lower_outputs(scope, wrapper.get_graph_outputs())
    if config.nan_asserts:
        for output in outputs:
            if isinstance(output, wir.BufferRef):
                scope.append(wir.AssertNotNanLine(buffer=output.name))
    free_rest(scope, outputs)
    mutated = scope.mutated | set(graph.mutated_inputs)
    program = Program(
        inputs=tuple(
            Input(name=name, type=type, mutated=name in mutated)
            for name, type in types.items()
        ),
        symbols=tuple(symbols),
        constants=tuple(
            ConstantInput(
                name=name, type=scope.tensor(name), key=name, mutated=name in scope.mutated
            )
            for name in constants
        ),
        definitions=finished_definitions(session),
        lines=tuple(scope.lines),
        outputs=outputs,
    )
    return Lowered(program, constants)


def input_type(value: Any) -> ValueType:
    """Return the type of a graph input."""
    if isinstance(value, ir.TensorBox):
        return layout_type(value.get_layout())
    if isinstance(value, sympy.Basic | int | float):
        return scalar_type(value)
    return OpaqueType("none" if value is None else type(value).__name__)


def constant_type(tensor: torch.Tensor) -> TensorType:
    """Return the type of a constant."""
    return tensor_type(tensor.dtype, tensor.size(), tensor.stride(), tensor.device)


def input_symbols(scope: Scope) -> list[wir.SymbolDefinitionLine]:
    """Return the symbols that the inputs give values to, numbers first.

    A symbol that guards have replaced by another is defined as that other: checks that
    run later may name it still.
    """
    found: list[wir.SymbolDefinitionLine] = []

    def bind(symbol: Any, source: wir.SymbolSource) -> None:
        if not isinstance(symbol, sympy.Symbol) or symbol.name in scope.symbols:
            return
        found.append(symbol_lines.define_symbol(scope, symbol, source))
        for old, new in scope.graph.sizevars.shape_env.replacements.items():
            if (
                new == symbol
                and old.name not in scope.symbols
                and not symbol_is_type(old, (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT))
            ):
                same = lower_sympy(symbol)
                found.append(symbol_lines.define_symbol(scope, old, same))

    inputs = scope.graph.graph_inputs
    for name, value in inputs.items():
        bind(value, wir.ValueOf(name))
    for name, value in inputs.items():
        if isinstance(value, ir.TensorBox):
            for dim, size in enumerate(value.get_size()):
                bind(size, wir.SizeOf(name, dim))
            for dim, stride in enumerate(value.get_stride()):
                bind(stride, wir.StrideOf(name, dim))
    return found


def lower_outputs(scope: Scope, nodes: list[Any]) -> tuple[wir.Argument, ...]:
    """Return what a program returns; a buffer returned twice is a view the second time."""
    outputs: list[wir.Argument] = []
    seen: set[str] = set()
    for node in nodes:
        output = lower_operand(scope, node, [], None)
        if isinstance(output, wir.BufferRef):
            if output.name in seen:
                same = scope.tensor(output.name)
                output = wir.BufferRef(scope.view(output.name, same, None))
            seen.add(output.name)
        outputs.append(output)
    return tuple(outputs)


def free_rest(scope: Scope, outputs: tuple[wir.Argument, ...]) -> None:
    """Free what Inductor leaves to the end of the Python function."""
    kept = {output.name for output in outputs if isinstance(output, wir.BufferRef)}
    for name in [name for name in scope.live if name not in kept]:
        scope.free(name)


def finished_definitions(session: "Session") -> tuple[wir.DefinitionLine, ...]:
    """Return the kernels, with the accesses that their calls have shown."""
    definitions = dict(session.definitions)
    for name, position in session.read_write:
        definition = definitions[name]
        parameters = list(definition.parameters)
        parameter = parameters[position]
        assert isinstance(parameter, BufferParameter)
        parameters[position] = evolve(parameter, access=Access.READ_WRITE)
        definitions[name] = evolve(definition, parameters=tuple(parameters))
    return tuple(definitions.values())


def build_block(wrapper: "CaptureWrapper") -> None:
    """Keep the block of a subgraph in the session."""
    raise _unsupported(wrapper)
